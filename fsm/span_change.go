package fsm

import (
	"cmp"
	"slices"
)

// Split and Merge: operators that replace dispatchers by others, in one apply, when what ran has been confirmed stopped.

// maxSpans bounds the children of a Split and the sources of a Merge.
const maxSpans = 256

// startSplit stops the parent; the children come when it has stopped.
func (s *State) startSplit(row Dispatcher, a admission, x entryContext) Verdict {
	if !Tile(row.Span, a.spans) || len(a.spans) < 2 {
		return refused(SpansDoNotTile, Facts{Dispatcher: row.ID, Detail: row.Span.String()})
	}
	if b, holds := s.permissionOf(row); holds {
		return refused(BarrierWriting, s.barrierFacts(b))
	}
	if v := s.roomFor(len(a.spans) - 1); !v.OK() {
		return v
	}
	op := s.open(s.describe(Operator{Kind: OpSplit, Spans: a.spans, Targets: a.targets, Epoch: row.Epoch}, row), x)
	s.setOperator(op)
	row.Slot = op.ID
	s.enter(row, Stopping, x)
	return accepted(operatorFacts(op))
}

// roomFor checks the limits on dispatchers and on running operators.
func (s *State) roomFor(more int) Verdict {
	need, p := uint64(s.DispatcherCount()+more), s.meta.Policy
	if need > p.MaxDispatchers {
		return refused(LimitReached, Facts{Limit: "dispatchers", Have: need, Want: p.MaxDispatchers})
	}
	if s.operators.len() >= int(p.MaxOperators) {
		return refused(LimitReached, Facts{Limit: "running operators", Have: uint64(s.operators.len()), Want: uint64(p.MaxOperators)})
	}
	return accepted(Facts{})
}

// splitUp replaces the parent by its children. A child with a target that can take work in this apply is born inside an
// Add of its own, so that it has a slot, a deadline, and somebody to cancel; the others are absent.
func (s *State) splitUp(row Dispatcher, op Operator, x entryContext) {
	at := s.startOf(row)
	s.dropDispatcher(row)
	for i, span := range op.Spans {
		child := s.newDispatcher(row.Table, span, at, x)
		op.Made = append(op.Made, child.ID)
		if len(op.Targets) == 0 || op.Targets[i].Incarnation == 0 {
			continue
		}
		if n, ok := s.NodeOf(op.Targets[i].Incarnation); ok {
			_ = s.startAdd(child, admission{kind: OpAdd, to: n}, x)
		}
	}
	s.setOperator(op)
	s.finish(op.ID, OpDone, ending{}, x)
}

// newDispatcher creates an absent dispatcher.
func (s *State) newDispatcher(t TableID, span Span, at Position, x entryContext) Dispatcher {
	s.meta.LastDispatcher++
	row := Dispatcher{ID: s.meta.LastDispatcher, Table: t, Span: span, Position: at}
	row.Phase, row.PhaseAt, row.PhaseMS = Absent, x.index, s.meta.TimeMS
	s.setDispatcher(row)
	return row
}

// admitMerge takes the slots of all sources, or of none.
func (s *State) admitMerge(m *AdmitOperator, x entryContext) Verdict {
	rows, v := s.mergeSources(m)
	if !v.OK() {
		return v
	}
	first := rows[0]
	if m.ExpectEpoch != 0 && m.ExpectEpoch != first.Epoch {
		return refused(EpochMismatch, s.ownerFacts(first))
	}
	for _, row := range rows {
		if v := s.checkFeedOf(row, ReqMerge); !v.OK() {
			return v
		}
	}
	for _, row := range rows {
		if v := s.admit(row, ReqMerge, admission{}, x); !v.OK() {
			return v
		}
	}
	if v := s.checkMerge(rows); !v.OK() {
		return v
	}
	return s.startMerge(rows, x)
}

