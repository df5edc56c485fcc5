package control

import (
	"context"
	"slices"
	"time"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// expiries looks each tick period for incarnations whose lease is over whatever their clocks say.
func (r *reign) expiries(ctx context.Context) error { return r.every(ctx, r.cfg.Timing.Tick, r.expire) }

func (r *reign) expire(ctx context.Context) error {
	view := r.fresh()
	if !r.owns(view) {
		return nil
	}
	now := r.cfg.Clock.Now()
	nodes, live := leased(view)
	due := r.tracker.Due(now, nodes)
	for batch := range slices.Chunk(r.guard.Admit(now, due, live), perProposal) {
		r.proposeExpiries(ctx, view, batch)
	}
	r.counters.held.Store(uint64(r.guard.Held(due)))
	return nil
}

// leased returns the incarnations that can hold a lease, and how many of them are live.
func leased(view *fsm.View) (nodes []fence.Node, live int) {
	for n := range view.Nodes() {
		if ended(n.Status) {
			continue
		}
		if n.Status == fsm.NodeStatusLive {
			live++
		}
		nodes = append(nodes, fence.Node{
			Incarnation: uint64(n.Incarnation), LastTick: n.LastTick, Lease: leaseOf(n),
			Class: clock.Class(n.ClockClass), Fenced: n.Status == fsm.NodeStatusFenced,
		})
	}
	return nodes, live
}

func leaseOf(n fsm.Node) time.Duration { return time.Duration(n.LeaseMS) * time.Millisecond }

// ended says whether an incarnation can never hold a lease again.
func ended(s fsm.NodeStatus) bool { return s != fsm.NodeStatusLive && s != fsm.NodeStatusFenced }

func (r *reign) proposeExpiries(ctx context.Context, view *fsm.View, batch []fence.Expirable) {
	commands := make([]fsm.Command, 0, len(batch))
	silent := make([]time.Duration, 0, len(batch))
	for _, e := range batch {
		n, ok := view.NodeOf(fsm.Incarnation(e.Incarnation))
		if !ok {
			continue
		}
		commands = append(commands, &fsm.ExpireNode{Node: n.Name, Incarnation: n.Incarnation, ExpectTick: e.ExpectTick})
		silent = append(silent, e.Silent)
	}
	if len(commands) == 0 {
		return
	}
	verdicts, err := r.propose(ctx, byLeader, commands...)
	if err != nil || len(verdicts) != len(commands) {
		r.log.Debug("expiry not applied, it is tried again", "error", err)
		return
	}
	for i, v := range verdicts {
		if !v.OK() {
			r.counters.expiriesRefused.Add(1)
			continue
		}
		r.counters.expiries.Add(1)
		r.log.Info("node expired", "node", v.Facts.Node, "incarnation", v.Facts.Incarnation, "silent", silent[i], "index", v.Index)
	}
	r.kick()
}
