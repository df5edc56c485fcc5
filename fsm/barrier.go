package fsm

import "slices"

// How a barrier goes: the first counted "waiting" opens it; when every dispatcher that it concerns has reached the key,
// one of them gets the permission to write; "written" applies the effects; everybody passes; a record stays.
//
//	collecting --covered--> writing --written--> passing --all passed--> ended (written)
//	    ^                      |                    ^
//	    +--holder ended--------+--holder ended,     +--decided: written, skip
//	    |                          unknown--> needs-decision
//	    +----------------------------------------------+ decided: write again
//
// What is said about positions outlives who said it: a counted "waiting" proves that everything before the key is
// downstream, "written" and "passed" that the span is past it, so a later placement starts there.

func (m *ReportBarrier) apply(s *State, x entryContext) Verdict {
	n, v := s.current(m.Node, m.Incarnation)
	if !v.OK() {
		return v
	}
	for i := range m.Reports {
		r := &m.Reports[i]
		if r.All {
			v.Reports = append(v.Reports, s.saidByAll(n, r, x))
			continue
		}
		for _, p := range r.Pairs {
			v.Reports = append(v.Reports, s.said(n, r, p, x))
		}
	}
	return v
}

// said counts one placement's word about an event, if it is the word of the current placement.
func (s *State) said(n Node, r *BarrierReport, p Pair, x entryContext) Reason {
	row, ok := s.Dispatcher(p.Dispatcher)
	if !ok || !matches(row, n.Incarnation, p.Epoch) {
		return ReportStale
	}
	feed, _ := s.ChangefeedByID(r.Key.Changefeed)
	t, _ := s.Table(row.Table)
	if t.Changefeed != feed.ID || feed.Run != r.Key.Run {
		return BarrierForget
	}
	if !r.Key.Valid() || !feed.hasKey(r.Key.At) {
		return Malformed
	}
	switch r.What {
	case SaidWaiting:
		return s.saidWaiting(feed, row, r, x)
	case SaidPassed:
		return s.saidPassed(row, t, r.Key)
	case SaidWritten, SaidNotBegun, SaidUnknown:
		return s.saidByHolder(row, r, x)
	default:
		return Malformed
	}
}

// saidByAll counts one word of everything that the node runs of the changefeed, without the trigger, whose events form
// a chain, and the exceptions.
func (s *State) saidByAll(n Node, r *BarrierReport, x entryContext) Reason {
	feed, ok := s.ChangefeedByID(r.Key.Changefeed)
	if !ok || (r.What != SaidWaiting && r.What != SaidPassed) {
		return BarrierForget
	}
	if s.crews.get(feed.ID, n.Incarnation).hash != r.SetHash {
		return SetMismatch
	}
	except := map[DispatcherID]bool{feed.Trigger: true}
	for _, id := range r.Except {
		except[id] = true
	}
	spec := r.Spec
	if b, known := s.event(r.Key); known {
		spec = b.Spec
	}
	answer := ReportInert
	for _, row := range s.dispatchersOfOn(feed.ID, n.Incarnation) {
		if t, _ := s.Table(row.Table); except[row.ID] || !spec.concerns(t) {
			continue
		}
		got := s.said(n, r, Pair{row.ID, row.Epoch}, x)
		if got != ReportInert && (got != ReportCounted || answer == ReportInert) {
			answer = got // what asks for something goes before what does not
		}
	}
	return answer
}

// dispatchersOfOn lists what an incarnation has been running of a changefeed, so that it can be changed one by one.
func (s *State) dispatchersOfOn(feed ChangefeedID, inc Incarnation) []Dispatcher {
	var rows []Dispatcher
	for row := range s.DispatchersOn(inc) {
		if row.HasRun && s.feedOf(row) == uint64(feed) {
			rows = append(rows, row)
		}
	}
	return rows
}

// hasKey says whether the changefeed can have an event there.
func (f *Changefeed) hasKey(at Position) bool {
	if at.Stage == StageDDL {
		return true
	}
	return f.SyncPointEvery != 0 && at.TS != 0 && at.TS%f.SyncPointEvery == 0 && f.SyncPointAfter.Less(at)
}

