package control

import (
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// checkSet asks a node for its list when what it runs has differed from the state for a while. Differences are usual for
// as long as a report or its ack is under way, hence the wait, which is longer while orders are pending.
func (r *reign) checkSet(k *link, view *fsm.View, equal bool, at clock.Reading) {
	lasting := k.contact.differing(!equal && !k.hasReports(), at)
	after := askAfter
	if view.HasPending(k.inc) || k.hasStrays() {
		after = askAfterBusy
	}
	if lasting <= after || !k.askList(view) {
		return
	}
	r.counters.listsAsked.Add(1)
	r.log.Info("what the node runs differs from the state, asking for its list", "node", k.hello.Node, "for", lasting)
}

// list compares what a node holds with the state. Pairs that are not current must stop. Placements that run by the state
// and that the node does not hold are ordered to stop as well: only the node may say that something has stopped, and it
// answers that it has.
func (r *reign) list(k *link, pairs []session.Pair) {
	asked := k.listed()
	view := r.fresh()
	if !r.owns(view) {
		return
	}
	held := make(map[session.Pair]struct{}, len(pairs))
	var stop []session.Pair
	for _, p := range pairs {
		if p.Epoch > view.Meta().LastEpoch {
			k.close(staleServer("epoch", p.Epoch, view.Meta().LastEpoch))
			return
		}
		held[p] = struct{}{}
		if !isCurrent(view, k.inc, p) {
			stop = append(stop, p)
		}
	}
	stop = append(stop, missing(asked, view, k.inc, held)...)
	k.contact.differing(false, clock.Reading{})
	r.stray(k, stop...)
}

// missing returns what ran by the state when the question was asked, still does, and is not held. What began to run
// later may be younger than the list.
func missing(asked, now *fsm.View, inc fsm.Incarnation, held map[session.Pair]struct{}) []session.Pair {
	if asked == nil {
		return nil
	}
	var out []session.Pair
	for row := range asked.DispatchersOn(inc) {
		p := session.Pair{Dispatcher: row.ID, Epoch: row.Epoch}
		_, holds := held[p]
		if holds || row.Phase != fsm.Running || !isCurrent(now, inc, p) {
			continue
		}
		out = append(out, p)
	}
	return out
}
