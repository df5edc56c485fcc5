package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Peer is a server of the cluster, oneself included.
type Peer struct {
	ID          fsm.ServerID
	RaftAddress string
}

// Timing has one knob: the ratios that safety and liveness rest on stay as they are.
type Timing struct {
	// Multiplier stretches every time of Raft; 1 to 10, zero means 1. Raise it on slow disks or networks.
	Multiplier int
}

// The times at multiplier 1.
const (
	baseHeartbeat = 300 * time.Millisecond
	baseElection  = 300 * time.Millisecond
	baseLease     = 150 * time.Millisecond
	baseCommit    = 20 * time.Millisecond
	maxMultiplier = 10
)

func (t Timing) times(d time.Duration) time.Duration { return d * time.Duration(max(1, t.Multiplier)) }

// Heartbeat is how long a follower waits for its leader before it looks for another.
func (t Timing) Heartbeat() time.Duration { return t.times(baseHeartbeat) }

// Election is how long a candidate waits for votes.
func (t Timing) Election() time.Duration { return t.times(baseElection) }

// Lease is how long a leader goes on without a quorum.
func (t Timing) Lease() time.Duration { return t.times(baseLease) }

// Commit is how often a leader tells followers what is committed while nothing happens.
func (t Timing) Commit() time.Duration { return t.times(baseCommit) }

// Defaults of Config.
const (
	DefaultCommitTimeout     = time.Second
	DefaultProposeTimeout    = 5 * time.Second
	DefaultStoreDeadline     = 5 * time.Second
	DefaultShutdownTimeout   = 5 * time.Second
	DefaultSnapshotThreshold = 8192
	DefaultSnapshotInterval  = 30 * time.Second
	DefaultTrailingLogs      = 10240
)

// Config of a node. Zero durations and counts mean the defaults.
type Config struct {
	// ID is this server's lasting name; it must be among Peers.
	ID fsm.ServerID
	// Cluster is the cluster's id. Empty: that of the data folder, else that of the log, else the first leader draws one.
	Cluster string
	// DataDir holds log, snapshots and identity. It is created if it is missing.
	DataDir string
	// RaftBind is where other servers are listened to, host:port on loopback. RaftAdvertise is where they find this
	// server; empty means as in Peers.
	RaftBind, RaftAdvertise string
	// GRPCAddress is what this server announces to clients and other servers.
	GRPCAddress string
	// Peers are the servers of a new cluster, the same list on each of them; later the log counts.
	Peers []Peer

	Timing Timing
	// CommitTimeout: a leader with a proposal that has not committed for so long gives up leadership.
	CommitTimeout time.Duration
	// ProposeTimeout bounds each proposal and read whose context has no earlier deadline.
	ProposeTimeout time.Duration
	// StoreDeadline: a write to disk that takes longer ends the server.
	StoreDeadline time.Duration
	// ShutdownTimeout bounds the wait for Raft at the end.
	ShutdownTimeout time.Duration
	// ContactTimeout: without a word from the leader for so long, contact is lost. Zero means twice the heartbeat.
	ContactTimeout time.Duration

	SnapshotThreshold uint64
	SnapshotInterval  time.Duration
	// TrailingLogs are kept in the log behind a snapshot, so that a follower which was away needs none. Negative means
	// none at all, for tests.
	TrailingLogs int

	Logger hclog.Logger
	Clock  clock.Clock
	Timers clock.Timers
	// Appends is told when entries are received; may be nil.
	Appends AppendObserver
	// Faults is nil in production.
	Faults *FaultHooks
	// Generation gives the generation of a new cluster: minutes of wall clock.
	Generation func() fsm.Generation
	// Wall gives Unix milliseconds, for display.
	Wall func() int64
	// Lead is called once for each term of this server, when its BeginTerm has been applied; the context ends with the
	// term, and Lead must then return soon: the next term begins only after it. May be nil.
	Lead func(ctx context.Context, term uint64)
	// Forward proposes through the leader while this server does not lead; it is how a follower announces itself. May be
	// nil: then only leaders announce themselves.
	Forward func(ctx context.Context, p fsm.Proposal) (fsm.Verdict, error)
}

// withDefaults returns c with every zero value filled in.
func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.CommitTimeout, c.Timing.times(DefaultCommitTimeout))
	set(&c.ProposeTimeout, DefaultProposeTimeout)
	set(&c.StoreDeadline, DefaultStoreDeadline)
	set(&c.ShutdownTimeout, DefaultShutdownTimeout)
	set(&c.ContactTimeout, 2*c.Timing.Heartbeat())
	set(&c.SnapshotInterval, DefaultSnapshotInterval)
	if c.SnapshotThreshold == 0 {
		c.SnapshotThreshold = DefaultSnapshotThreshold
	}
	if c.TrailingLogs == 0 {
		c.TrailingLogs = DefaultTrailingLogs
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.RaftAdvertise == "" {
		c.RaftAdvertise = c.peerAddress(c.ID)
	}
	return c
}

