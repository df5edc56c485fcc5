package explore

import "github.com/weir-project/weir/fsm"

// maxNodes bounds the nodes of a world.
const maxNodes = 3

// state is a whole state of a world.
type state struct {
	at    *standing
	nodes [maxNodes]node
	// done is, for each cell, the stop of the track up to which everything is downstream; written the set of events that
	// are, skipped the set of those that somebody has decided to leave out.
	done             [maxCells]uint8
	written, skipped uint8
}

// maxCells bounds the cells of a world.
const maxCells = 6

// code writes the state down in its one form.
func (s *state) code(w *World, c []byte) []byte {
	n := s.at.number
	c = append(c, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	for i := range w.Nodes {
		c = s.nodes[i].code(c)
	}
	if len(w.Track) == 0 {
		return c
	}
	c = append(c, s.written, s.skipped)
	return append(c, s.done[:len(w.Cells)]...)
}

func (s *state) tidy(w *World) {
	for i := range w.Nodes {
		s.nodes[i].tidy(&w.Node)
	}
}

// overlap returns cells that two writers share: the promise that all of this is about.
func (s *state) overlap(w *World) cells {
	var seen, twice cells
	write := func(c cells) {
		twice |= seen & c
		seen |= c
	}
	for i := range w.Nodes {
		n := &s.nodes[i]
		write(n.undead)
		for j := range n.count {
			if n.records[j].life.writes() && !n.paused {
				write(n.records[j].cells)
			}
		}
	}
	return twice
}

// follow carries the nodes over a step of the state machine; false if the step leads out of the world's bounds.
func (s *state) follow(w *World, e *edge) bool {
	before, after := s.at.shape, e.to.shape
	s.at = e.to
	for i := range w.Nodes {
		if !s.nodes[i].there {
			s.nodes[i].there = live(after.nodes[i].status)
			continue
		}
		if !live(after.nodes[i].status) {
			s.nodes[i].end()
			continue
		}
		s.nodes[i].follow(before, after, e)
	}
	s.births(w, before, after)
	return s.placements(w, after, e)
}

// births: a table that was not there begins where its spans start; nothing before is due.
func (s *state) births(w *World, before, after *shape) {
	for d := range after.rows {
		row := &after.rows[d]
		if len(w.Track) == 0 || before.hasTable(row.Table) {
			continue
		}
		for i := range w.Cells {
			if row.cells&(1<<i) != 0 {
				s.done[i] = uint8(w.stop(row.Position))
			}
		}
	}
}

func (sh *shape) hasTable(id fsm.TableID) bool {
	for i := range sh.tabs {
		if sh.tabs[i].ID == id {
			return true
		}
	}
	return false
}

// live says whether an incarnation has not ended.
func live(st fsm.NodeStatus) bool { return st == fsm.NodeStatusLive || st == fsm.NodeStatusFenced }

// end is the end of a process in the eyes of the state machine.
func (n *node) end() {
	for i := range n.count {
		switch r := &n.records[i]; {
		case !r.life.writes():
		case n.paused:
			n.late |= r.cells
		default:
			n.undead |= r.cells
		}
	}
	*n = node{undead: n.undead, late: n.late}
}

// follow notes when orders for the node's placements began and ended to be right.
func (n *node) follow(before, after *shape, e *edge) {
	now := n.latest() + 1
	for i := range n.count {
		r := &n.records[i]
		if r.row < 0 {
			continue
		}
		was := &before.rows[r.row]
		row := e.rows[r.row]
		kept := e.kept[r.row]
		starting := kept && after.rows[row].Phase == fsm.Starting
		stopping := kept && after.rows[row].Phase == fsm.Stopping
		if was.Phase == fsm.Starting && !starting {
			r.startsEnd = now
		}
		if was.Phase != fsm.Stopping && stopping {
			r.stops, r.stopsEnd = now, open
		}
		if was.Phase == fsm.Stopping && !stopping {
			r.stopsEnd = now
		}
		if !kept {
			row, r.ended = -1, now
		} else if is := &after.rows[row]; is.write|is.pass != 0 {
			r.write, r.pass = max(is.write, r.write), max(is.pass, r.pass)
		}
		r.row = row
	}
}

// placements opens a record for each placement that the step has made.
func (s *state) placements(w *World, after *shape, e *edge) bool {
	for d := range after.rows {
		row := &after.rows[d]
		if !row.placed() || e.keeps(d) {
			continue
		}
		n := &s.nodes[row.node]
		r := record{row: int8(d), cells: row.cells, starts: n.latest() + 1, startsEnd: open, ended: open}
		if n.past() > w.Remembered || !n.add(r) {
			return false
		}
	}
	return true
}

// keeps says whether the dispatcher that is at d afterwards has the placement that it had before.
func (e *edge) keeps(d int) bool {
	for i, to := range e.rows {
		if int(to) == d {
			return e.kept[i]
		}
	}
	return false
}
