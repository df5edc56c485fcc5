package explore

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// event is what the source of a world has at one position: every dispatcher that it concerns meets it there.
type event struct {
	at   fsm.Position
	spec fsm.BarrierSpec
	// words are the spec's in a script.
	words string
	// before and after are the stops of the track on both sides of it.
	before, after uint8
}

// An index into Track is how far something has come. Rows lie on every way from one stop to the next that is not an event.

// prepare finds the events' places on the track.
func (w *World) prepare() error {
	for i := range w.Events {
		e := &w.Events[i]
		before := fsm.BarrierKey{At: e.at}.Before()
		b, a := w.stop(before), w.stop(e.at)
		if b < 0 || a != b+1 {
			return fmt.Errorf("world %s: the track does not stop before and after the event at %s", w.Name, e.at)
		}
		e.before, e.after = uint8(b), uint8(a)
	}
	return nil
}

// stop is the place of a position on the track, -1 if it has none.
func (w *World) stop(p fsm.Position) int {
	for i := range w.Track {
		if w.Track[i] == p {
			return i
		}
	}
	return -1
}

// concerns says whether dispatchers of a table meet the event.
func (e *event) concerns(t *tableShape) bool {
	switch {
	case t.Trigger:
		return e.spec.TriggerTakesPart()
	case e.spec.Influence == fsm.InfluenceAll:
		return true
	}
	for _, ref := range e.spec.Tables {
		if ref.Schema == t.Schema && ref.Name == t.Name {
			return true
		}
	}
	return false
}

// ahead returns the event that a dispatcher of the table stands before at a stop, -1 if it can go on.
func (w *World) ahead(t *tableShape, stop uint8) int {
	for i := range w.Events {
		if w.Events[i].before == stop && w.Events[i].concerns(t) {
			return i
		}
	}
	return -1
}

// eventNumber is the place of a barrier's event in the world, -1 if it is not of the world.
func (w *World) eventNumber(at fsm.Position) int {
	for i := range w.Events {
		if w.Events[i].at == at {
			return i
		}
	}
	return -1
}

// barrier returns the open barrier of an event.
func (sh *shape) barrier(e *event) *fsm.Barrier {
	for i := range sh.open {
		if sh.open[i].Key.At == e.at {
			return &sh.open[i]
		}
	}
	return nil
}

// key names an event in the changefeed's present run.
func (sh *shape) key(e *event) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: sh.feeds[0].ID, Run: sh.feeds[0].Run, At: e.at}
}

func (e *event) word() string { return fmt.Sprintf("%s@%d", e.at.Stage, e.at.TS) }

// earlier is what a trigger at the event names as the one before: the newest before it that it took part in, or the
// beginning.
func (w *World) earlier(e *event) fsm.Position {
	at := w.Track[0]
	for i := range w.Events {
		if before := &w.Events[i]; before.at.Less(e.at) && before.spec.TriggerTakesPart() {
			at = before.at
		}
	}
	return at
}

// askSay is a node's word about an event for one placement.
func (w *World) askSay(sh *shape, a action) ask {
	row, e, what := &sh.rows[a.a], &w.Events[a.b], fsm.BarrierSaid(a.c)
	r := w.saying(sh, e, what, &sh.tabs[row.table])
	r.Pairs = []fsm.Pair{{Dispatcher: row.ID, Epoch: row.Epoch}}
	name := nodeName(row.node)
	return ask{
		command: &fsm.ReportBarrier{Node: name, Incarnation: row.Incarnation, Reports: []fsm.BarrierReport{r}},
		line:    w.sayLine(sh, row.node, &r, e, fmt.Sprintf("%s@%s", dispatcherWord(row.ID), row.Epoch)),
	}
}

// askSayAll is a node's word for everything that it runs, but the trigger.
func (w *World) askSayAll(sh *shape, a action) ask {
	e, what := &w.Events[a.b], fsm.BarrierSaid(a.c)
	r := w.saying(sh, e, what, nil)
	r.All, r.SetHash = true, sh.nodes[a.a].crew
	return ask{
		command: &fsm.ReportBarrier{
			Node: nodeName(int(a.a)), Incarnation: sh.nodes[a.a].incarnation, Reports: []fsm.BarrierReport{r},
		},
		line: w.sayLine(sh, int(a.a), &r, e, "all"),
	}
}

