package fsm

// open puts a new operator in the slot of its dispatcher's row; the caller stores the row.
func (s *State) open(op Operator, x entryContext) Operator {
	op.ID = OpID(s.nextEpoch())
	op.Since, op.SinceMS, op.By = x.index, s.meta.TimeMS, x.by
	op.DeadlineMS = s.meta.TimeMS + s.meta.Policy.OperatorDeadlineMS
	return op
}

// describe fills in what people want to read of an operator whose dispatcher may be gone by then.
func (s *State) describe(op Operator, row Dispatcher) Operator {
	t, _ := s.Table(row.Table)
	feed, _ := s.ChangefeedByID(t.Changefeed)
	op.Dispatcher, op.Changefeed = row.ID, feed.Name
	op.Table, _ = s.titles.get(row.Table)
	if n, ok := s.NodeOf(row.Incarnation); ok && row.Phase != Absent {
		op.From, op.FromIncarnation = n.Name, n.Incarnation
	}
	return op
}

// String prints schema.name.
func (t TableRef) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// finish ends an operator; its dispatcher has left its slot already.
func (s *State) finish(id OpID, result OpResult, why ending, x entryContext) {
	op, ok := s.operators.get(Operator{ID: id})
	if !ok {
		return
	}
	op.Result, op.Reason, op.Detail = result, why.reason, why.detail
	op.Ended, op.EndedMS = x.index, s.meta.TimeMS
	s.setFinished(op)
}

// abort makes an operator end absent: as soon as what may run has been confirmed stopped, never before.
func (s *State) abort(op Operator, result OpResult, why ending, x entryContext) {
	op.Aborting, op.AbortResult, op.Reason, op.Detail = true, result, why.reason, why.detail
	s.setOperator(op)
	if op.Kind == OpMerge {
		s.leaveMerge(op, x)
		return
	}
	if row, _ := s.Dispatcher(op.Dispatcher); row.Phase == Starting {
		s.enter(row, Stopping, x)
	}
}

// replace puts a removal in the slot, in the same apply in which the operator that was there ends: the slot is never
// empty and the dispatcher never looks free.
func (s *State) replace(row Dispatcher, drop bool, x entryContext) Operator {
	old := row.Slot
	if row.Phase == Absent { // a source of a Merge
		op := s.removeAbsent(row, drop, x)
		s.replaced(old, op.ID, x)
		return op
	}
	op := s.open(s.describe(Operator{Kind: OpRemove, Drop: drop}, row), x)
	op.Epoch = row.Epoch
	row.Slot, row.Leaving = op.ID, true
	s.setOperator(op)
	s.removals.add(s.heldRange(row))
	if row.Phase == Stopping {
		s.setDispatcher(row)
	} else {
		s.enter(row, Stopping, x)
	}
	s.replaced(old, op.ID, x)
	return op
}

// replaced ends the operator that a removal has taken a dispatcher from. A Merge ends when its other sources have left it
// as well, absent: what was to become one dispatcher stays several.
func (s *State) replaced(old, by OpID, x entryContext) {
	prev, ok := s.operators.get(Operator{ID: old})
	if !ok || old == 0 {
		return
	}
	why := ending{reason: "REPLACED", detail: "by removal " + by.String()}
	prev.ReplacedBy = by
	switch {
	case prev.Kind != OpMerge:
		s.setOperator(prev)
		s.finish(old, OpReplaced, why, x)
	case prev.Aborting:
		s.setOperator(prev)
		s.leaveMerge(prev, x)
	default:
		s.abort(prev, OpReplaced, why, x)
	}
}

// removeAbsent deletes a dispatcher that runs nowhere; the removal has nothing to wait for.
func (s *State) removeAbsent(row Dispatcher, drop bool, x entryContext) Operator {
	op := s.open(s.describe(Operator{Kind: OpRemove, Drop: drop}, row), x)
	s.setOperator(op)
	s.deleteDispatcher(row, x)
	s.finish(op.ID, OpDone, ending{}, x)
	return op
}

// deleteDispatcher takes a dispatcher out of the state, and its table and changefeed with it if it was the last thing
// that kept them.
func (s *State) deleteDispatcher(row Dispatcher, x entryContext) {
	s.dropDispatcher(row)
	t, _ := s.Table(row.Table)
	if t.Dropping {
		s.dropTableIfEmpty(t, x)
	}
}

func operatorFacts(op Operator) Facts {
	f := Facts{
		Operator: op.ID, OperatorKind: op.Kind, Result: op.Result, Dispatcher: op.Dispatcher, Epoch: op.Epoch,
		Node: op.To, Incarnation: op.ToIncarnation, Changefeed: op.Changefeed, Table: op.Table, Detail: op.Reason,
	}
	if op.To == "" {
		f.Node, f.Incarnation = op.From, op.FromIncarnation
	}
	return f
}
