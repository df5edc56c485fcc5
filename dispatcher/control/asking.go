package control

import (
	"context"
	"maps"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// question is an event that a node is asked about.
type question struct {
	inc fsm.Incarnation
	key fsm.BarrierKey
}

// asking remembers when the term has asked whom about what; of the asking loop alone.
type asking map[question]clock.Reading

// asks asks those again whom an event waits for. Words are repeated until they are answered, so this is for what nobody
// can see from here: a word that a node believes to have been answered, or never had.
func (r *reign) asks(ctx context.Context) error {
	asked := make(asking)
	return r.every(ctx, askMissingEvery, func(context.Context) error {
		view := r.fresh()
		if r.owns(view) {
			r.ask(view, asked)
		}
		return nil
	})
}

func (r *reign) ask(view *fsm.View, asked asking) {
	now := r.cfg.Clock.Now()
	maps.DeleteFunc(asked, func(q question, _ clock.Reading) bool {
		_, open := view.Barrier(q.key)
		return !open
	})
	left := asksPerRound
	for feed := range view.Changefeeds() {
		for b := range view.Barriers(feed.ID) {
			if left <= 0 {
				return
			}
			if isMissing(view, b) {
				left -= r.askFor(view, b, asked, now)
			}
		}
	}
}

// isMissing says whether the event has waited for nodes for so long that these should be asked.
func isMissing(view *fsm.View, b fsm.Barrier) bool {
	_, behind, unpassed := view.BarrierProgress(b.Key)
	waits := (b.Status == fsm.BarrierCollecting && behind > 0) || (b.Status == fsm.BarrierPassing && unpassed > 0)
	return waits && view.Meta().TimeMS-b.OpenedMS >= uint64(askMissingAfter.Milliseconds())
}

// askFor asks each node once that a running dispatcher is missing from; it returns how much of the round that took.
func (r *reign) askFor(view *fsm.View, b fsm.Barrier, asked asking, now clock.Reading) (looks int) {
	seen := make(map[fsm.Incarnation]bool)
	for row := range view.BarrierMissing(b) {
		if looks++; looks >= asksPerRound {
			break
		}
		q := question{row.Incarnation, b.Key}
		if row.Phase != fsm.Running || seen[q.inc] {
			continue
		}
		seen[q.inc] = true
		if at, before := asked[q]; before && clock.MinElapsed(at, now) < askAgainAfter {
			continue
		}
		c := r.contact(q.inc)
		if c == nil {
			continue
		}
		if k := c.connected(); k != nil && k.askBarriers(b.Key) {
			asked[q] = now
			r.counters.barriersAsked.Add(1)
			r.log.Debug("an event waits for a node, asking it again", "barrier", b.Key, "node", k.hello.Node)
		}
	}
	return looks
}
