package control

import (
	"context"

	"github.com/weir-project/weir/fsm"
)

// drains confirms drains: when the state has nothing on a draining node any more and the node, in a heartbeat heard since,
// says that it holds nothing and has carried out all that it was ordered.
func (r *reign) drains(ctx context.Context) error {
	return r.every(ctx, drainsEvery, func(ctx context.Context) error {
		view := r.fresh()
		if !r.owns(view) {
			return nil
		}
		for n := range view.Nodes() {
			if !n.Draining || n.DrainedAt != 0 || n.Status != fsm.NodeStatusLive || view.DrainLeft(n) > 0 {
				continue
			}
			c := r.contact(n.Incarnation)
			if c == nil {
				continue
			}
			if empty, _ := c.holdsNothing(); empty {
				r.confirmDrain(ctx, n)
			}
		}
		return nil
	})
}

func (r *reign) confirmDrain(ctx context.Context, n fsm.Node) {
	verdicts, err := r.propose(ctx, byLeader, &fsm.ConfirmDrain{Node: n.Name, Incarnation: n.Incarnation})
	switch {
	case err != nil || len(verdicts) != 1:
		r.log.Debug("end of drain not applied, it is tried again", "node", n.Name, "error", err)
	case !verdicts[0].OK():
		r.log.Debug("end of drain refused", "node", n.Name, "reason", verdicts[0].Reason)
	default:
		r.counters.drained.Add(1)
		r.log.Info("node drained", "node", n.Name, "incarnation", n.Incarnation, "index", verdicts[0].Index)
	}
}
