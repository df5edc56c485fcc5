package raftnode

import (
	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

// Raft lets tests look underneath.
func (n *Node) Raft() *raft.Raft { return n.raft }

// ApplyRaw puts bytes into the log as they are.
func (n *Node) ApplyRaw(data []byte) error {
	_, err := unwrap(n.raft.Apply(data, n.cfg.CommitTimeout), 1)
	if err == nil {
		return nil
	}
	return err
}

// LastHash is the hash of the last state, also after a fault.
func (n *Node) LastHash() fsm.Digest {
	n.machine.mu.Lock()
	defer n.machine.mu.Unlock()
	return n.machine.state.Hash()
}

// ProposeStamped lets a test propose in a term of its choice.
func ProposeStamped(term uint64, c fsm.Command) fsm.Proposal {
	return fsm.Proposal{Term: term, Command: c}
}
