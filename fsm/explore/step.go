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
	for i := range t.world.Nodes {
		n := &s.nodes[i]
		if !n.there {
			continue
		}
		buf = t.ofLease(s, uint8(i), buf)
		for j := range n.count {
			buf = t.ofReports(s, &n.records[j], buf)
			if !n.fenced {
				buf = t.ofNode(&n.records[j], uint8(i), j, buf)
			}
		}
	}
	return buf
}

// ofLease: a node may lose its lease at any time; only then it may be expired, or say goodbye.
func (t *stepper) ofLease(s *state, i uint8, buf []action) []action {
	n := &s.nodes[i]
	fenced := s.at.shape.nodes[i].status == fsm.NodeStatusFenced
	if !n.fenced && (t.world.Losses || fenced) {
		buf = append(buf, action{kind: nodeFenced, a: i})
	}
	if n.fenced || t.world.Node.LateFence {
		buf = append(buf, action{kind: doExpire, a: i}, action{kind: doGoodbye, a: i})
	}
	return buf
}

// ofReports: whatever a node has had to say of a current placement may enter the log now.
func (t *stepper) ofReports(s *state, r *record, buf []action) []action {
	if r.row < 0 {
		return buf
	}
	d := uint8(r.row)
	if r.ran {
		buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportRunning)})
	}
	for _, end := range [...]life{r.life, r.said} {
		switch end {
		case stopped:
			buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportStopped), c: r.at})
		case failed:
			buf = append(buf, action{kind: doReport, a: d, b: uint8(fsm.ReportStartFailed)})
		case unheard, building, running:
		}
	}
	return buf
}

// ofNode: what a node may do with a placement.
func (t *stepper) ofNode(r *record, i, j uint8, buf []action) []action {
	step := func(k kind, c uint8) { buf = append(buf, action{kind: k, a: i, b: j, c: c}) }
	switch {
	case r.life == unheard:
		if r.mayStart() {
			step(nodeStarts, 0)
		}
		if r.mayStop() {
			step(nodeToldStop, 0)
		}
	case r.life == building:
		step(nodeBuilt, 0)
		step(nodeFails, 0)
	case r.life == running:
		for at := 0; at <= len(t.world.Positions); at++ {
			step(nodeStops, uint8(at))
		}
	case r.row < 0: // ended, and no news to the state machine
		step(nodeAcked, 0)
	case t.world.Node.ForgetsOnReport:
		step(nodeAcked, 0)
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
		if e.to == s.at && e.still {
			return false, nil
		}
		if !s.follow(t.world, e) {
			return false, nil
		}
	} else {
		t.nodeStep(&s.nodes[a.a], a)
	}
	s.tidy(t.world)
	if both := s.overlap(t.world); both != 0 {
		return true, broken("one writer per key", "two dispatchers write %s", t.world.cellWords(both))
	}
	return true, nil
}

// nodeStep is a step of one node alone.
func (t *stepper) nodeStep(n *node, a action) {
	if a.kind == nodeFenced {
		n.loseLease()
		return
	}
	r := &n.records[a.b]
	switch a.kind {
	case nodeStarts:
		r.life = building
		n.obey(r.starts)
	case nodeToldStop:
		r.life, r.at = stopped, 0
		n.obey(r.stops)
	case nodeBuilt:
		r.life, r.ran = running, true
	case nodeFails:
		r.life = failed
	case nodeStops:
		r.life, r.at = stopped, a.c
	default: // nodeAcked
		t.acked(n, r)
	}
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

// loseLease: nothing runs any more. What was reported before may still arrive.
func (n *node) loseLease() {
	n.fenced = true
	for i := range n.count {
		if r := &n.records[i]; r.life.writes() {
			r.life = unheard
		}
	}
}