// saidWaiting: everything of the span before the key is downstream, and the dispatcher stands.
func (s *State) saidWaiting(feed Changefeed, row Dispatcher, r *BarrierReport, x entryContext) Reason {
	key := r.Key
	switch {
	case row.Phase == Starting:
		return BarrierRetry
	case row.Phase != Running:
		return ReportInert
	case !row.Position.Less(key.At):
		return BarrierPass
	}
	if _, over := s.records.get(Barrier{Key: key}); over || !feed.Watermark.Less(key.At) {
		return BarrierPass
	}
	b, open := s.Barrier(key)
	trigger := row.ID == feed.Trigger
	if answer := s.mayWait(feed, row, r, b, open); answer != Accepted {
		return answer
	}
	if open && row.Waits && row.Position == key.Before() {
		return ReportInert
	}
	if !open {
		b = Barrier{
			Key: key, Spec: r.Spec, Status: BarrierCollecting, OpenedAt: x.index, OpenedMS: s.meta.TimeMS, OpenedBy: row.ID,
			DeadlineMS: s.meta.TimeMS + s.meta.Policy.BarrierDeadlineMS,
		}
	}
	if trigger {
		b.TriggerSaid = true
		feed.Chain = feed.Chain.Max(key.At)
		s.setChangefeed(feed)
	}
	s.setBarrier(b)
	row.Position, row.Waits = row.Position.Max(key.Before()), true
	s.setDispatcher(row)
	return ReportCounted
}

// mayWait checks that the report is about the same event as the others' and that no earlier one has been left out.
func (s *State) mayWait(feed Changefeed, row Dispatcher, r *BarrierReport, b Barrier, open bool) Reason {
	t, _ := s.Table(row.Table)
	switch {
	case open && !b.Spec.Equal(&r.Spec):
		return SpecMismatch
	case !open && s.checkSpec(r) != "":
		return Malformed
	case !r.Spec.concerns(t):
		return Malformed
	case s.earlierOpen(feed, row, t, r.Key) || feed.skips(row, r.Key):
		return EarlierEventOpen
	case t.Trigger && (!open || !b.TriggerSaid) && !s.followsChain(feed, row, r):
		return EarlierEventOpen
	default:
		return Accepted
	}
}

// earlierOpen says whether the dispatcher still stands before an earlier event that concerns it.
func (s *State) earlierOpen(feed Changefeed, row Dispatcher, t Table, key BarrierKey) bool {
	for b := range s.Barriers(feed.ID) {
		if compareKeys(b.Key, key) >= 0 {
			return false
		}
		if b.Spec.concerns(t) && row.Position.Less(b.Key.At) {
			return true
		}
	}
	return false
}

// skips says whether a sync point lies between where the dispatcher stands and the key: nobody skips one by itself.
func (f *Changefeed) skips(row Dispatcher, key BarrierKey) bool {
	next, ok := f.nextSyncPoint(row.Position)
	return ok && next.Less(key.At)
}

// followsChain: the trigger reports its events in order, and each report names the one before. It may stand between the
// newest known event and the trigger's own stored position, which only counted reports and starts raise: a report that
// was lost leaves a name above it.
func (s *State) followsChain(feed Changefeed, row Dispatcher, r *BarrierReport) bool {
	return !r.Earlier.Less(feed.Chain) && !row.Position.Less(r.Earlier) && feed.Chain.Less(r.Key.At)
}

// nextSyncPoint is the key of the first sync point after a position.
func (f *Changefeed) nextSyncPoint(after Position) (Position, bool) {
	return NextSyncPoint(f.SyncPointEvery, after.Max(f.SyncPointAfter))
}

// NextSyncPoint is the key of the first sync point after a position: they stand at the multiples of every, but not at 0.
// ok is false if there is none.
func NextSyncPoint(every uint64, after Position) (at Position, ok bool) {
	if every == 0 {
		return Position{}, false
	}
	at = Position{TS: after.TS / every * every, Stage: StageSyncPoint}
	if !after.Less(at) || at.TS == 0 {
		at.TS += every
	}
	return at, at.TS >= after.TS // else it would lie beyond the end of numbers
}