func (c *Config) peerAddress(id fsm.ServerID) string {
	for _, p := range c.Peers {
		if p.ID == id {
			return p.RaftAddress
		}
	}
	return ""
}

// Validate says in one sentence what is wrong with the configuration of a server on disk.
func (c *Config) Validate() error {
	if err := c.validateCommon(); err != nil {
		return err
	}
	if c.DataDir == "" {
		return errors.New("no data folder is given: name one that is this server's alone")
	}
	if err := loopback("the Raft address to listen on", c.RaftBind); err != nil {
		return err
	}
	for _, p := range c.Peers {
		if err := loopback(fmt.Sprintf("the Raft address of server %s", p.ID), p.RaftAddress); err != nil {
			return err
		}
	}
	if c.RaftAdvertise != "" && c.RaftAdvertise != c.peerAddress(c.ID) {
		return fmt.Errorf("server %s advertises %s but the peer list says %s: make them equal", c.ID, c.RaftAdvertise, c.peerAddress(c.ID))
	}
	return nil
}

func (c *Config) validateCommon() error {
	switch {
	case c.ID == "":
		return errors.New("no server id is given: give this server a name that stays the same for ever")
	case len(c.ID) > maxHelloField || len(c.Cluster) > maxHelloField:
		return fmt.Errorf("server and cluster ids may have at most %d bytes: choose a shorter one", maxHelloField)
	case len(c.Peers) == 0:
		return errors.New("no peers are given: list every server of the cluster, this one included")
	case c.Timing.Multiplier < 0 || c.Timing.Multiplier > maxMultiplier:
		return fmt.Errorf("the timing multiplier is %d: it must be between 1 and %d", c.Timing.Multiplier, maxMultiplier)
	case c.Clock == nil || c.Timers == nil || c.Wall == nil || c.Generation == nil:
		return errors.New("a clock, timers, the wall clock and the generation are needed")
	}
	return c.validatePeers()
}

func (c *Config) validatePeers() error {
	addresses := make(map[string]fsm.ServerID, len(c.Peers))
	seen := make(map[fsm.ServerID]bool, len(c.Peers))
	for _, p := range c.Peers {
		if p.ID == "" || p.RaftAddress == "" {
			return fmt.Errorf("a peer has id %q and Raft address %q: both are needed", p.ID, p.RaftAddress)
		}
		if seen[p.ID] {
			return fmt.Errorf("server %s is listed twice among the peers: list each server once", p.ID)
		}
		if other, taken := addresses[p.RaftAddress]; taken {
			return fmt.Errorf("servers %s and %s have the same Raft address %s: give each its own", other, p.ID, p.RaftAddress)
		}
		seen[p.ID], addresses[p.RaftAddress] = true, p.ID
	}
	if !seen[c.ID] {
		return fmt.Errorf("server %s is not among the peers: add it to the list with its Raft address", c.ID)
	}
	return nil
}

// loopback refuses addresses that others can reach: whoever connects to the Raft port can append entries.
func loopback(what, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s is %q: it must be host:port", what, address)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s is %s: only loopback addresses are allowed, because connections between servers have no TLS yet", what, address)
}

// raftConfig is the library's configuration.
func (c *Config) raftConfig() *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.ID)
	rc.HeartbeatTimeout = c.Timing.Heartbeat()
	rc.ElectionTimeout = c.Timing.Election()
	rc.LeaderLeaseTimeout = c.Timing.Lease()
	rc.CommitTimeout = c.Timing.Commit()
	rc.MaxAppendEntries = 64
	rc.BatchApplyCh = false     // it breaks the meaning of the enqueue timeout
	rc.ShutdownOnRemove = false // Raft would stop quietly inside a process that looks alive
	rc.SnapshotThreshold = c.SnapshotThreshold
	rc.SnapshotInterval = c.SnapshotInterval
	rc.TrailingLogs = uint64(max(0, c.TrailingLogs))
	rc.NoLegacyTelemetry = true
	rc.Logger = c.Logger.Named("raft")
	return rc
}

// configuration is the membership of a new cluster. It is the same on every server, so that their first entries are one.
func (c *Config) configuration() raft.Configuration {
	var conf raft.Configuration
	for _, p := range slices.SortedFunc(slices.Values(c.Peers), func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) }) {
		conf.Servers = append(conf.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.RaftAddress),
		})
	}
	return conf
}

// HighestLevel is the highest feature level that this server understands.
const HighestLevel = fsm.HighestLevel
