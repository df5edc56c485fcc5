// Package serve wires the parts of Weir into processes: a server, an agent, or both in one.
//
// It holds no rules: it opens files and sockets, hands each part what it declared that it needs, and stops them in
// order.
package serve

import (
	"io"
	"time"
)

// ServerConfig is what `weir server` needs.
type ServerConfig struct {
	// ID is the server's lasting identity; DataDir keeps its log, snapshots and identity.
	ID      string
	DataDir string
	// Cluster is the cluster's id; empty: the first leader of a new cluster makes one up.
	Cluster string
	// RaftAddress and GRPCAddress are bound on loopback.
	RaftAddress string
	GRPCAddress string
	// Peers are all voters of the cluster, this one included, as ID=RAFT_ADDRESS=GRPC_ADDRESS.
	Peers []Peer
	// Profile is "normal" or "fast"; see fence.Timing.
	Profile string
	// SnapshotThreshold, SnapshotInterval and TrailingLogs tune Raft's snapshots; zero means the defaults.
	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	TrailingLogs      int
	// TimingMultiplier stretches every time of Raft, 1 to 10; zero means 1.
	TimingMultiplier int
	// Agent, if set, also hosts dispatchers in this process.
	Agent *AgentConfig
	// LogOutput and LogLevel (hclog's words) are where and how much is logged.
	LogOutput io.Writer
	LogLevel  string
}

// Peer is a voter.
type Peer struct{ ID, RaftAddress, GRPCAddress string }

// AgentConfig is what `weir agent` needs.
type AgentConfig struct {
	// Node is the node's lasting name; DataDir keeps its lock file.
	Node    string
	DataDir string
	// Servers are gRPC addresses of control-plane servers.
	Servers []string
	// Cluster refuses servers of another cluster; empty: whatever they say.
	Cluster string
	// Profile is "normal" or "fast".
	Profile string
	// StopTimeout bounds a planned stop; zero means the runtime's default.
	StopTimeout time.Duration
	// WaitForName is how long to wait for the name while an older process of it may still hold a lease, as after a crash;
	// then, or at once if zero, the agent ends with NODE_LIVE.
	WaitForName time.Duration
	// LedgerFile, if set, receives a line for every edge of the gate and every call to a sink: evidence for checkers.
	LedgerFile string
	// contact, if set, says whether the server of the same process may answer; without it the node stays silent.
	contact   func() bool
	LogOutput io.Writer
	LogLevel  string
}
