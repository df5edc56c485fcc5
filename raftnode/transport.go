package raftnode

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

// wire is what raftnode needs of a Raft transport. The library's network and in-memory transports both are one. Pre-vote
// is part of it, since the library silently goes without when a transport lacks it.
type wire interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport makes Raft's calls serial. Its SetHeartbeatHandler does nothing, so that heartbeats reach Raft's main loop
// like every other call: handled beside the loop, a heartbeat of a new leader raises the term under a deposed one that is
// just storing an entry, which then carries a term in which nobody proposed it, and committed states diverge. It also
// refuses pipelines: with one call in flight per peer a follower cannot receive heartbeats while its entries are stuck,
// and answers to calls sent long ago cannot keep a leader's lease alive.
//
// It is also where the fault hooks for the network are.
type transport struct {
	wire
	faults *FaultHooks
}

// SetHeartbeatHandler does nothing, see [transport].
func (*transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline is refused, see [transport].
func (*transport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries sends entries or a heartbeat.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	rpc := RPCAppendEntries
	if isHeartbeat(q) {
		rpc = RPCHeartbeat
	}
	return t.call(id, rpc, func() error { return t.wire.AppendEntries(id, to, q, a) })
}

// isHeartbeat recognises a heartbeat as the library's network transport does.
func isHeartbeat(q *raft.AppendEntriesRequest) bool {
	return q.Term != 0 && q.PrevLogEntry == 0 && q.PrevLogTerm == 0 && len(q.Entries) == 0 && q.LeaderCommitIndex == 0
}

// RequestVote asks for a vote.
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse) error {
	return t.call(id, RPCRequestVote, func() error { return t.wire.RequestVote(id, to, q, a) })
}

// RequestPreVote asks whether a vote would be given.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse) error {
	return t.call(id, RPCRequestPreVote, func() error { return t.wire.RequestPreVote(id, to, q, a) })
}

// InstallSnapshot sends a snapshot.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.call(id, RPCInstallSnapshot, func() error { return t.wire.InstallSnapshot(id, to, q, a, data) })
}

// TimeoutNow asks a server to start an election at once.
func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest, a *raft.TimeoutNowResponse) error {
	return t.call(id, RPCTimeoutNow, func() error { return t.wire.TimeoutNow(id, to, q, a) })
}

func (t *transport) call(id raft.ServerID, rpc RPC, do func() error) error {
	peer := fsm.ServerID(id)
	if err := t.faults.send(peer, rpc); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return t.faults.answered(peer, rpc)
}
