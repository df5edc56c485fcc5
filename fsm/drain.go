package fsm

// A drain takes a node's work away and gives it no new one. The work is moved by the scheduler, with ordinary Moves; the
// state only says who must not be given work, how much is left, and when it was over. Nothing is stopped for a drain:
// what has nowhere else to go, because only draining nodes are left, stays where it runs.

func (m *StartDrain) apply(s *State, x entryContext) Verdict {
	n, ok := s.Node(m.Node)
	switch {
	case !ok:
		return refused(UnknownNode, Facts{Node: m.Node})
	case n.Draining:
		return refused(NodeDraining, nodeFacts(n))
	}
	n.Draining, n.DrainSince, n.DrainBy, n.DrainedAt = true, x.index, x.by, 0
	n.DrainFrom = s.Load(n.Incarnation).Placements
	s.setNode(n)
	return accepted(nodeFacts(n))
}

func (m *ClearDrain) apply(s *State, _ entryContext) Verdict {
	n, ok := s.Node(m.Node)
	switch {
	case !ok:
		return refused(UnknownNode, Facts{Node: m.Node})
	case !n.Draining:
		return refused(NodeNotDraining, nodeFacts(n))
	}
	n.Draining, n.DrainSince, n.DrainBy, n.DrainFrom, n.DrainedAt = false, 0, "", 0, 0
	s.setNode(n)
	return accepted(nodeFacts(n))
}

// A drain is over when the state has nothing on the node, in any phase or on its way, and the current incarnation itself
// says that it holds nothing.
func (m *ConfirmDrain) apply(s *State, x entryContext) Verdict {
	n, v := s.current(m.Node, m.Incarnation)
	switch {
	case !v.OK():
		return v
	case !n.Draining:
		return refused(NodeNotDraining, nodeFacts(n))
	}
	if left := s.DrainLeft(n); left > 0 {
		f := nodeFacts(n)
		f.Have = left
		return refused(NotDrained, f)
	}
	if n.DrainedAt == 0 {
		n.DrainedAt = x.index
		s.setNode(n)
	}
	return accepted(nodeFacts(n))
}

// DrainLeft is how many placements a node has, in any phase or on their way to it.
func (d *data) DrainLeft(n Node) uint64 {
	coming, _ := d.incoming.get(n.Incarnation)
	return uint64(d.Load(n.Incarnation).Placements) + uint64(coming)
}
