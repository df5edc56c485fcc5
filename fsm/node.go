package fsm

// Bounds of what a node may register with. The wait before its work is given away follows from these and nothing else,
// so the longest wait of any node ever accepted is a constant.
const (
	MinLeaseMS = 200
	MaxLeaseMS = 30_000

	// ClockBootRaw reads CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW, ClockMonotonic the slewed clock alone.
	ClockBootRaw   = 1
	ClockMonotonic = 2

	maxName   = 128
	maxDetail = 1024
)

// MaxTickMS bounds what one tick adds to state-machine time, so that a leader with a broken clock cannot jump it.
const MaxTickMS = 1000

// Ends of placements that are nobody's failure.
const (
	EndedByExpiry   = "NODE_EXPIRED"
	EndedByGoodbye  = "NODE_GOODBYE"
	EndedByOperator = "OPERATOR"
	DestinationLost = "DESTINATION_LOST"
)

func (m *Tick) apply(s *State, x entryContext) Verdict {
	if s.meta.TickedTerm == x.term {
		s.meta.TimeMS += uint64(min(m.ElapsedMS, MaxTickMS))
	}
	s.meta.TickedTerm = x.term
	v := accepted(Facts{})
	for i := range len(m.Bits) * 8 {
		if m.Bits[i/8]>>(i%8)&1 == 0 {
			continue
		}
		inc := m.Base + Incarnation(i)
		if !s.heard(inc, x.index) {
			v.RefusedNames = append(v.RefusedNames, inc)
		}
	}
	s.forgetRequests()
	s.markStuck(x)
	return v
}

// heard counts a tick for the incarnation that it names: only a live one, and never one that was fenced.
func (s *State) heard(inc Incarnation, index uint64) bool {
	n, ok := s.NodeOf(inc)
	if !ok || n.Status != NodeStatusLive {
		return false
	}
	n.LastTick = index
	s.setNode(n)
	return true
}

func (m *RegisterNode) apply(s *State, x entryContext) Verdict {
	if v := m.check(); !v.OK() {
		return v
	}
	old, known := s.Node(m.Node)
	if known && (old.Status == NodeStatusLive || old.Status == NodeStatusFenced) {
		return refused(NodeLive, nodeFacts(old))
	}
	if !known && !s.roomForNode() {
		return refused(LimitReached, Facts{Limit: "nodes", Have: uint64(s.nodes.len()), Want: uint64(s.meta.Policy.MaxNodes)})
	}
	s.meta.LastIncarnation++
	n := Node{
		Name: m.Node, Incarnation: s.meta.LastIncarnation, Status: NodeStatusLive, LastTick: x.index,
		RegisteredAt: x.index, RegisteredMS: s.meta.TimeMS, Address: m.Address, LeaseMS: m.LeaseMS,
		ClockClass: m.ClockClass, Protocol: m.Protocol, BootID: m.BootID, LockDevice: m.LockDevice, LockInode: m.LockInode,
		Draining: old.Draining, DrainSince: old.DrainSince, DrainBy: old.DrainBy, DrainFrom: old.DrainFrom,
	}
	s.setNode(n)
	return accepted(nodeFacts(n))
}

func (m *RegisterNode) check() Verdict {
	switch {
	case m.Node == "" || len(m.Node) > maxName || len(m.Address) > maxName || len(m.BootID) > maxName:
		return malformed("node name is empty, or a name is longer than 128 bytes")
	case m.LeaseMS < MinLeaseMS || m.LeaseMS > MaxLeaseMS:
		return malformed("lease is not within 200 ms and 30 s")
	case m.ClockClass != ClockBootRaw && m.ClockClass != ClockMonotonic:
		return malformed("clock class is not known")
	case m.Protocol == 0:
		return malformed("protocol version is missing")
	default:
		return accepted(Facts{})
	}
}

