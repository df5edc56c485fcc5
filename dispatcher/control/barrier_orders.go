package control

import (
	"maps"
	"slices"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// told is what one session has been told to do about events.
type told map[fsm.BarrierKey]toldBarrier

type toldBarrier struct {
	order fsm.BarrierOrder
	mark
}

// barriers derives what must be said now about events: what is new, and what was said long enough ago. It reports
// whether the state wants anything.
func (g *outgoing) barriers(view *fsm.View, inc fsm.Incarnation, now clock.Reading) (say []fsm.BarrierOrder, wanted bool) {
	for o := range view.BarrierOrders(inc) {
		wanted = true
		if len(say) == barriersPerLook {
			g.dirty = true // the rest follows with the next look
			break
		}
		before, sent := g.told[o.Key]
		if sent && covers(&before.order, &o) && clock.MinElapsed(before.at, now) < repeatEvery {
			before.round = g.round
			g.told[o.Key] = before
			g.remind(before.mark)
			continue
		}
		m := mark{at: now, round: g.round}
		g.told[o.Key] = toldBarrier{o, m}
		g.remind(m)
		say = append(say, o)
	}
	if !g.dirty {
		maps.DeleteFunc(g.told, func(_ fsm.BarrierKey, t toldBarrier) bool { return t.round != g.round })
	}
	return say, wanted
}

// covers says whether what was said before asks for everything that o asks for.
func covers(before, o *fsm.BarrierOrder) bool {
	if before.Action != o.Action || before.Permission != o.Permission || before.All != o.All || before.SetHash != o.SetHash {
		return false
	}
	for _, p := range o.Pairs {
		if !slices.Contains(before.Pairs, p) {
			return false
		}
	}
	return true
}

// packBarriers adds messages with what must be said about events.
func (g *outgoing) packBarriers(meta fsm.Meta, say []fsm.BarrierOrder) {
	for part := range slices.Chunk(say, barriersPerMessage) {
		g.batch = append(g.batch, session.Orders{Term: meta.Term, Index: meta.Index, Barriers: part, More: true})
	}
}
