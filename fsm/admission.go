package fsm

// Slot is the state of a dispatcher that admission looks at: the operator that it is in, or, without one, where its
// placement stands.
type Slot uint8

// The rows of the admission table.
const (
	SlotFreeAbsent  Slot = iota + 1 // no operator, runs nowhere
	SlotFreeRunning                 // no operator, running
	SlotAdd
	SlotMoveOrigin      // Move, the origin is stopping
	SlotMoveDestination // Move, the destination is starting
	SlotSplit           // the parent is stopping
	SlotMerge           // a source, stopping or stopped
	SlotStop            // by a pause
	SlotAborting        // any operator that has been cancelled
	SlotRemove
	SlotHeld // no operator, absent, a running removal holds (part of) the range
)

// String is the row's name.
func (s Slot) String() string {
	return wordOf([]string{
		SlotFreeAbsent: "free/absent", SlotFreeRunning: "free/running", SlotAdd: "add",
		SlotMoveOrigin: "move/origin-stopping", SlotMoveDestination: "move/destination-starting", SlotSplit: "split",
		SlotMerge: "merge", SlotStop: "stop", SlotAborting: "aborting", SlotRemove: "remove", SlotHeld: "held",
	}, s)
}

// Ask is what is asked of a dispatcher.
type Ask uint8

// The columns of the admission table.
const (
	ReqAdd      Ask = iota + 1
	ReqMove         // from a named node, or whoever owns it
	ReqMoveFrom     // from nowhere: the dispatcher must be absent
	ReqSplit
	ReqMerge // as one of its sources
	ReqRemove
	ReqDrop // its table or changefeed goes
	ReqCancel
)

// String is the column's name.
func (a Ask) String() string {
	return wordOf([]string{
		ReqAdd: "add", ReqMove: "move", ReqMoveFrom: "move-from-nowhere", ReqSplit: "split", ReqMerge: "merge", ReqRemove: "remove", ReqDrop: "drop",
		ReqCancel: "cancel",
	}, a)
}

// rule is what a cell of the table says.
type rule uint8

const (
	admitAdd      rule = iota + 1 // start on the destination
	admitMove                     // stop the origin, then start on the destination
	admitSplit                    // stop the parent, then replace it by its children
	mergeable                     // may be a source; the Merge is admitted if all are
	refuseIdle                    // NOT_RUNNING
	refuseExists                  // OPERATOR_EXISTS, with the operator in the slot
	refuseOwned                   // ALREADY_OWNED, with the owner
	refuseNotOwn                  // NOT_OWNER: nobody owns it
	refuseHeld                    // RANGE_REMOVING, with the removal
	deleteAtOnce                  // nothing runs, nothing to wait for
	replaceInSlot                 // a removal takes the slot over, in this apply
	sameRemoval                   // the removal that runs already; a drop strengthens it
	abortInSlot                   // ends absent once what runs is confirmed stopped
	abortAgain                    // it is aborting already: the same answer, no change
	noCancel                      // NOT_CANCELLABLE
	nothingToStop                 // NO_SUCH_OPERATOR, or OPERATOR_FINISHED
)

// admissionTable says, for what a dispatcher is in and what is asked of it, what happens. It is the whole of what makes
// one operator a dispatcher: Apply looks here, and nowhere else.
func admissionTable() [SlotHeld + 1][ReqCancel + 1]rule {
	const (
		exists = refuseExists
		swap   = replaceInSlot
	)
	return [SlotHeld + 1][ReqCancel + 1]rule{
		//                   add          move          move from    split       merge      remove        drop          cancel
		//                                              nowhere
		SlotFreeAbsent:      {0, admitAdd, refuseNotOwn, admitAdd, refuseIdle, mergeable, deleteAtOnce, deleteAtOnce, nothingToStop},
		SlotFreeRunning:     {0, refuseOwned, admitMove, refuseOwned, admitSplit, mergeable, swap, swap, nothingToStop},
		SlotAdd:             {0, exists, exists, exists, exists, exists, swap, swap, abortInSlot},
		SlotMoveOrigin:      {0, exists, exists, exists, exists, exists, swap, swap, abortInSlot},
		SlotMoveDestination: {0, exists, exists, exists, exists, exists, swap, swap, abortInSlot},
		SlotSplit:           {0, exists, exists, exists, exists, exists, swap, swap, abortInSlot},
		SlotMerge:           {0, exists, exists, exists, exists, exists, swap, swap, abortInSlot},
		SlotStop:            {0, exists, exists, exists, exists, exists, swap, swap, noCancel},
		SlotAborting:        {0, exists, exists, exists, exists, exists, swap, swap, abortAgain},
		SlotRemove:          {0, exists, exists, exists, exists, exists, sameRemoval, sameRemoval, noCancel},
		SlotHeld:            {0, refuseHeld, refuseHeld, refuseHeld, refuseHeld, refuseHeld, deleteAtOnce, deleteAtOnce, nothingToStop},
	}
}

