package explore

import "github.com/weir-project/weir/fsm"

// stepper finds and carries out what can happen next.
type stepper struct {
	world   *World
	machine *machine
}

// actions lists what can happen in a state, in an order that depends on the state alone.
func (t *stepper) actions(s *state, buf []action) []action {
	buf = append(buf, s.at.menu...)
	if t.world.asks(doAdvance) {
		buf = t.advances(s, buf)
	}
	for i := range t.world.Nodes {
		n := &s.nodes[i]
		if n.late != 0 && t.world.Node.AckRefused {
			buf = append(buf, action{kind: nodeRevived, a: uint8(i)})
		}
		if !n.there {
			continue
		}
		if t.world.AllAtOnce {
			buf = t.votes(s, i, buf)
		}
		buf = t.ofLease(s, uint8(i), buf)
		for j := range n.count {
			buf = t.ofReports(s, &n.records[j], buf)
			if !n.fenced {
				buf = t.ofNode(s, &n.records[j], uint8(i), j, buf)
			}
		}
	}
	return buf
}

// ofLease: a node may lose its lease at any time; only then it may be expired, or say goodbye.
func (t *stepper) ofLease(s *state, i uint8, buf []action) []action {
	n := &s.nodes[i]
	if t.world.Leases {
		return t.ofTicks(n, i, buf)
	}
	fenced := s.at.shape.nodes[i].status == fsm.NodeStatusFenced
	if !n.fenced && (t.world.losable(int(i)) || fenced) {
		buf = append(buf, action{kind: nodeFenced, a: i})
		if n.writing() {
			buf = append(buf, action{kind: nodeFenced, a: i, b: 1})
		}
	}
	if n.fenced || t.world.Node.LateFence {
		buf = append(buf, action{kind: doExpire, a: i}, action{kind: doGoodbye, a: i})
	}
	return buf
}

// ofTicks: with leases a node pauses when its time is over, and the tick that names it lets it go on. Whoever waits long
// enough after the last tick may propose to expire it, expecting that tick: by then the node has paused.
func (t *stepper) ofTicks(n *node, i uint8, buf []action) []action {
	if !n.paused {
		buf = append(buf, action{kind: nodeLate, a: i})
	}
	if n.asked == notProposed && (n.paused || t.world.Node.LateFence) {
		buf = append(buf, action{kind: askExpire, a: i})
	}
	switch n.asked {
	case proposedFresh:
		buf = append(buf, action{kind: doExpire, a: i})
	case proposedStale:
		buf = append(buf, action{kind: doExpireLate, a: i})
	case notProposed:
	}
	return append(buf, action{kind: doTick, a: i}, action{kind: doTick, a: i, b: 1})
}

// ofReports: whatever a node has had to say of a current placement may enter the log now.
func (t *stepper) ofReports(s *state, r *record, buf []action) []action {
	if r.row < 0 {
		return buf
	}
	d := uint8(r.row)
	if r.ran {
		buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportRunning)})
		buf = t.ofEvents(s, r, buf)
	}
	if r.owes(t.world, s.at.shape) {
		return buf
	}
	for _, end := range [...]life{r.life, r.said} {
		switch end {
		case stopped:
			buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportStopped), c: r.told()})
		case failed:
			buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportStartFailed)})
		case unheard, building, running:
		}
	}
	return buf
}

// ofNode: what a node may do with a placement.
func (t *stepper) ofNode(s *state, r *record, i, j uint8, buf []action) []action {
	step := func(k kind) { buf = append(buf, action{kind: k, a: i, b: j}) }
	switch {
	case r.life == unheard:
		if r.mayStart() {
			step(nodeStarts)
		}
		if r.mayStop() {
			step(nodeToldStop)
		}
	case r.life == building:
		step(nodeBuilt)
		step(nodeFails)
	case r.life == running:
		buf = t.ofRunning(s, r, i, j, buf)
	case r.row < 0: // ended, and no news to the state machine
		step(nodeAcked)
	case t.world.Node.ForgetsOnReport:
		step(nodeAcked)
	}
	return buf
}

