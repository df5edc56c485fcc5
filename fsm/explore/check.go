package explore

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/fsm"
)

// ErrRule is what every violation found by the explorer itself wraps; those of the state machine wrap fsm.ErrInvariant.
var ErrRule = errors.New("rule broken")

func broken(rule, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrRule, rule, fmt.Sprintf(format, args...))
}

// apply carries out an action for real, on a fork, and checks what came of it. It needs at.mu.
func (m *machine) apply(at *standing, a action) *edge {
	w := m.world
	request := w.ask(at.shape, a)
	c := concrete{state: at.state.Fork()}
	p := fsm.Proposal{Command: request.command, Request: request.request}
	v := c.apply(p)[0]
	m.applied.Add(1)
	e := &edge{verdict: v.Reason, reports: v.Reports, refused: len(v.RefusedNames)}
	if a.kind == doRepeat {
		m.repeated(c, p, v, e)
		return e
	}
	after := w.shapeOf(c.state)
	e.follow(at.shape, after)
	e.to = m.enter(c.state, after)
	e.still = e.to == at && sameNumbers(at.shape.meta, after.meta)
	e.err = errors.Join(c.state.CheckInvariants(), checkStep(at.shape, after, a, e, v))
	return e
}

// repeated proposes the same request once more: the first answer comes back, and nothing happens.
func (m *machine) repeated(c concrete, p fsm.Proposal, first fsm.Verdict, e *edge) {
	before := m.world.shapeOf(c.state)
	again := c.apply(p)[0]
	if !again.Replayed || again.Reason != first.Reason || again.Facts != first.Facts {
		e.err = broken("one request takes effect once", "the first answer was %s, the second %s", first.Reason, again.Reason)
	}
	if after := m.world.shapeOf(c.state); digestOf(canonOf(before)) != digestOf(canonOf(after)) || !sameNumbers(before.meta, after.meta) {
		e.err = broken("one request takes effect once", "the second one changed something")
	}
}

// follow notes what became of each dispatcher.
func (e *edge) follow(before, after *shape) {
	e.rows, e.kept = make([]int8, len(before.rows)), make([]bool, len(before.rows))
	for i := range before.rows {
		was := &before.rows[i]
		to := after.rank(was.ID)
		e.rows[i] = int8(to)
		if to < 0 || !was.placed() {
			continue
		}
		is := &after.rows[to]
		e.kept[i] = is.placed() && is.Epoch == was.Epoch && is.Incarnation == was.Incarnation
	}
}

// sameNumbers says whether nothing was issued between two states.
func sameNumbers(a, b fsm.Meta) bool {
	a.Index, a.RaftTerm, a.TimeMS, a.TickedTerm = b.Index, b.RaftTerm, b.TimeMS, b.TickedTerm
	return a == b
}

// checkStep checks what only two states together can show.
func checkStep(before, after *shape, a action, e *edge, v fsm.Verdict) error {
	switch {
	case !v.OK() && !e.still:
		return broken("a refusal changes nothing", "%s did", v.Reason)
	case a.stale() && !e.still:
		return broken("stale input changes nothing", "it was answered %s %v", v.Reason, v.Reports)
	case a.kind == doTickEnded && len(v.RefusedNames) != 1:
		return broken("ended incarnations are never named by a tick", "the tick was answered %s", v.Reason)
	}
	return errors.Join(checkEnds(before, a, e), checkStarts(before, after, e), checkPositions(before, after, a, e), checkAdded(before, after, a))
}

// checkEnds: a placement ends by the word of its own node, or with its node.
func checkEnds(before *shape, a action, e *edge) error {
	for i := range before.rows {
		row := &before.rows[i]
		if !row.placed() || e.kept[i] {
			continue
		}
		byNode := a.kind == doReport && int(a.a) == i && fsm.ReportKind(a.b) != fsm.ReportRunning
		withNode := (a.kind == doExpire || a.kind == doGoodbye) && int(a.a) == row.node
		if !byNode && !withNode {
			return broken("a placement ends by its node's word or with its node", "dispatcher %d under %s", row.ID, row.Epoch)
		}
	}
	return nil
}

// checkStarts: a new placement has a new epoch, and is on a node that can take work.
func checkStarts(before, after *shape, e *edge) error {
	kept := map[fsm.DispatcherID]bool{}
	for i := range before.rows {
		if e.kept[i] {
			kept[before.rows[i].ID] = true
		}
	}
	for i := range after.rows {
		row := &after.rows[i]
		if !row.placed() || kept[row.ID] {
			continue
		}
		if row.Epoch <= before.meta.LastEpoch {
			return broken("epochs are never used twice", "dispatcher %d starts under %s", row.ID, row.Epoch)
		}
		if row.node < 0 || after.nodes[row.node].status != fsm.NodeStatusLive {
			return broken("nothing starts on a node that cannot take work", "dispatcher %d under %s", row.ID, row.Epoch)
		}
		if row.Phase != fsm.Starting {
			return broken("a placement begins with a start order", "dispatcher %d is %s at once", row.ID, row.Phase)
		}
	}
	return nil
}

// checkPositions: a position is raised only by a word of the placement that has it.
func checkPositions(before, after *shape, a action, e *edge) error {
	for i := range before.rows {
		was := &before.rows[i]
		if e.rows[i] < 0 {
			continue
		}
		is := &after.rows[e.rows[i]]
		switch {
		case is.Position.Less(was.Position):
			return broken("positions never go back", "dispatcher %d from %s to %s", was.ID, was.Position, is.Position)
		case is.Position != was.Position && !a.tells(i, was) && !raised(was, is, after):
			return broken("a position is raised by a word of its placement", "dispatcher %d from %s to %s", was.ID, was.Position, is.Position)
		}
	}
	if before.feeds[0].ID == after.feeds[0].ID && after.feeds[0].Watermark.Less(before.feeds[0].Watermark) {
		return broken("the watermark never goes back", "from %s to %s", before.feeds[0].Watermark, after.feeds[0].Watermark)
	}
	return nil
}

// tells says whether the action is a word about how far the dispatcher has come.
func (a action) tells(d int, row *rowShape) bool {
	//exhaustive:ignore
	switch a.kind {
	case doReport:
		return int(a.a) == d && a.c != 0
	case doSay:
		return int(a.a) == d
	case doSayAll, doGoodbye:
		return int(a.a) == row.node
	default:
		return false
	}
}

// raised says whether the position was raised to the watermark by a new placement: what is below is downstream.
func raised(was, is *rowShape, after *shape) bool {
	return is.Phase == fsm.Starting && is.Epoch != was.Epoch && is.Position == after.feeds[0].Watermark
}

// checkAdded: a table that an event adds starts at the event, so that it meets what follows at the same ts.
func checkAdded(before, after *shape, a action) error {
	if a.kind != doSay {
		return nil
	}
	for i := range after.rows {
		row := &after.rows[i]
		if before.hasTable(row.Table) {
			continue
		}
		if e := before.writing(); e == nil || row.Position != e.Key.At {
			return broken("a table that an event adds starts at the event", "dispatcher %d starts at %s", row.ID, row.Position)
		}
	}
	return nil
}

// writing is the barrier for which a permission is live.
func (sh *shape) writing() *fsm.Barrier {
	for i := range sh.open {
		if sh.open[i].Status == fsm.BarrierInWriting {
			return &sh.open[i]
		}
	}
	return nil
}
