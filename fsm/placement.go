package fsm

// ending says why a placement or an operator ends.
type ending struct {
	reason, detail string
	// failure: the dispatcher failed or stopped by itself, which the scheduler's back-off counts.
	failure bool
	// fatal: placing it anew cannot help.
	fatal bool
}

// matches says whether a report about (inc, epoch) is about the current placement.
func matches(row Dispatcher, inc Incarnation, epoch Epoch) bool {
	return row.Phase != Absent && row.Incarnation == inc && row.Epoch == epoch
}

func (m *ReportPlacements) apply(s *State, x entryContext) Verdict {
	n, v := s.current(m.Node, m.Incarnation)
	if !v.OK() {
		return v
	}
	v.Reports = make([]Reason, len(m.Reports))
	for i := range m.Reports {
		v.Reports[i] = s.report(n, &m.Reports[i], x)
	}
	return v
}

// report counts one report, if it is about the current placement and fits its phase.
//
//	report        Starting                   Running                Stopping
//	running       -> Running                 inert                  inert
//	stopped       operator failed, -> Absent -> Absent              next phase
//	start failed  operator failed, -> Absent inert                  next phase
func (s *State) report(n Node, r *PlacementReport, x entryContext) Reason {
	row, ok := s.Dispatcher(r.Dispatcher)
	if !ok || !matches(row, n.Incarnation, r.Epoch) {
		if r.What == ReportRunning {
			return ReportStale
		}
		return ReportInert
	}
	switch {
	case r.What == ReportRunning && row.Phase == Starting:
		s.placementRuns(row, x)
	case r.What == ReportStopped, r.What == ReportStartFailed && row.Phase != Running:
		if r.What == ReportStopped && r.HasPosition && r.Position.Valid() {
			row.Position = s.stoppedAt(row, r.Position)
		}
		s.placementEnded(row, endingOf(r, row.Phase), x)
	default:
		return ReportInert
	}
	return ReportCounted
}

// stoppedAt is the position that a stop report raises a dispatcher's to: never past an open event that concerns it and
// has not been written, since nobody may be there.
func (s *State) stoppedAt(row Dispatcher, reported Position) Position {
	if s.barriers.len() > 0 {
		t, _ := s.Table(row.Table)
		for b := range s.Barriers(t.Changefeed) {
			if b.Status != BarrierPassing && b.Spec.concerns(t) && row.Position.Less(b.Key.At) && b.Key.Before().Less(reported) {
				reported = b.Key.Before()
				break
			}
		}
	}
	return row.Position.Max(reported)
}

// endingOf is what a report says of why; a confirmed stop needs no reason of its own.
func endingOf(r *PlacementReport, phase Phase) ending {
	why := ending{reason: r.Reason, detail: clip(r.Detail), failure: true, fatal: r.Fatal}
	if len(why.reason) > maxName {
		why.reason = why.reason[:maxName]
	}
	if why.reason == "" && phase != Stopping {
		why.reason = r.What.reason()
	}
	return why
}

// clip bounds what a node may leave in the state.
func clip(text string) string { return text[:min(len(text), maxDetail)] }

// place orders a start on an incarnation under a new epoch.
func (s *State) place(row Dispatcher, inc Incarnation, slot OpID, x entryContext) Epoch {
	row.Incarnation, row.Epoch, row.Slot = inc, s.nextEpoch(), slot
	row.HasRun, row.Waits, row.PlacedAt, row.Position = false, false, x.index, s.startOf(row)
	s.enter(row, Starting, x)
	return row.Epoch
}

// enter stores the row in a phase.
func (s *State) enter(row Dispatcher, phase Phase, x entryContext) {
	row.Phase, row.PhaseAt, row.PhaseMS = phase, x.index, s.meta.TimeMS
	s.setDispatcher(row)
}

// placementRuns is the end of an Add and of a Move: only they have a dispatcher in Starting, and an aborting operator
// has it in Stopping.
func (s *State) placementRuns(row Dispatcher, x entryContext) {
	op := row.Slot
	row.Slot, row.HasRun = 0, true
	s.enter(row, Running, x)
	s.finish(op, OpDone, ending{}, x)
}