// take carries out an action. It reports false if that leads out of the world's bounds, or nowhere; and the rule that is
// broken, if one is.
func (t *stepper) take(s *state, a action) (ok bool, err error) {
	if a.kind <= lastCommand {
		e := t.machine.step(s.at, a)
		if e.err != nil {
			return true, e.err
		}
		if !t.heard(s, a, e) {
			return false, nil
		}
	} else if err := t.nodeStep(s, a); err != nil {
		return true, err
	}
	s.tidy(t.world)
	if both := s.overlap(t.world); both != 0 {
		return true, broken("one writer per key", "two dispatchers write %s", t.world.cellWords(both))
	}
	return true, t.checkTrack(s)
}

// heard carries the nodes over a command; false if nothing has changed, or the world ends here.
func (t *stepper) heard(s *state, a action, e *edge) bool {
	told := false
	if a.kind == doSay && e.reports[0] == fsm.BarrierPass {
		r := s.recordOf(int8(a.a))
		told = r.pass != a.b+1 && r.life == running
		r.pass = a.b + 1
	}
	if a.kind == doTick || a.kind == doExpireLate {
		return s.nodes[a.a].ticked(a, e)
	}
	if e.still {
		return told
	}
	if a.kind == doDecide {
		switch fsm.BarrierDecision(a.b) {
		case fsm.DecideWritten: // people tell the truth
			if s.written&(1<<a.a) == 0 {
				return false
			}
		case fsm.DecideSkip:
			s.skipped |= 1 << a.a
			s.leaveBehind(t.world, &t.world.Events[a.a])
		case fsm.DecideWriteAgain:
		}
	}
	return s.follow(t.world, e)
}

// ticked: an accepted tick makes an expiry that is on its way expect too old a one, and its ack opens the gate. A refused
// expiry is over.
func (n *node) ticked(a action, e *edge) bool {
	was := *n
	switch {
	case a.kind == doExpireLate:
		n.asked = notProposed
	case e.refused == 0:
		if n.asked == proposedFresh {
			n.asked = proposedStale
		}
		n.paused = n.paused && a.b == 0
	}
	return *n != was
}

// nodeStep is a step of one node alone.
func (t *stepper) nodeStep(s *state, a action) error {
	n := &s.nodes[a.a]
	if a.kind == nodeFenced {
		return t.loseLease(s, n, a.b == 1)
	}
	r := &n.records[a.b]
	//exhaustive:ignore
	switch a.kind {
	case nodeLate:
		n.paused = true
	case askExpire:
		n.asked = proposedFresh
	case nodeRevived:
		n.undead, n.late = n.late, 0
	case nodeStarts:
		return t.starts(s, n, r)
	case nodeToldStop:
		r.life, r.tells = stopped, false
		n.obey(r.stops)
	case nodeBuilt:
		r.life, r.ran = running, true
	case nodeFails:
		r.life = failed
	case nodeStops:
		r.life, r.tells = stopped, a.c == 1
	case nodeAcked:
		t.acked(n, r)
	default:
		return t.eventStep(s, r, a)
	}
	return nil
}

// starts: it begins where it is ordered to.
func (t *stepper) starts(s *state, n *node, r *record) error {
	r.life = building
	n.obey(r.starts)
	if len(t.world.Track) > 0 && r.row >= 0 {
		r.from = uint8(t.world.stop(s.at.shape.rows[r.row].Position))
		r.at = r.from
	}
	return nil
}

// acked: the node forgets the placement and, with it, every order from before its end was known.
func (t *stepper) acked(n *node, r *record) {
	rules := &t.world.Node
	if rules.ForgetsOnReport && r.row >= 0 {
		r.said = r.life
	}
	r.life = unheard
	if !rules.ForgetsMark && !rules.ForgetsOnReport {
		n.obey(r.ended)
	}
}

// loseLease: nothing runs any more. What was reported before may still arrive; what was being written may have got
// downstream, or not.
func (t *stepper) loseLease(s *state, n *node, lands bool) error {
	n.fenced = true
	for i := range n.count {
		r := &n.records[i]
		if r.doing == writes {
			if lands {
				if err := t.downstream(s, r); err != nil {
					return err
				}
			}
			r.doing = waits
		}
		if r.life.writes() {
			r.life = unheard
		}
	}
	return nil
}
