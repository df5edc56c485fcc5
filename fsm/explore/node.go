package explore

import (
	"cmp"
	"slices"
)

// life says what a node has made of a placement.
type life uint8

const (
	unheard  life = iota // it has not heard of it
	building             // it obeyed a start
	running
	stopped // reported so until that is acknowledged
	failed  // its start failed
)

// writes says whether something may be written under the placement.
func (l life) writes() bool { return l == building || l == running }

// ended says whether the node has the end of the placement to report.
func (l life) ended() bool { return l == stopped || l == failed }

// doing says what a placement that stands before an event has made of it.
type doing uint8

const (
	waits  doing = iota // or moves, where there is no event
	writes              // it obeys the order to write
	wrote               // and has: it says so until that is acknowledged
	unsure              // it cannot know whether it has
	passes              // it obeys the order to pass, and says so until that is acknowledged
)

// A mark is where in the log a state stood, as far as one node can tell it: 0 is at or before the newest mark that it has
// obeyed, later ones are counted in order. Only orders from states at or after 0 are obeyed.
type mark uint8

// open is the end of what still lasts.
const open mark = 255

// record is what a node, and the network to it, may still hold of one placement.
type record struct {
	// row is the dispatcher's rank while the placement is current in the state machine, -1 afterwards.
	row   int8
	cells cells
	life  life
	// ran: it has run, so that the report of this may still enter the log.
	ran bool
	// said is how it ended by a report that is still on its way from a node that has forgotten it.
	said life
	// from is the stop of the track at which it started, at the one that it has reached; tells whether its stop report has
	// the position.
	from, at uint8
	tells    bool
	// doing is about the event at at. The orders to write and to pass an event, from 1, may reach it.
	doing       doing
	write, pass uint8
	// The states from starts up to startsEnd ordered its start, those from stops up to stopsEnd its stop; the one at ended
	// was the first in which it was not current.
	starts, startsEnd, stops, stopsEnd, ended mark
}

// maxRecords bounds what one node and the network to it may hold.
const maxRecords = 5

// proposed says whether an expiry is on its way, and whether it still expects the last tick.
type proposed uint8

const (
	notProposed proposed = iota
	proposedFresh
	proposedStale
)

// node is the newest process under a name, and its incarnation.
type node struct {
	// there: it has an incarnation that has not ended.
	there bool
	// fenced: its lease is over. It runs nothing and obeys nothing; what it has reported may still arrive.
	fenced bool
	// paused: its lease is over for now; an ack opens it again. asked says whether the leader's proposal to expire it is on
	// its way. Both only in worlds with leases.
	paused bool
	asked  proposed
	// late are the cells that earlier, paused processes under the name would go on writing if they got an ack.
	late cells
	// undead are the cells that earlier processes under the name go on writing.
	undead  cells
	count   uint8
	records [maxRecords]record
}

// latest is the newest mark in use.
func (n *node) latest() mark {
	top := mark(0)
	for i := range n.count {
		r := &n.records[i]
		for _, m := range [...]mark{r.starts, r.startsEnd, r.stops, r.stopsEnd, r.ended} {
			if m != open {
				top = max(top, m)
			}
		}
	}
	return top
}

// add makes room for a record; false if the bound is reached.
func (n *node) add(r record) bool {
	if n.count == maxRecords {
		return false
	}
	n.records[n.count] = r
	n.count++
	return true
}

func (n *node) drop(i uint8) {
	n.count--
	n.records[i] = n.records[n.count]
	n.records[n.count] = record{}
}

// past counts the records of placements that are not current any more.
func (n *node) past() int {
	past := 0
	for i := range n.count {
		if n.records[i].row < 0 {
			past++
		}
	}
	return past
}

// mayStart says whether a start can still reach the node and be obeyed, mayStop the same of a stop.
func (r *record) mayStart() bool { return r.starts < r.startsEnd }
func (r *record) mayStop() bool  { return r.stops < r.stopsEnd }

// obey raises the newest mark obeyed to m: nothing older counts from now on.
func (n *node) obey(m mark) {
	for i := range n.count {
		r := &n.records[i]
		for _, p := range [...]*mark{&r.starts, &r.startsEnd, &r.stops, &r.stopsEnd, &r.ended} {
			switch {
			case *p == open:
			case *p > m:
				*p -= m
			default:
				*p = 0
			}
		}
	}
}

