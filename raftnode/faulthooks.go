package raftnode

import "github.com/weir-project/weir/fsm"

// RPC names a call between servers, for fault hooks and logs.
type RPC uint8

// The calls between servers.
const (
	RPCAppendEntries RPC = iota + 1
	RPCHeartbeat
	RPCRequestVote
	RPCRequestPreVote
	RPCInstallSnapshot
	RPCTimeoutNow
)

// String names the call.
func (r RPC) String() string {
	switch r {
	case RPCAppendEntries:
		return "AppendEntries"
	case RPCHeartbeat:
		return "Heartbeat"
	case RPCRequestVote:
		return "RequestVote"
	case RPCRequestPreVote:
		return "RequestPreVote"
	case RPCInstallSnapshot:
		return "InstallSnapshot"
	case RPCTimeoutNow:
		return "TimeoutNow"
	default:
		return "RPC?"
	}
}

// FaultHooks let tests do what networks and disks do. All are nil in production; each may block to delay, and an error
// stands for the failure. They are called from several goroutines at once.
type FaultHooks struct {
	// Send is asked before a call to peer leaves; an error loses the call.
	Send func(peer fsm.ServerID, rpc RPC) error
	// Answered is asked when an answer has come back; an error loses the answer after the call was carried out.
	Answered func(peer fsm.ServerID, rpc RPC) error
	// StoreLogs is asked in place of the disk before entries first..last are stored.
	StoreLogs func(first, last uint64) error
	// StoreStable is asked before the term or the vote is stored.
	StoreStable func(key string) error
	// Apply is told before the entry at index is applied.
	Apply func(index uint64)
	// Proposed is told when an entry with that many commands is handed to Raft, after it was stamped with term.
	Proposed func(term uint64, commands int)
}

func (h *FaultHooks) send(peer fsm.ServerID, rpc RPC) error {
	if h == nil || h.Send == nil {
		return nil
	}
	return h.Send(peer, rpc)
}

func (h *FaultHooks) answered(peer fsm.ServerID, rpc RPC) error {
	if h == nil || h.Answered == nil {
		return nil
	}
	return h.Answered(peer, rpc)
}

func (h *FaultHooks) storeLogs(first, last uint64) error {
	if h == nil || h.StoreLogs == nil {
		return nil
	}
	return h.StoreLogs(first, last)
}

func (h *FaultHooks) storeStable(key []byte) error {
	if h == nil || h.StoreStable == nil {
		return nil
	}
	return h.StoreStable(string(key))
}

func (h *FaultHooks) apply(index uint64) {
	if h != nil && h.Apply != nil {
		h.Apply(index)
	}
}

func (h *FaultHooks) proposed(term uint64, commands int) {
	if h != nil && h.Proposed != nil {
		h.Proposed(term, commands)
	}
}