// roomForNode makes room for a new name, if need be by forgetting the name that has been gone for the most
// registrations.
func (s *State) roomForNode() bool {
	if s.nodes.len() < int(s.meta.Policy.MaxNodes) {
		return true
	}
	_, name, ok := s.gone.oldest()
	if ok {
		n, _ := s.Node(name)
		s.forgetNode(n)
	}
	return ok
}

// ended says whether the newest incarnation owns nothing any more.
func (n *Node) ended() bool { return n.Status == NodeStatusExpired || n.Status == NodeStatusGone }

func nodeFacts(n Node) Facts {
	return Facts{Node: n.Name, Incarnation: n.Incarnation, LeaseMS: n.LeaseMS, Have: n.LastTick}
}

// current returns the node if inc is its newest incarnation and has not ended.
func (s *State) current(name NodeName, inc Incarnation) (Node, Verdict) {
	n, ok := s.Node(name)
	switch {
	case !ok:
		return n, refused(UnknownNode, Facts{Node: name})
	case n.Incarnation != inc:
		return n, refused(StaleIncarnation, nodeFacts(n))
	case n.ended():
		return n, refused(NodeExpired, nodeFacts(n))
	default:
		return n, accepted(nodeFacts(n))
	}
}

func (m *FenceNode) apply(s *State, _ entryContext) Verdict {
	if len(m.Why) > maxDetail {
		return malformed("the reason for a fence is longer than 1024 bytes")
	}
	inc := m.Incarnation
	if known, ok := s.Node(m.Node); ok && inc == 0 {
		inc = known.Incarnation
	}
	n, v := s.current(m.Node, inc)
	if !v.OK() {
		return v
	}
	if n.Status == NodeStatusFenced {
		return refused(NodeFenced, nodeFacts(n))
	}
	n.Status, n.FenceWhy = NodeStatusFenced, m.Why
	s.setNode(n)
	return accepted(nodeFacts(n))
}

func (m *ExpireNode) apply(s *State, x entryContext) Verdict {
	n, v := s.current(m.Node, m.Incarnation)
	if !v.OK() {
		return v
	}
	if n.LastTick != m.ExpectTick {
		return refused(StaleExpire, nodeFacts(n))
	}
	s.endIncarnation(n, NodeStatusExpired, ending{reason: EndedByExpiry, detail: "its lease is over"}, x)
	return accepted(nodeFacts(n))
}

func (m *Goodbye) apply(s *State, x entryContext) Verdict {
	n, v := s.current(m.Node, m.Incarnation)
	if !v.OK() {
		return v
	}
	for i := range m.Stopped {
		p := &m.Stopped[i]
		if row, ok := s.Dispatcher(p.Dispatcher); ok && matches(row, m.Incarnation, p.Epoch) && p.HasPosition && p.Position.Valid() {
			row.Position = s.stoppedAt(row, p.Position)
			s.setDispatcher(row)
		}
	}
	s.endIncarnation(n, NodeStatusGone, ending{reason: EndedByGoodbye, detail: "planned stop"}, x)
	return accepted(nodeFacts(n))
}

// endIncarnation fences an incarnation for good and ends each of its placements, in dispatcher order. Operators that
// waited for it go on; those that were going to it, while their origin still stops, are aborted.
func (s *State) endIncarnation(n Node, status NodeStatus, why ending, x entryContext) {
	n.Status, n.EndedAt = status, x.index
	s.setNode(n)
	placed, bound := s.placed.clone(), s.bound.clone()
	for id := range placed.of(uint64(n.Incarnation)) {
		if row, ok := s.Dispatcher(DispatcherID(id)); ok && row.Incarnation == n.Incarnation {
			s.placementEnded(row, why, x)
		}
	}
	for id := range bound.of(uint64(n.Incarnation)) {
		if op, ok := s.operators.get(Operator{ID: OpID(id)}); ok && !op.Aborting {
			s.abort(op, OpFailed, ending{reason: DestinationLost, detail: "the destination " + string(n.Name) + " was lost"}, x)
		}
	}
}
