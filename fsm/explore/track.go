package explore

import "github.com/weir-project/weir/fsm"

// What dispatchers do along the track: they write rows, stand before events, and write or pass them as ordered.

// told is the position of a stop report as an operand.
func (r *record) told() uint8 {
	if r.tells {
		return r.at + 1
	}
	return 0
}

// owes says whether the holder of a permission has still to say what it made of the event: that goes before "stopped".
func (r *record) owes(w *World, sh *shape) bool {
	if r.doing != wrote && r.doing != unsure {
		return false
	}
	row := &sh.rows[r.row]
	e := w.ahead(&sh.tabs[row.table], r.at)
	if e < 0 {
		return false
	}
	b := sh.barrier(&w.Events[e])
	holds := b != nil && b.Status == fsm.BarrierInWriting && b.Writer == row.ID && b.WriterEpoch == row.Epoch
	return holds && (r.doing != unsure || !b.Unknown)
}

// writing says whether the node is writing an event.
func (n *node) writing() bool {
	for i := range n.count {
		if n.records[i].doing == writes {
			return true
		}
	}
	return false
}

// recordOf is the record of the dispatcher's current placement.
func (s *state) recordOf(row int8) *record {
	for i := range s.nodes {
		n := &s.nodes[i]
		for j := range n.count {
			if n.records[j].row == row {
				return &n.records[j]
			}
		}
	}
	return nil
}

// ofEvents: what a node has to say of events for a current placement, and, where reports may be late, had to say.
func (t *stepper) ofEvents(s *state, r *record, buf []action) []action {
	w, d := t.world, uint8(r.row)
	table := &s.at.shape.tabs[s.at.shape.rows[r.row].table]
	say := func(i int, what fsm.BarrierSaid) {
		buf = append(buf, action{kind: doSay, a: d, b: uint8(i), c: uint8(what)})
	}
	for i := range w.Events {
		e := &w.Events[i]
		if !e.concerns(table) || r.from > e.before {
			continue
		}
		if w.Late && r.at > e.before {
			say(i, fsm.SaidWaiting)
			say(i, fsm.SaidPassed)
		}
		if r.at != e.before {
			continue
		}
		say(i, fsm.SaidWaiting)
		switch r.doing {
		case passes:
			say(i, fsm.SaidPassed)
		case wrote:
			say(i, fsm.SaidWritten)
		case unsure:
			say(i, fsm.SaidUnknown)
		case waits:
			if r.life.ended() && s.at.shape.rows[r.row].write == uint8(i+1) {
				say(i, fsm.SaidNotBegun)
			}
		case writes:
		}
	}
	return buf
}

// ofRunning: what a running placement may do next.
func (t *stepper) ofRunning(s *state, r *record, i, j uint8, buf []action) []action {
	step := func(k kind, c uint8) { buf = append(buf, action{kind: k, a: i, b: j, c: c}) }
	w := t.world
	if r.doing != writes {
		step(nodeStops, 0)
	}
	if len(w.Track) == 0 {
		return buf
	}
	if r.doing != writes {
		step(nodeStops, 1)
	}
	if r.row < 0 {
		return buf
	}
	row := &s.at.shape.rows[r.row]
	ahead := w.ahead(&s.at.shape.tabs[row.table], r.at)
	switch {
	case ahead < 0:
		if int(r.at) < len(w.Track)-1 {
			step(nodeMoves, 0)
		}
	case r.doing == waits:
		if int(r.write) == ahead+1 {
			step(nodeBegins, 0)
		}
		if int(r.pass) == ahead+1 {
			step(nodePasses, 0)
		}
	case r.doing == writes:
		step(nodeWrites, 0)
		if w.Unsure {
			step(nodeUnsure, 0)
			step(nodeUnsure, 1)
		}
	case r.doing == wrote || r.doing == passes:
		if counted := !row.Position.Less(w.Events[ahead].at); counted || w.Node.ForgetsEvent {
			step(nodeGoesOn, 0)
		}
	}
	return buf
}

// eventStep is a step along the track.
func (t *stepper) eventStep(s *state, r *record, a action) error {
	//exhaustive:ignore
	switch a.kind {
	case nodeMoves:
		return t.moves(s, r)
	case nodeBegins:
		r.doing, r.write = writes, 0
	case nodeWrites:
		r.doing = wrote
		return t.downstream(s, r)
	case nodeUnsure:
		r.doing = unsure
		if a.c == 1 {
			return t.downstream(s, r)
		}
	case nodePasses:
		r.doing, r.pass = passes, 0
		return t.checkPass(s, r)
	default: // nodeGoesOn
		r.doing, r.write, r.pass = waits, 0, 0
		r.at++
		s.reach(r)
	}
	return nil
}

// moves writes rows up to the next stop.
func (t *stepper) moves(s *state, r *record) error {
	w := t.world
	table := &s.at.shape.tabs[s.at.shape.rows[r.row].table]
	r.at++
	for i := range w.Events {
		e := &w.Events[i]
		if r.at > e.before || !e.concerns(table) {
			continue
		}
		b := s.at.shape.barrier(e)
		if s.written&(1<<i) != 0 || b != nil && b.Status == fsm.BarrierInWriting {
			return broken("rows before an event are not written after it", "rows up to %s, event %s", w.Track[r.at], e.word())
		}
	}
	s.reach(r)
	return nil
}