// mergeSources finds the sources and puts them into key order.
func (s *State) mergeSources(m *AdmitOperator) ([]Dispatcher, Verdict) {
	if len(m.Sources) < 2 || len(m.Sources) > maxSpans {
		return nil, malformed("a merge needs between 2 and 256 dispatchers")
	}
	rows := make([]Dispatcher, len(m.Sources))
	for i, id := range m.Sources {
		row, ok := s.Dispatcher(id)
		if !ok {
			return nil, refused(UnknownDispatcher, Facts{Dispatcher: id})
		}
		rows[i] = row
	}
	slices.SortFunc(rows, func(a, b Dispatcher) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Span.Start, b.Span.Start), cmp.Compare(a.ID, b.ID))
	})
	for i := 1; i < len(rows); i++ {
		if rows[i].ID == rows[i-1].ID {
			return nil, malformed("a dispatcher is named twice")
		}
	}
	return rows, accepted(Facts{})
}

// checkMerge: one table, adjacent, and none that is writing an event.
func (s *State) checkMerge(rows []Dispatcher) Verdict {
	for i, row := range rows {
		prev := rows[max(i-1, 0)]
		switch {
		case s.feedOf(row) != s.feedOf(prev):
			return refused(OtherChangefeed, Facts{Dispatcher: row.ID})
		case i > 0 && (row.Table != prev.Table || prev.Span.End == "" || prev.Span.End != row.Span.Start):
			return refused(NotAdjacent, Facts{Dispatcher: row.ID, Have: uint64(prev.ID)})
		}
		if b, holds := s.permissionOf(row); holds {
			return refused(BarrierWriting, s.barrierFacts(b))
		}
	}
	return s.roomFor(0)
}

func (s *State) startMerge(rows []Dispatcher, x entryContext) Verdict {
	op := s.open(s.describe(Operator{Kind: OpMerge, Epoch: rows[0].Epoch}, rows[0]), x)
	for _, row := range rows {
		op.Sources = append(op.Sources, row.ID)
	}
	s.setOperator(op)
	for _, row := range rows {
		row.Slot = op.ID
		if row.Phase == Running {
			s.enter(row, Stopping, x)
		} else {
			s.setDispatcher(row)
		}
	}
	s.mergeIfStopped(op, x)
	return accepted(operatorFacts(op))
}

// sourcesIn lists the sources that are still in the Merge's slot.
func (d *data) sourcesIn(op Operator) []Dispatcher {
	var rows []Dispatcher
	for _, id := range op.Sources {
		if row, ok := d.Dispatcher(id); ok && row.Slot == op.ID {
			rows = append(rows, row)
		}
	}
	return rows
}

// sourceStopped keeps a source in its slot, absent, until the others have stopped as well.
func (s *State) sourceStopped(row Dispatcher, op Operator, x entryContext) {
	s.leave(row, op.ID, x)
	s.mergeIfStopped(op, x)
}

// mergeIfStopped replaces the sources by one dispatcher when the last of them has stopped.
func (s *State) mergeIfStopped(op Operator, x entryContext) {
	rows := s.sourcesIn(op)
	at := noBound()
	for _, row := range rows {
		if row.Phase != Absent {
			return
		}
		if from := s.startOf(row); from.Less(at) {
			at = from
		}
	}
	span := Span{Start: rows[0].Span.Start, End: rows[len(rows)-1].Span.End}
	for _, row := range rows {
		s.dropDispatcher(row)
	}
	op.Made = append(op.Made, s.newDispatcher(rows[0].Table, span, at, x).ID)
	s.setOperator(op)
	s.finish(op.ID, OpDone, ending{}, x)
}

// leaveMerge is how a source leaves an aborting Merge: absent ones at once, the others when they have stopped. The last
// one ends the operator.
func (s *State) leaveMerge(op Operator, x entryContext) {
	left := 0
	for _, row := range s.sourcesIn(op) {
		if row.Phase == Absent {
			row.Slot = 0
			s.setDispatcher(row)
			continue
		}
		left++
	}
	if left == 0 {
		s.finish(op.ID, op.AbortResult, ending{reason: op.Reason, detail: op.Detail}, x)
	}
}