// tidy brings the node into its one form: what cannot matter any more is cleared, marks are counted without gaps, records
// are in order.
func (n *node) tidy(rules *NodeRules) {
	if !n.there {
		*n = node{undead: n.undead, late: n.late}
		return
	}
	for i := uint8(0); i < n.count; {
		r := &n.records[i]
		n.clear(r, rules)
		if r.row < 0 && r.life == unheard && !r.mayStart() && !r.mayStop() {
			n.drop(i)
			continue
		}
		i++
	}
	n.renumber()
	slices.SortFunc(n.records[:n.count], compareRecords)
}

// clear forgets what can make no difference. Orders for a placement that the node has heard of, or that it will never
// obey, are such, unless its rules let it forget what it has heard of.
func (n *node) clear(r *record, rules *NodeRules) {
	if r.life != unheard && !rules.ForgetsMark && !rules.ForgetsOnReport || n.fenced {
		r.starts, r.startsEnd, r.stops, r.stopsEnd = 0, 0, 0, 0
	}
	if !r.mayStart() {
		r.starts, r.startsEnd = 0, 0
	}
	if !r.mayStop() {
		r.stops, r.stopsEnd = 0, 0
	}
	if r.row >= 0 {
		r.ended = open
	} else {
		*r = record{
			row: -1, cells: r.cells, life: r.life, starts: r.starts, startsEnd: r.startsEnd, stops: r.stops, stopsEnd: r.stopsEnd,
			ended: r.ended,
		}
	}
	if n.fenced && r.row < 0 {
		*r = record{row: -1}
	}
	if r.life.ended() || n.fenced {
		r.write, r.pass = 0, 0
	}
}

// renumber counts the marks at which a node's newest mark can come to be, and puts the ends between them.
func (n *node) renumber() {
	var stations [3 * maxRecords]mark
	used := 0
	for i := range n.count {
		r := &n.records[i]
		for _, m := range [...]mark{r.starts, r.stops, r.ended} {
			if m != 0 && m != open && !slices.Contains(stations[:used], m) {
				stations[used] = m
				used++
			}
		}
	}
	known := stations[:used]
	slices.Sort(known)
	for i := range n.count {
		r := &n.records[i]
		for _, p := range [...]*mark{&r.starts, &r.stops, &r.ended} {
			if *p != 0 && *p != open {
				*p = mark(below(known, *p) + 1)
			}
		}
		for _, p := range [...]*mark{&r.startsEnd, &r.stopsEnd} {
			if *p != 0 && *p != open {
				*p = mark(below(known, *p) + 1)
			}
		}
	}
}

// below counts the stations before m.
func below(known []mark, m mark) int {
	for i, s := range known {
		if s >= m {
			return i
		}
	}
	return len(known)
}

func compareRecords(x, y record) int {
	return cmp.Or(
		cmp.Compare(x.row, y.row), cmp.Compare(x.cells, y.cells), cmp.Compare(x.life, y.life), cmp.Compare(x.at, y.at),
		cmp.Compare(x.from, y.from), cmp.Compare(x.doing, y.doing), cmp.Compare(x.write, y.write), cmp.Compare(x.pass, y.pass),
		cmp.Compare(b2i(x.tells), b2i(y.tells)), cmp.Compare(b2i(x.ran), b2i(y.ran)), cmp.Compare(x.said, y.said),
		cmp.Compare(x.starts, y.starts), cmp.Compare(x.startsEnd, y.startsEnd),
		cmp.Compare(x.stops, y.stops), cmp.Compare(x.stopsEnd, y.stopsEnd), cmp.Compare(x.ended, y.ended),
	)
}

// code writes the node down.
func (n *node) code(c []byte) []byte {
	c = append(c, b2i(n.there)|b2i(n.fenced)<<1|b2i(n.paused)<<2|byte(n.asked)<<3|n.count<<5, byte(n.undead), byte(n.late))
	for i := range n.count {
		r := &n.records[i]
		c = append(c, byte(r.row), byte(r.cells), byte(r.cells>>8), byte(r.life)|b2i(r.ran)<<3|byte(r.said)<<4|b2i(r.tells)<<7, r.from|r.at<<4,
			byte(r.doing)|r.write<<4, r.pass,
			byte(r.starts), byte(r.startsEnd), byte(r.stops), byte(r.stopsEnd), byte(r.ended))
	}
	return c
}
