package control

import (
	"context"
	"slices"
	"time"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// HolderKind says what kind of thing holds a watermark where it is.
type HolderKind uint8

// The kinds of holders.
const (
	// HolderDispatcher runs nowhere, or has not run yet: it counts with its stored position.
	HolderDispatcher HolderKind = iota + 1
	// HolderBarrier is an open event.
	HolderBarrier
	// HolderNode runs the dispatcher that has come least far.
	HolderNode
	// HolderUnheard is a node that has not told in this term how far what it runs has come.
	HolderUnheard
	// HolderSet is a node whose word is about another set of dispatchers than the state's: reports are on their way.
	HolderSet
)

// String is the kind's word.
func (k HolderKind) String() string {
	switch k {
	case HolderDispatcher:
		return "dispatcher"
	case HolderBarrier:
		return "barrier"
	case HolderNode:
		return "node"
	case HolderUnheard:
		return "node-not-heard"
	case HolderSet:
		return "node-set-differs"
	default:
		return "unset"
	}
}

// Holder is what holds a changefeed's watermark.
type Holder struct {
	Kind HolderKind
	// Dispatcher and Phase are set for a dispatcher, Barrier for an event, Node and Incarnation where one has to do with it.
	Dispatcher  fsm.DispatcherID
	Phase       fsm.Phase
	Barrier     fsm.BarrierKey
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	// At is how far it lets the watermark go; zero for a node that is not heard.
	At fsm.Position
}

// holding is a holder and since when it has been that one, whatever the position.
type holding struct {
	Holder
	since clock.Reading
}

// checkpoints raises watermarks.
func (r *reign) checkpoints(ctx context.Context) error {
	return r.every(ctx, checkpointEvery, func(ctx context.Context) error {
		var again []fsm.ChangefeedID
		for try := range checkpointTries {
			view := r.fresh()
			if !r.owns(view) || r.isOver() {
				return nil
			}
			asks := r.advances(view, again, try == 0)
			if again = r.advance(ctx, asks); len(again) == 0 {
				return nil
			}
		}
		return nil
	})
}

// advances says how far the watermarks can be raised: of all changefeeds, or of those listed.
func (r *reign) advances(view *fsm.View, only []fsm.ChangefeedID, all bool) []fsm.Command {
	var asks []fsm.Command
	now, holders := r.cfg.Clock.Now(), make(map[fsm.ChangefeedID]holding)
	for feed := range view.Changefeeds() {
		if feed.Status == fsm.ChangefeedIsRemoving || (!all && !slices.Contains(only, feed.ID)) {
			continue
		}
		ask, holder := r.bound(view, feed)
		holders[feed.ID] = holding{holder, now}
		if ask != nil {
			asks = append(asks, ask)
		}
	}
	r.hold(holders, all)
	return asks
}

// bound says how far the watermark of a changefeed can go, and what holds it there. The command is nil if it cannot go
// on: Apply would refuse it.
func (r *reign) bound(view *fsm.View, feed fsm.Changefeed) (*fsm.AdvanceCheckpoint, Holder) {
	to, holder := stored(view, feed)
	ask := &fsm.AdvanceCheckpoint{Changefeed: feed.ID, Run: feed.Run}
	for inc := range view.Crews(feed.ID) {
		least, word := r.leastOf(view, feed.ID, inc)
		if word.Kind != HolderNode {
			return nil, word
		}
		_, hash := view.Crew(feed.ID, inc)
		ask.Nodes = append(ask.Nodes, fsm.NodeMinimum{Incarnation: inc, SetHash: hash, Minimum: least})
		if holder.Kind == 0 || least.Less(to) {
			to, holder = least, word
		}
	}
	if holder.Kind == 0 || !feed.Watermark.Less(to) {
		return nil, holder
	}
	ask.To = to
	return ask, holder
}

// stored says how far the state itself lets a watermark go; the holder's kind is zero if it sets no bound.
func stored(view *fsm.View, feed fsm.Changefeed) (fsm.Position, Holder) {
	at, f := view.CheckpointBound(feed)
	h := Holder{Dispatcher: f.Dispatcher, Node: f.Node, Incarnation: f.Incarnation, At: at}
	if f.Dispatcher != 0 {
		row, _ := view.Dispatcher(f.Dispatcher)
		h.Kind, h.Phase = HolderDispatcher, row.Phase
		return at, h
	}
	for b := range view.Barriers(feed.ID) {
		h.Kind, h.Barrier = HolderBarrier, b.Key
		break
	}
	return at, h
}

// leastOf says how far what an incarnation runs of a changefeed has come, by its newest heartbeat.
func (r *reign) leastOf(view *fsm.View, feed fsm.ChangefeedID, inc fsm.Incarnation) (fsm.Position, Holder) {
	n, _ := view.NodeOf(inc)
	h := Holder{Kind: HolderUnheard, Node: n.Name, Incarnation: inc}
	c := r.contact(inc)
	if c == nil {
		return fsm.Position{}, h
	}
	c.sets.mark(view, feed, inc)
	crew, heard := c.crew(feed)
	_, hash := view.Crew(feed, inc)
	least, known := crew.Minimum, heard && crew.SetHash == hash
	if heard && !known {
		least, known = c.sets.now(crew)
	}
	switch {
	case known:
		h.Kind, h.At = HolderNode, least
	case heard:
		h.Kind = HolderSet
	}
	return least, h
}

// advance proposes; it returns the changefeeds whose sets had changed by then.
func (r *reign) advance(ctx context.Context, asks []fsm.Command) (again []fsm.ChangefeedID) {
	for batch := range slices.Chunk(asks, perProposal) {
		verdicts, err := r.propose(ctx, byLeader, batch...)
		if err != nil || len(verdicts) != len(batch) {
			r.log.Debug("watermarks not applied, the next ones follow", "error", err)
			return nil
		}
		for i, v := range verdicts {
			if v.OK() {
				r.counters.checkpoints.Add(1)
				continue
			}
			r.counters.checkpointsRefused.Add(1)
			if ask, ok := batch[i].(*fsm.AdvanceCheckpoint); ok {
				again = append(again, ask.Changefeed)
			}
		}
	}
	return again
}

// hold remembers what holds each watermark, and since when.
func (r *reign) hold(news map[fsm.ChangefeedID]holding, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for feed, h := range news {
		if old, ok := r.holders[feed]; ok && old.same(h) {
			h.since = old.since
			news[feed] = h
		}
		if !all {
			r.holders[feed] = h
		}
	}
	if all {
		r.holders = news
	}
}

// same says whether it is the same thing that holds the watermark.
func (h holding) same(o holding) bool {
	return h.Kind == o.Kind && h.Dispatcher == o.Dispatcher && h.Barrier == o.Barrier && h.Incarnation == o.Incarnation
}

// heldBy returns what holds a watermark and for how long.
func (r *reign) heldBy(feed fsm.ChangefeedID) (Holder, time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := r.holders[feed]
	if !ok || h.Kind == 0 {
		return Holder{}, 0, false
	}
	return h.Holder, clock.MaxElapsed(h.since, r.cfg.Clock.Now()), true
}