// placementEnded is what a confirmed stop, a failed start and an expiry have in common: nothing runs under the epoch any
// more.
func (s *State) placementEnded(row Dispatcher, why ending, x entryContext) {
	phase, op := row.Phase, row.Slot
	s.record(row, why, x)
	s.holderEnded(row)
	if phase == Stopping {
		s.originStopped(row, op, why, x)
	} else {
		if why.failure {
			s.countFailure(&row)
		}
		s.leave(row, 0, x)
		if phase == Starting {
			s.finish(op, OpFailed, why, x)
		}
	}
	s.failIfHopeless(row, phase == Stopping, why, x)
}

// failIfHopeless fails the changefeed of a dispatcher that cannot go on, or has failed too often in a row. A stop that
// was ordered is no failure, however often the dispatcher has failed before.
func (s *State) failIfHopeless(row Dispatcher, ordered bool, why ending, x entryContext) {
	after := s.meta.Policy.FailAfter
	if row.Leaving || !why.failure || (!why.fatal && (ordered || after == 0 || row.Failures < after)) {
		return
	}
	if feed, ok := s.ChangefeedByID(ChangefeedID(s.feedOf(row))); ok {
		s.failFeed(feed, row.ID, why, x)
	}
}

// originStopped is the next phase of the operator whose stop has been confirmed.
func (s *State) originStopped(row Dispatcher, id OpID, why ending, x entryContext) {
	op, _ := s.operators.get(Operator{ID: id})
	switch {
	case op.Kind == OpRemove:
		s.deleteDispatcher(row, x)
		s.finish(id, OpDone, ending{}, x)
	case op.Kind == OpMerge && op.Aborting:
		s.leave(row, 0, x)
		s.leaveMerge(op, x)
	case op.Kind == OpMerge:
		s.sourceStopped(row, op, x)
	case op.Aborting:
		s.leave(row, 0, x)
		s.finish(id, op.AbortResult, ending{reason: op.Reason, detail: op.Detail}, x)
	case op.Kind == OpMove:
		s.moveOn(row, op, x)
	case op.Kind == OpSplit:
		s.splitUp(row, op, x)
	default: // OpStop
		s.leave(row, 0, x)
		s.finish(id, OpDone, why, x)
	}
}

// moveOn starts the destination of a Move whose origin has stopped. The destination was bound at admission: another
// incarnation of the same name is not it.
func (s *State) moveOn(row Dispatcher, op Operator, x entryContext) {
	n, ok := s.NodeOf(op.ToIncarnation)
	if !ok || n.Status != NodeStatusLive {
		s.leave(row, 0, x)
		s.finish(op.ID, OpFailed, ending{reason: DestinationLost, detail: "the destination " + string(op.To) + " cannot take work any more"}, x)
		return
	}
	op.Epoch, op.Moved = s.place(row, op.ToIncarnation, op.ID, x), true
	s.setOperator(op)
}

// leave makes the dispatcher absent; of a Merge's sources it stays in the slot.
func (s *State) leave(row Dispatcher, slot OpID, x entryContext) {
	row.Incarnation, row.Epoch, row.Slot, row.HasRun, row.Waits, row.PlacedAt = 0, 0, slot, false, false, 0
	s.enter(row, Absent, x)
}

// countFailure keeps the facts that the scheduler's back-off needs.
func (s *State) countFailure(row *Dispatcher) {
	healthy := row.Phase == Running && s.meta.TimeMS-row.PhaseMS >= s.meta.Policy.HealthyMS
	if healthy {
		row.Failures = 0
	}
	row.Failures++
	row.FailedMS = s.meta.TimeMS
}

// record keeps the placement that ends in its dispatcher's history.
func (s *State) record(row Dispatcher, why ending, x entryContext) {
	n, _ := s.NodeOf(row.Incarnation)
	var op Operator
	if row.Phase == Stopping && why.failure && why.reason == "" {
		op, _ = s.operators.get(Operator{ID: row.Slot})
		why.reason, why.detail = EndedByOperator, ""
	}
	s.addRecord(PlacementRecord{
		Dispatcher: row.ID, Epoch: row.Epoch, Node: n.Name, Incarnation: row.Incarnation, HasRun: row.HasRun,
		PlacedAt: row.PlacedAt, EndedAt: x.index, EndedMS: s.meta.TimeMS, WallMS: x.wallMS, Reason: why.reason,
		Detail: why.detail, Operator: op.ID, OperatorKind: op.Kind, Position: row.Position,
	})
}

// Valid says whether the stage is one.
func (p Position) Valid() bool { return p.Stage <= StageSyncPoint }