// event returns an event, open or remembered.
func (s *State) event(key BarrierKey) (Barrier, bool) {
	if b, open := s.Barrier(key); open {
		return b, true
	}
	return s.BarrierRecord(key)
}

// saidPassed counts once the event has been written; also of a placement that is stopping.
func (s *State) saidPassed(row Dispatcher, t Table, key BarrierKey) Reason {
	b, known := s.event(key)
	switch {
	case !row.Position.Less(key.At):
		return ReportInert
	case !known:
		return BarrierForget
	case b.Status != BarrierPassing && b.Status != BarrierEnded:
		return BarrierUnwritten
	case !b.Spec.concerns(t):
		return Malformed
	}
	row.Position, row.Waits = key.At, false
	s.setDispatcher(row)
	return ReportCounted
}

// saidByHolder counts the words of whoever holds the permission, until its placement has ended.
func (s *State) saidByHolder(row Dispatcher, r *BarrierReport, x entryContext) Reason {
	b, open := s.Barrier(r.Key)
	_, over := s.records.get(Barrier{Key: r.Key})
	switch {
	case over || (open && b.Status == BarrierPassing):
		return ReportInert
	case !open:
		return BarrierForget
	case !b.heldBy(row) || r.Permission != b.Permission:
		return StalePermission
	}
	if r.What == SaidWritten {
		row.Position, row.Waits = r.Key.At, false
		s.setDispatcher(row)
		s.written(b, BarrierWritten, x)
		return ReportCounted
	}
	b.Unknown, b.NotBegun = r.What == SaidUnknown, r.What == SaidNotBegun
	s.setBarrier(b)
	return ReportCounted
}

// heldBy says whether the row's placement holds the live permission.
func (b *Barrier) heldBy(row Dispatcher) bool {
	return b.Status == BarrierInWriting && b.Writer == row.ID && b.WriterEpoch == row.Epoch
}

// permissionOf returns the barrier whose live permission the row's placement holds.
func (s *State) permissionOf(row Dispatcher) (Barrier, bool) {
	if s.barriers.len() == 0 {
		return Barrier{}, false
	}
	for b := range s.Barriers(ChangefeedID(s.feedOf(row))) {
		if b.heldBy(row) {
			return b, true
		}
	}
	return Barrier{}, false
}

// holderEnded takes the permission back from a placement that has ended without saying "written".
func (s *State) holderEnded(row Dispatcher) {
	b, holds := s.permissionOf(row)
	if !holds {
		return
	}
	b.Status = BarrierCollecting
	if b.Unknown {
		b.Status = BarrierUndecided
	}
	s.setBarrier(b)
}

// written lets everybody pass and applies the effects, in the apply that learns of it.
func (s *State) written(b Barrier, result BarrierResult, x entryContext) {
	b.Status, b.Result, b.WrittenAt = BarrierPassing, result, x.index
	if result == BarrierWritten {
		b.Notes = s.applyEffects(b, x)
	}
	s.setBarrier(b)
}

// touch notes that a barrier may have moved on.
func (s *State) touch(key BarrierKey) {
	if !slices.Contains(s.dirty, key) {
		s.dirty = append(s.dirty, key)
	}
}

// settleBarriers moves on every barrier that the command has touched, until nothing moves any more.
func (s *State) settleBarriers(x entryContext) {
	for len(s.dirty) > 0 {
		key := s.dirty[0]
		s.dirty = s.dirty[1:]
		if b, open := s.Barrier(key); open {
			s.settle(b, x)
		}
	}
}

func (s *State) settle(b Barrier, x entryContext) {
	sum := s.tallies.get(b.Key)
	switch {
	case b.Status == BarrierInWriting:
	case b.Status == BarrierPassing:
		if sum.unpassed == 0 {
			s.endBarrier(b, b.Result, x)
		}
	case sum.members == 0:
		b.Notes = "everybody whom it concerned has gone"
		s.endBarrier(b, BarrierVoid, x)
	case b.Status == BarrierCollecting && sum.behind == 0:
		s.grant(b, x)
	}
}