// Cell names a cell of the admission table.
type Cell struct {
	Slot Slot
	Ask  Ask
}

// String is row x column.
func (c Cell) String() string { return c.Slot.String() + " x " + c.Ask.String() }

// AdmissionCells lists every cell of the admission table, for tests that must reach them all.
func AdmissionCells() []Cell {
	var cells []Cell
	for slot := SlotFreeAbsent; slot <= SlotHeld; slot++ {
		for ask := ReqAdd; ask <= ReqCancel; ask++ {
			cells = append(cells, Cell{slot, ask})
		}
	}
	return cells
}

// TraceAdmissions calls f for each cell that Apply looks up; for tests. It changes nothing that Apply decides.
func (s *State) TraceAdmissions(f func(Cell)) { s.trace = f }

// slotOf finds the row of the table.
func (s *State) slotOf(row Dispatcher) Slot {
	op, inSlot := s.operators.get(Operator{ID: row.Slot})
	if !inSlot {
		if row.Phase == Running {
			return SlotFreeRunning
		}
		if _, held := s.HeldBy(row); held {
			return SlotHeld
		}
		return SlotFreeAbsent
	}
	switch {
	case op.Kind == OpRemove:
		return SlotRemove
	case op.Aborting:
		return SlotAborting
	case op.Kind == OpStop:
		return SlotStop
	case op.Kind == OpSplit:
		return SlotSplit
	case op.Kind == OpMerge:
		return SlotMerge
	case op.Kind == OpAdd:
		return SlotAdd
	case row.Phase == Starting:
		return SlotMoveDestination
	default:
		return SlotMoveOrigin
	}
}

// admission is what an ask brings with it.
type admission struct {
	kind    OperatorKind
	from    NodeName
	fromAny bool
	to      Node
	spans   []Span
	targets []Destination
	drop    bool
	cancel  OpID
}

// admit looks up the cell and does what it says.
func (s *State) admit(row Dispatcher, ask Ask, a admission, x entryContext) Verdict {
	slot := s.slotOf(row)
	if s.trace != nil {
		s.trace(Cell{slot, ask})
	}
	inSlot, _ := s.operators.get(Operator{ID: row.Slot})
	switch admissionTable()[slot][ask] {
	case admitAdd:
		return s.startAdd(row, a, x)
	case admitMove:
		return s.startMove(row, a, x)
	case admitSplit:
		return s.startSplit(row, a, x)
	case mergeable:
		return accepted(Facts{})
	case refuseIdle:
		return refused(NotRunning, s.ownerFacts(row))
	case refuseExists:
		return refused(OperatorExists, operatorFacts(inSlot))
	case refuseOwned:
		return refused(AlreadyOwned, s.ownerFacts(row))
	case refuseNotOwn:
		return refused(NotOwner, s.ownerFacts(row))
	case refuseHeld:
		holder, _ := s.HeldBy(row)
		f := operatorFacts(holder)
		f.Dispatcher = row.ID
		return refused(RangeRemoving, f)
	case deleteAtOnce:
		return accepted(operatorFacts(s.removeAbsent(row, a.drop, x)))
	case replaceInSlot:
		return accepted(operatorFacts(s.replace(row, a.drop, x)))
	case sameRemoval:
		return accepted(operatorFacts(s.strengthen(inSlot, a.drop)))
	case abortInSlot:
		s.abort(inSlot, OpCanceled, ending{reason: "CANCELED", detail: of("by ", x.by)}, x)
		return accepted(cancelFacts(inSlot, OpCanceled))
	case abortAgain:
		return accepted(cancelFacts(inSlot, inSlot.AbortResult))
	case noCancel:
		return refused(NotCancellable, operatorFacts(inSlot))
	case nothingToStop:
		return s.notRunning(a.cancel)
	default:
		return malformed("operator kind is not one that can be asked for")
	}
}

// cancelFacts says how the operator is going to end.
func cancelFacts(op Operator, result OpResult) Facts {
	f := operatorFacts(op)
	f.Result = result
	return f
}

func (s *State) strengthen(op Operator, drop bool) Operator {
	if drop && !op.Drop {
		op.Drop = true
		s.setOperator(op)
	}
	return op
}