func (w *World) saying(sh *shape, e *event, what fsm.BarrierSaid, t *tableShape) fsm.BarrierReport {
	r := fsm.BarrierReport{Key: sh.key(e), What: what}
	if b := sh.barrier(e); b != nil && what != fsm.SaidWaiting && what != fsm.SaidPassed {
		r.Permission = b.Permission
	}
	if what == fsm.SaidWaiting {
		r.Spec = e.spec
		if t != nil && t.Trigger {
			r.Earlier = w.earlier(e)
		}
	}
	return r
}

func (w *World) sayLine(sh *shape, node int, r *fsm.BarrierReport, e *event, whom string) string {
	line := fmt.Sprintf("say %s#%s %s %s %s %s", nodeName(node), sh.nodes[node].incarnation, r.What, feedName, e.word(), whom)
	if r.Permission != 0 {
		line += fmt.Sprintf(" perm=%d", r.Permission)
	}
	if r.Earlier != (fsm.Position{}) {
		line += " earlier=" + r.Earlier.String()
	}
	if r.What == fsm.SaidWaiting && e.words != "" {
		line += " " + e.words
	}
	return line
}

// askSayStale is everything about open events that a node must not be believed: of earlier epochs, of placements that
// are not its own, and the holder's words from others.
func (w *World) askSayStale(sh *shape, a action) ask {
	n := &sh.nodes[a.a]
	m := &fsm.ReportBarrier{Node: nodeName(int(a.a)), Incarnation: n.incarnation}
	var lines []string
	for i := range w.Events {
		e := &w.Events[i]
		for what := fsm.SaidWaiting; what <= fsm.SaidUnknown; what++ {
			r := w.saying(sh, e, what, nil)
			for d := range sh.rows {
				row := &sh.rows[d]
				r.Pairs = append(r.Pairs, fsm.Pair{Dispatcher: row.ID, Epoch: sh.old(row)})
				b := sh.barrier(e)
				other := row.node != int(a.a)
				word := what != fsm.SaidWaiting && what != fsm.SaidPassed && (b == nil || b.Writer != row.ID || b.WriterEpoch != row.Epoch)
				if row.placed() && (other || word) {
					r.Pairs = append(r.Pairs, fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch})
				}
			}
			m.Reports = append(m.Reports, r)
			var whom []string
			for _, p := range r.Pairs {
				whom = append(whom, fmt.Sprintf("%s@%s", dispatcherWord(p.Dispatcher), p.Epoch))
			}
			lines = append(lines, w.sayLine(sh, int(a.a), &r, e, strings.Join(whom, " ")))
		}
	}
	return ask{command: m, line: strings.Join(lines, "\n")}
}

func (w *World) askDecide(sh *shape, a action) ask {
	e, d := &w.Events[a.a], fsm.BarrierDecision(a.b)
	m := &fsm.DecideBarrier{Key: sh.key(e), Decision: d}
	if b := sh.barrier(e); b != nil {
		m.Permission = b.Permission
	}
	return ask{command: m, line: fmt.Sprintf("decide %s %s %s", feedName, e.word(), d)}
}

// askAdvance raises the watermark to a stop of the track, on the word of every node that runs a part.
func (w *World) askAdvance(sh *shape, a action) ask {
	feed, to := &sh.feeds[0], w.Track[a.a]
	m := &fsm.AdvanceCheckpoint{Changefeed: feed.ID, Run: feed.Run, To: to}
	for _, c := range sh.crews {
		hash := c.hash
		if a.kind == doAdvanceStale {
			hash++
		}
		m.Nodes = append(m.Nodes, fsm.NodeMinimum{Incarnation: c.inc, SetHash: hash, Minimum: to})
	}
	line := fmt.Sprintf("checkpoint %s to=%s *=%s", feedName, to, to)
	if a.kind == doAdvanceStale {
		line += " wrong=n1,n2,n3"
	}
	return ask{command: m, line: line}
}
