package oracle

import "github.com/weir-project/weir/fsm"

func (m *model) tick(c *fsm.Tick, e fsm.Entry) answer {
	if m.tickedTerm == e.Term {
		m.timeMS += min(uint64(c.ElapsedMS), 1000)
	}
	m.tickedTerm = e.Term
	a := yes()
	for i := range len(c.Bits) * 8 {
		if c.Bits[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		n := m.nodeOf(c.Base + fsm.Incarnation(i))
		if n == nil || n.status != fsm.NodeStatusLive {
			a.refused = append(a.refused, c.Base+fsm.Incarnation(i))
			continue
		}
		n.lastTick = m.index
	}
	m.forgetRequests()
	for _, op := range m.operators {
		op.stuck = op.stuck || op.deadline <= m.timeMS
	}
	for _, b := range m.events {
		b.stuck = b.stuck || (b.deadline <= m.timeMS && m.feeds[b.key.Changefeed].status == fsm.ChangefeedRunning)
	}
	return a
}

// nodeOf finds the node whose newest incarnation it is.
func (m *model) nodeOf(inc fsm.Incarnation) *node {
	for _, n := range m.nodes {
		if n.inc == inc {
			return n
		}
	}
	return nil
}

func (m *model) nameOf(inc fsm.Incarnation) fsm.NodeName {
	if n := m.nodeOf(inc); n != nil {
		return n.name
	}
	return ""
}

func (m *model) register(c *fsm.RegisterNode) answer {
	badClock := c.ClockClass != fsm.ClockBootRaw && c.ClockClass != fsm.ClockMonotonic
	if c.Node == "" || c.LeaseMS < 200 || c.LeaseMS > 30_000 || badClock || c.Protocol == 0 {
		return no(fsm.Malformed)
	}
	old := m.nodes[c.Node]
	if old != nil && !old.ended() {
		return no(fsm.NodeLive)
	}
	if old == nil && len(m.nodes) >= int(m.policy.MaxNodes) {
		var oldest *node
		for _, n := range m.nodes {
			if n.ended() && !n.draining && (oldest == nil || n.inc < oldest.inc) {
				oldest = n
			}
		}
		if oldest == nil {
			return no(fsm.LimitReached)
		}
		delete(m.nodes, oldest.name)
	}
	m.incarnation++
	n := &node{name: c.Node, inc: m.incarnation, status: fsm.NodeStatusLive, lastTick: m.index}
	n.draining = old != nil && old.draining
	m.nodes[c.Node] = n
	return yes()
}

// current checks that a node speaks for its newest incarnation, and that this has not ended.
func (m *model) current(name fsm.NodeName, inc fsm.Incarnation) (*node, answer) {
	n := m.nodes[name]
	switch {
	case n == nil:
		return nil, no(fsm.UnknownNode)
	case n.inc != inc:
		return nil, no(fsm.StaleIncarnation)
	case n.ended():
		return nil, no(fsm.NodeExpired)
	default:
		return n, yes()
	}
}

func (m *model) fence(c *fsm.FenceNode) answer {
	inc := c.Incarnation
	if n := m.nodes[c.Node]; n != nil && inc == 0 {
		inc = n.inc
	}
	n, a := m.current(c.Node, inc)
	if n == nil {
		return a
	}
	if n.status == fsm.NodeStatusFenced {
		return no(fsm.NodeFenced)
	}
	n.status = fsm.NodeStatusFenced
	return a
}

func (m *model) expire(c *fsm.ExpireNode) answer {
	n, a := m.current(c.Node, c.Incarnation)
	if n == nil {
		return a
	}
	if n.lastTick != c.ExpectTick {
		return no(fsm.StaleExpire)
	}
	m.end(n, fsm.NodeStatusExpired)
	return a
}

func (m *model) goodbye(c *fsm.Goodbye) answer {
	n, a := m.current(c.Node, c.Incarnation)
	if n == nil {
		return a
	}
	for _, p := range c.Stopped {
		if d := m.placed(p.Dispatcher, c.Incarnation, p.Epoch); d != nil && p.HasPosition && known(p.Position) {
			d.at = m.stoppedAt(d, p.Position)
		}
	}
	m.end(n, fsm.NodeStatusGone)
	return a
}

// end takes everything from an incarnation. What waited for it goes on; what was going to it comes back.
func (m *model) end(n *node, status fsm.NodeStatus) {
	n.status = status
	var going []fsm.OpID
	for _, op := range inOrder(m.operators) {
		if op.to == n.inc {
			going = append(going, op.id)
		}
	}
	for _, d := range inOrder(m.dispatchers) {
		if now := m.dispatchers[d.id]; now != nil && now.phase != fsm.Absent && now.inc == n.inc {
			m.placementEnded(now, end{})
		}
	}
	for _, id := range going {
		if op := m.operators[id]; op != nil && !op.aborting {
			m.abort(op, fsm.OpFailed)
		}
	}
}

func (m *model) startDrain(c *fsm.StartDrain) answer {
	n := m.nodes[c.Node]
	switch {
	case n == nil:
		return no(fsm.UnknownNode)
	case n.draining:
		return no(fsm.NodeDraining)
	}
	n.draining, n.confirmed = true, false
	return yes()
}

func (m *model) clearDrain(c *fsm.ClearDrain) answer {
	n := m.nodes[c.Node]
	switch {
	case n == nil:
		return no(fsm.UnknownNode)
	case !n.draining:
		return no(fsm.NodeNotDraining)
	}
	n.draining, n.confirmed = false, false
	return yes()
}

func (m *model) confirmDrain(c *fsm.ConfirmDrain) answer {
	n, a := m.current(c.Node, c.Incarnation)
	switch {
	case n == nil:
		return a
	case !n.draining:
		return no(fsm.NodeNotDraining)
	case m.carries(n.inc) > 0:
		return no(fsm.NotDrained)
	}
	n.confirmed = true
	return a
}

// carries counts what an incarnation has, in any phase, and what is on its way to it.
func (m *model) carries(inc fsm.Incarnation) int {
	count := 0
	for _, d := range m.dispatchers {
		if d.phase != fsm.Absent && d.inc == inc {
			count++
		}
	}
	for _, op := range m.operators {
		if op.kind == fsm.OpMove && op.to == inc && !op.moved && !op.aborting {
			count++
		}
	}
	return count
}