func (s *State) ownerFacts(row Dispatcher) Facts {
	f := Facts{Dispatcher: row.ID, Epoch: row.Epoch, Incarnation: row.Incarnation}
	if n, ok := s.NodeOf(row.Incarnation); ok && row.Phase != Absent {
		f.Node = n.Name
	}
	return f
}

// Admission order: unknown names, the expected epoch, the changefeed, then the table, then limits.
func (m *AdmitOperator) apply(s *State, x entryContext) Verdict {
	ask, v := m.ask()
	if !v.OK() {
		return v
	}
	if ask == ReqMerge {
		return s.admitMerge(m, x)
	}
	row, ok := s.Dispatcher(m.Dispatcher)
	if !ok {
		return refused(UnknownDispatcher, Facts{Dispatcher: m.Dispatcher})
	}
	a := admission{kind: m.Op, from: m.From, fromAny: m.FromAny, spans: m.Spans}
	if v := m.resolve(s, &a); !v.OK() {
		return v
	}
	if m.ExpectEpoch != 0 && m.ExpectEpoch != row.Epoch {
		return refused(EpochMismatch, s.ownerFacts(row))
	}
	if v := s.checkFeedOf(row, ask); !v.OK() {
		return v
	}
	return s.admit(row, ask, a, x)
}

func (m *AdmitOperator) ask() (Ask, Verdict) {
	nodes := m.To != "" || m.From != "" || m.FromAny
	spans := len(m.Spans)+len(m.Targets) > 0
	one := m.Dispatcher != 0 && len(m.Sources) == 0
	switch {
	case m.Op == OpAdd && one && !spans && m.To != "" && m.From == "" && !m.FromAny:
		return ReqAdd, accepted(Facts{})
	case m.Op == OpMove && one && !spans && m.To != "" && (m.From == "" || !m.FromAny):
		if m.From == "" && !m.FromAny {
			return ReqMoveFrom, accepted(Facts{})
		}
		return ReqMove, accepted(Facts{})
	case m.Op == OpRemove && one && !spans && !nodes:
		return ReqRemove, accepted(Facts{})
	case m.Op == OpSplit && one && !nodes && len(m.Spans) <= maxSpans && (len(m.Targets) == 0 || len(m.Targets) == len(m.Spans)):
		return ReqSplit, accepted(Facts{})
	case m.Op == OpMerge && m.Dispatcher == 0 && !nodes && !spans:
		return ReqMerge, accepted(Facts{})
	default:
		return 0, malformed("an add names a destination; a move names a destination and a named, any or no origin; a split names " +
			"at most 256 spans and a target for each or for none; a merge names its sources alone; a remove names only the dispatcher")
	}
}

// resolve finds the nodes that the request names.
func (m *AdmitOperator) resolve(s *State, a *admission) Verdict {
	for _, name := range []NodeName{m.From, m.To} {
		n, ok := s.Node(name)
		if name != "" && !ok {
			return refused(UnknownNode, Facts{Node: name})
		}
		a.to = n
	}
	for _, name := range m.Targets {
		n, ok := s.Node(name)
		if name != "" && !ok {
			return refused(UnknownNode, Facts{Node: name})
		}
		a.targets = append(a.targets, Destination{Node: name, Incarnation: n.Incarnation})
	}
	return accepted(Facts{})
}

// checkFeedOf refuses what a stopped changefeed must not start, and what must not happen to a trigger. In a changefeed
// that is being removed every dispatcher of a table is in a removal already, which the table answers.
func (s *State) checkFeedOf(row Dispatcher, ask Ask) Verdict {
	t, _ := s.Table(row.Table)
	feed, _ := s.ChangefeedByID(t.Changefeed)
	starts := ask != ReqRemove && ask != ReqDrop && ask != ReqCancel
	places := ask == ReqAdd || ask == ReqMove || ask == ReqMoveFrom
	switch {
	case feed.stopped() && starts:
		return refused(feed.stoppedReason(), feedFacts(feed))
	case feed.Status == ChangefeedIsRemoving && starts:
		return refused(ChangefeedRemoving, feedFacts(feed))
	case t.Trigger && !places:
		return refused(TriggerDispatcher, Facts{Dispatcher: row.ID, Changefeed: feed.Name, ChangefeedID: feed.ID})
	default:
		return accepted(Facts{})
	}
}