// reach notes what a placement has got downstream. One that is being removed does not count: its range begins anew.
func (s *state) reach(r *record) {
	if r.row < 0 || s.at.shape.rows[r.row].Leaving {
		return
	}
	for i := range s.done {
		if r.cells&(1<<i) != 0 {
			s.done[i] = max(s.done[i], r.at)
		}
	}
}

// downstream carries an event out: everybody whom it concerns must have reached it, and nobody be past it. What is
// downstream already has no effect: the sink's own record says so.
func (t *stepper) downstream(s *state, r *record) error {
	w := t.world
	i := w.ahead(&s.at.shape.tabs[s.at.shape.rows[r.row].table], r.at)
	e := &w.Events[i]
	if s.written&(1<<i) != 0 {
		return nil
	}
	sh := s.at.shape
	for d := range sh.rows {
		row := &sh.rows[d]
		if row.Leaving || !e.concerns(&sh.tabs[row.table]) {
			continue
		}
		for c := range w.Cells {
			if row.cells&(1<<c) != 0 && s.done[c] < e.before {
				return broken("an event is written when everybody has reached it", "%s, while %s is only at %s",
					e.word(), w.cellWords(1<<c), w.Track[s.done[c]])
			}
		}
	}
	s.written |= 1 << i
	s.leaveBehind(w, e)
	return nil
}

// leaveBehind: once an event is downstream, or skipped, all that stood before it is past it as far as data goes.
func (s *state) leaveBehind(w *World, e *event) {
	sh := s.at.shape
	for d := range sh.rows {
		row := &sh.rows[d]
		if !e.concerns(&sh.tabs[row.table]) {
			continue
		}
		for c := range w.Cells {
			if row.cells&(1<<c) != 0 && s.done[c] == e.before {
				s.done[c] = e.after
			}
		}
	}
}

func (t *stepper) checkPass(s *state, r *record) error {
	w := t.world
	i := w.ahead(&s.at.shape.tabs[s.at.shape.rows[r.row].table], r.at)
	if (s.written|s.skipped)&(1<<i) == 0 {
		return broken("nobody passes before the event is written", "dispatcher %d passes %s",
			s.at.shape.rows[r.row].ID, w.Events[i].word())
	}
	return nil
}

// checkTrack: nothing is called downstream that is not, and no event is being written by two.
func (t *stepper) checkTrack(s *state) error {
	w := t.world
	if len(w.Track) == 0 {
		return nil
	}
	sh := s.at.shape
	for d := range sh.rows {
		row := &sh.rows[d]
		if row.Leaving {
			continue
		}
		at, mark := w.stop(row.Position), w.stop(sh.feeds[0].Watermark)
		for c := range w.Cells {
			if row.cells&(1<<c) == 0 {
				continue
			}
			if at > int(s.done[c]) {
				return broken("nothing is left out", "dispatcher %d is to start at %s, and only what is up to %s is downstream",
					row.ID, row.Position, w.Track[s.done[c]])
			}
			if mark > int(s.done[c]) {
				return broken("what is up to the watermark is downstream", "it is at %s, and dispatcher %d has come to %s",
					sh.feeds[0].Watermark, row.ID, w.Track[s.done[c]])
			}
		}
	}
	return t.checkWriters(s)
}

func (t *stepper) checkWriters(s *state) error {
	writers := 0
	for i := range t.world.Nodes {
		for j := range s.nodes[i].count {
			if s.nodes[i].records[j].doing == writes {
				writers++
			}
		}
	}
	if writers > 1 {
		return broken("one writes an event at a time", "%d do", writers)
	}
	return nil
}

// advances: the watermark may be raised to any stop that every node allows for what it runs of the changefeed.
func (t *stepper) advances(s *state, buf []action) []action {
	w, sh := t.world, s.at.shape
	least := len(w.Track) - 1
	for d := range sh.rows {
		row := &sh.rows[d]
		if !row.HasRun {
			continue
		}
		r := s.recordOf(int8(d))
		if r == nil {
			return buf
		}
		at := int(r.at)
		if ahead := w.ahead(&sh.tabs[row.table], r.at); ahead >= 0 && w.Node.WaitsBeyond {
			at = int(w.Events[ahead].after)
		}
		least = min(least, at)
	}
	for i := 0; i <= least; i++ {
		if sh.feeds[0].Watermark.Less(w.Track[i]) {
			buf = append(buf, action{kind: doAdvance, a: uint8(i)})
		}
	}
	return buf
}

// votes: a node speaks for everything that it runs when all of that stands at one event.
func (t *stepper) votes(s *state, n int, buf []action) []action {
	w, sh := t.world, s.at.shape
	for i := range w.Events {
		waiting, passing, some := true, true, false
		for d := range sh.rows {
			row := &sh.rows[d]
			if row.node != n || !row.HasRun || sh.tabs[row.table].Trigger {
				continue
			}
			r := s.recordOf(int8(d))
			some = true
			stands := r.at == w.Events[i].before && r.ran && w.Events[i].concerns(&sh.tabs[row.table])
			waiting = waiting && stands
			passing = passing && stands && r.doing == passes
		}
		if some && waiting {
			buf = append(buf, action{kind: doSayAll, a: uint8(n), b: uint8(i), c: uint8(fsm.SaidWaiting)})
		}
		if some && passing {
			buf = append(buf, action{kind: doSayAll, a: uint8(n), b: uint8(i), c: uint8(fsm.SaidPassed)})
		}
	}
	return buf
}