func (s *State) endBarrier(b Barrier, result BarrierResult, x entryContext) {
	b.Status, b.Result, b.EndedAt = BarrierEnded, result, x.index
	s.setBarrierRecord(b)
}

// grant issues a write permission, if somebody can take it: the trigger if it takes part, else the lowest dispatcher
// that can. The holder must be running, in no operator, and must itself have said that it waits.
func (s *State) grant(b Barrier, x entryContext) {
	feed, _ := s.ChangefeedByID(b.Key.Changefeed)
	if feed.Status != ChangefeedRunning || (b.Spec.TriggerTakesPart() && !b.TriggerSaid) {
		return
	}
	row, ok := s.writerOf(feed, b)
	if !ok {
		return
	}
	b.Status, b.GrantedAt, b.NotBegun, b.Unknown = BarrierInWriting, x.index, false, false
	b.Permission++
	b.Writer, b.WriterEpoch, b.WriterIncarnation = row.ID, row.Epoch, row.Incarnation
	s.setBarrier(b)
	feed.Granted = feed.Granted.Max(b.Key.At)
	s.setChangefeed(feed)
}

func (s *State) writerOf(feed Changefeed, b Barrier) (Dispatcher, bool) {
	if b.Spec.TriggerTakesPart() {
		row, _ := s.Dispatcher(feed.Trigger)
		return row, row.canWrite(b.Key)
	}
	var found Dispatcher
	for _, ref := range b.Spec.Tables {
		t, ok := s.TableNamed(feed, ref.Schema, ref.Name)
		if !ok {
			continue
		}
		for row := range s.DispatchersOfTable(t.ID) {
			if row.canWrite(b.Key) && (found.ID == 0 || row.ID < found.ID) {
				found = row
			}
		}
	}
	return found, found.ID != 0
}

func (d *Dispatcher) canWrite(key BarrierKey) bool {
	return d.Phase == Running && d.Waits && !d.Leaving && d.Position == key.Before()
}

// Deciding ends what nobody can know: whether the last holder wrote. It is refused while a permission is live.
func (m *DecideBarrier) apply(s *State, x entryContext) Verdict {
	b, open := s.Barrier(m.Key)
	feed, _ := s.ChangefeedByID(m.Key.Changefeed)
	f := Facts{Changefeed: feed.Name, ChangefeedID: m.Key.Changefeed, Run: m.Key.Run, At: m.Key.At}
	if !open {
		return refused(UnknownBarrier, f)
	}
	f = s.barrierFacts(b)
	skip := m.Decision == DecideSkip
	switch {
	case m.Decision < DecideWritten || m.Decision > DecideSkip:
		return malformed("a decision is written, write again, or skip")
	case skip && m.Key.At.Stage != StageSyncPoint:
		return malformed("only a sync point can be skipped; a schema change is written, or written again")
	case b.Status == BarrierInWriting:
		return refused(BarrierWriting, f)
	case m.Permission != b.Permission:
		return refused(StalePermission, f)
	case b.Status != BarrierUndecided && (!skip || b.Status != BarrierCollecting):
		return refused(NotUndecided, f)
	}
	switch m.Decision {
	case DecideWritten:
		s.written(b, BarrierWritten, x)
	case DecideSkip:
		s.written(b, BarrierSkipped, x)
	case DecideWriteAgain:
		b.Status, b.Unknown = BarrierCollecting, false
		s.setBarrier(b)
	}
	return accepted(f)
}

// barrierFacts says what the barrier is and who holds its last permission.
func (s *State) barrierFacts(b Barrier) Facts {
	feed, _ := s.ChangefeedByID(b.Key.Changefeed)
	f := Facts{
		Changefeed: feed.Name, ChangefeedID: b.Key.Changefeed, Run: b.Key.Run, At: b.Key.At, Permission: b.Permission,
		Dispatcher: b.Writer, Epoch: b.WriterEpoch, Incarnation: b.WriterIncarnation, Detail: b.Status.String(),
	}
	if n, ok := s.NodeOf(b.WriterIncarnation); ok {
		f.Node = n.Name
	}
	return f
}