// canTakeWork checks the destination and the limits: a live incarnation, neither fenced nor draining, with room.
func (s *State) canTakeWork(n Node) Verdict {
	p := s.meta.Policy
	incoming, _ := s.incoming.get(n.Incarnation)
	load := s.Load(n.Incarnation).Placements + incoming
	switch {
	case n.Status == NodeStatusFenced:
		return refused(NodeFenced, nodeFacts(n))
	case n.Status != NodeStatusLive:
		return refused(NodeExpired, nodeFacts(n))
	case n.Draining:
		return refused(NodeDraining, nodeFacts(n))
	case load >= p.MaxPlacementsPerNode:
		return refused(LimitReached, Facts{Node: n.Name, Limit: "placements on one node", Have: uint64(load), Want: uint64(p.MaxPlacementsPerNode)})
	case s.operators.len() >= int(p.MaxOperators):
		return refused(LimitReached, Facts{Limit: "running operators", Have: uint64(s.operators.len()), Want: uint64(p.MaxOperators)})
	default:
		return accepted(Facts{})
	}
}

func (s *State) startAdd(row Dispatcher, a admission, x entryContext) Verdict {
	if v := s.canTakeWork(a.to); !v.OK() {
		return v
	}
	op := s.open(s.describe(Operator{Kind: a.kind, To: a.to.Name, ToIncarnation: a.to.Incarnation}, row), x)
	op.Epoch = s.place(row, a.to.Incarnation, op.ID, x)
	s.setOperator(op)
	return accepted(operatorFacts(op))
}

func (s *State) startMove(row Dispatcher, a admission, x entryContext) Verdict {
	owner, _ := s.NodeOf(row.Incarnation)
	if !a.fromAny && a.from != owner.Name {
		return refused(NotOwner, s.ownerFacts(row))
	}
	if a.to.Name == owner.Name {
		return refused(SameNode, s.ownerFacts(row))
	}
	if b, holds := s.permissionOf(row); holds {
		return refused(BarrierWriting, s.barrierFacts(b))
	}
	if v := s.canTakeWork(a.to); !v.OK() {
		return v
	}
	op := s.open(s.describe(Operator{Kind: OpMove, To: a.to.Name, ToIncarnation: a.to.Incarnation}, row), x)
	op.Epoch = row.Epoch
	s.setOperator(op)
	row.Slot = op.ID
	s.enter(row, Stopping, x)
	return accepted(operatorFacts(op))
}

func (m *CancelOperator) apply(s *State, x entryContext) Verdict {
	a := admission{cancel: m.Op}
	op, running := s.operators.get(Operator{ID: m.Op})
	if !running {
		op, _ = s.finished.get(Operator{ID: m.Op})
	}
	row, there := s.Dispatcher(op.Dispatcher)
	if in := s.sourcesIn(op); running && len(in) > 0 { // of a Merge any source that is still in it will do
		row, there = in[0], true
	}
	if there && (running || row.Slot == 0) {
		return s.admit(row, ReqCancel, a, x)
	}
	return s.notRunning(m.Op)
}

// notRunning tells an operator that has ended from one that is not known.
func (s *State) notRunning(id OpID) Verdict {
	if op, ok := s.finished.get(Operator{ID: id}); ok {
		return refused(OperatorFinished, operatorFacts(op))
	}
	return refused(NoSuchOperator, Facts{Operator: id})
}

// maxItems bounds the operators that are admitted together.
const maxItems = 256

// AdmitMany tries the items in order. All or nothing is tried on a copy, which becomes the state if every item is
// admitted.
func (m *AdmitMany) apply(s *State, x entryContext) Verdict {
	if len(m.Items) == 0 || len(m.Items) > maxItems {
		return refused(LimitReached, Facts{Limit: "operators in one request", Have: uint64(len(m.Items)), Want: maxItems})
	}
	if !m.AllOrNothing {
		items, _ := s.admitItems(m.Items, x)
		return Verdict{Reason: Accepted, Items: items}
	}
	trial := s.Fork()
	items, refusedAt := trial.admitItems(m.Items, x)
	if refusedAt >= 0 {
		v := refused(ItemRefused, Facts{Have: uint64(refusedAt), Want: uint64(len(items)), Detail: items[refusedAt].Reason.String()})
		v.Items = items
		return v
	}
	*s = *trial
	return Verdict{Reason: Accepted, Items: items}
}

// admitItems returns an answer for each item, and the first that is refused, -1 for none.
func (s *State) admitItems(asks []AdmitOperator, x entryContext) (items []Item, refusedAt int) {
	items, refusedAt = make([]Item, len(asks)), -1
	for i := range asks {
		v := asks[i].apply(s, x)
		s.settleBarriers(x)
		items[i] = Item{v.Reason, v.Facts}
		if !v.OK() && refusedAt < 0 {
			refusedAt = i
		}
	}
	return items, refusedAt
}
