package raftnode

import (
	"context"
	"errors"
	"time"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

const (
	announceSoon  = 100 * time.Millisecond
	announceLater = time.Second
)

// announce makes the state say where this server is called and what it understands: it looks at the state, and proposes
// until the state says so; as the leader itself, else through [Config.Forward].
func (n *Node) announce(ctx context.Context) {
	if n.cfg.GRPCAddress == "" {
		return
	}
	for {
		wait := announceLater
		if !n.announced() {
			if err := n.proposeAnnouncement(ctx); err != nil {
				n.log.Debug("announce this server", "error", err)
			}
			wait = announceSoon
		}
		if clock.Sleep(ctx, n.cfg.Timers, wait) != nil {
			return
		}
	}
}

func (n *Node) announced() bool {
	view, fault := n.machine.View()
	if fault != nil {
		return true // nothing to do any more
	}
	s, ok := view.Server(n.cfg.ID)
	return ok && s.Address == n.cfg.GRPCAddress && s.HighestLevel == HighestLevel
}

func (n *Node) proposeAnnouncement(ctx context.Context) error {
	p := fsm.Proposal{By: string(n.cfg.ID), Command: &fsm.AnnounceServer{
		Server: n.cfg.ID, Address: n.cfg.GRPCAddress, HighestLevel: HighestLevel,
	}}
	if _, leads := n.lead.leading(); leads {
		return Outcome(n.Propose(ctx, p))
	}
	if n.cfg.Forward == nil {
		return errors.New("nobody forwards proposals")
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CommitTimeout)
	defer cancel()
	v, err := n.cfg.Forward(ctx, p)
	return Outcome([]fsm.Verdict{v}, err)
}
