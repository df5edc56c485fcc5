package fsm

func (m *CreateChangefeed) apply(s *State, x entryContext) Verdict {
	if v := m.check(); !v.OK() {
		return v
	}
	if old, ok := s.Changefeed(m.Name); ok {
		if old.Status == ChangefeedIsRemoving {
			return refused(ChangefeedRemoving, feedFacts(old))
		}
		return refused(ChangefeedExists, feedFacts(old))
	}
	if v := s.checkTables(m.Sink, m.Tables); !v.OK() {
		return v
	}
	s.meta.LastChangefeed++
	feed := Changefeed{
		ID: s.meta.LastChangefeed, Name: m.Name, Status: ChangefeedRunning, Source: m.Source, Sink: m.Sink,
		SinkFenced: m.SinkFenced, SinkMaxWriteMS: m.SinkMaxWriteMS, Start: m.Start, Run: s.nextRun(), CreatedAt: x.index,
		SyncPointEvery: m.SyncPointEvery, SyncPointAfter: m.Start, Watermark: m.Start, WatermarkAt: x.index, StatusAt: x.index, StatusBy: x.by,
	}
	s.setChangefeed(feed)
	for i := range m.Tables {
		s.addTable(feed, m.Tables[i], m.Start, x)
	}
	feed.Trigger = s.addTrigger(feed, x)
	s.setChangefeed(feed)
	return accepted(feedFacts(feed))
}

func (m *CreateChangefeed) check() Verdict {
	switch {
	case m.Name == "" || len(m.Name) > maxName:
		return malformed("changefeed name is empty or longer than 128 bytes")
	case m.Source == "" || m.Sink == "" || len(m.Source) > maxDetail || len(m.Sink) > maxDetail:
		return malformed("source or sink is missing or longer than 1024 bytes")
	case !m.SinkFenced && m.SinkMaxWriteMS == 0:
		return malformed("a sink that checks no tokens needs its longest write time")
	case !m.Start.Valid():
		return malformed("start position has no such stage")
	default:
		return accepted(Facts{})
	}
}

func feedFacts(f Changefeed) Facts {
	return Facts{Changefeed: f.Name, ChangefeedID: f.ID, Dispatcher: f.FailedBy, Limit: f.Reason, Detail: f.Detail}
}

// feedNamed finds a changefeed that has not been removed.
func (s *State) feedNamed(name string) (Changefeed, Verdict) {
	feed, ok := s.Changefeed(name)
	if !ok {
		return feed, refused(UnknownChangefeed, Facts{Changefeed: name})
	}
	if feed.Status == ChangefeedIsRemoving {
		return feed, refused(ChangefeedRemoving, feedFacts(feed))
	}
	return feed, accepted(feedFacts(feed))
}

// Pausing aborts each operator of the changefeed as a cancellation would, and gives each running dispatcher a Stop, all
// in one apply. Removals go on. Facts.Have counts the dispatchers that are being stopped.
func (m *PauseChangefeed) apply(s *State, x entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	if !v.OK() {
		return v
	}
	if feed.stopped() {
		return refused(feed.stoppedReason(), feedFacts(feed))
	}
	feed.Status, feed.StatusAt, feed.StatusBy = ChangefeedIsPaused, x.index, x.by
	v.Facts.Have = s.stopFeed(feed, "CHANGEFEED_PAUSED", x)
	return v
}

// stopFeed stores the changefeed, stops everything of it, and says how many dispatchers are being stopped.
func (s *State) stopFeed(feed Changefeed, reason string, x entryContext) (stopping uint64) {
	s.setChangefeed(feed)
	for _, row := range s.dispatchersOfFeed(feed.ID) {
		if now, ok := s.Dispatcher(row.ID); ok && s.stopForPause(now, reason, x) {
			stopping++
		}
	}
	return stopping
}

// failFeed stops a changefeed because going on makes no sense; a person resumes it.
func (s *State) failFeed(feed Changefeed, by DispatcherID, why ending, x entryContext) {
	if feed.Status != ChangefeedRunning {
		return
	}
	feed.Status, feed.StatusAt, feed.StatusBy = ChangefeedIsFailed, x.index, x.by
	feed.Reason, feed.Detail, feed.FailedBy = why.reason, why.detail, by
	s.stopFeed(feed, "CHANGEFEED_FAILED", x)
}

// stopped says whether nothing of the changefeed may be started until it is resumed.
func (f *Changefeed) stopped() bool {
	return f.Status == ChangefeedIsPaused || f.Status == ChangefeedIsFailed
}

func (f *Changefeed) stoppedReason() Reason {
	if f.Status == ChangefeedIsFailed {
		return ChangefeedFailed
	}
	return ChangefeedPaused
}

func (s *State) stopForPause(row Dispatcher, reason string, x entryContext) bool {
	op, inSlot := s.operators.get(Operator{ID: row.Slot})
	switch {
	case row.Phase == Running:
		op = s.open(s.describe(Operator{Kind: OpStop, Epoch: row.Epoch}, row), x)
		row.Slot = op.ID
		s.setOperator(op)
		s.enter(row, Stopping, x)
		return true
	case inSlot && !op.Aborting && op.Kind != OpRemove && op.Kind != OpStop:
		s.abort(op, OpCanceled, ending{reason: reason, detail: of("by ", x.by)}, x)
		return true
	default:
		return false
	}
}

// dispatchersOfFeed lists the dispatchers of a changefeed, so that they can be changed one by one.
func (s *State) dispatchersOfFeed(id ChangefeedID) []Dispatcher {
	var rows []Dispatcher
	for t := range s.Tables(id) {
		rows = append(rows, s.dispatchersOfTable(t.ID)...)
	}
	return rows
}

func (s *State) dispatchersOfTable(id TableID) []Dispatcher {
	var rows []Dispatcher
	for row := range s.DispatchersOfTable(id) {
		rows = append(rows, row)
	}
	return rows
}

// Resuming goes on where every dispatcher stands. Below the watermark it repeats what was done, so it must be asked for
// by force, and starts a new run: events, permissions and resume points of the older one mean nothing any more.
func (m *ResumeChangefeed) apply(s *State, x entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	f := feedFacts(feed)
	f.At = feed.Watermark
	switch {
	case !v.OK():
		return v
	case !feed.stopped():
		return refused(ChangefeedNotPaused, f)
	case m.HasFrom && (!m.From.Valid() || feed.Watermark.Less(m.From)):
		return malformed("a changefeed cannot skip changes: it resumes at its watermark " + feed.Watermark.String() + " or below")
	}
	back := m.HasFrom && m.From.Less(feed.Watermark)
	if back && !m.Force {
		return refused(StartTooOld, f)
	}
	if back {
		if v := s.allStopped(feed); !v.OK() {
			return v
		}
		feed = s.newRun(feed, m.From, x)
	}
	if row, ok := s.Dispatcher(feed.FailedBy); ok { // whoever resumes has mended the cause: it counts from one again
		row.Failures = 0
		s.setDispatcher(row)
	}
	feed.Status, feed.StatusAt, feed.StatusBy = ChangefeedRunning, x.index, x.by
	feed.Reason, feed.Detail, feed.FailedBy = "", "", 0
	s.setChangefeed(feed)
	for b := range s.Barriers(feed.ID) {
		s.touch(b.Key)
	}
	f = feedFacts(feed)
	f.Run, f.At = feed.Run, feed.Watermark
	return accepted(f)
}

// allStopped says who of a changefeed is still being stopped.
func (s *State) allStopped(feed Changefeed) Verdict {
	for _, row := range s.dispatchersOfFeed(feed.ID) {
		if row.Phase != Absent {
			op, _ := s.operators.get(Operator{ID: row.Slot})
			return refused(ChangefeedStopping, operatorFacts(op))
		}
	}
	return accepted(Facts{})
}

// nextRun issues the number of a run: what a sink has recorded under an older one means nothing to it.
func (s *State) nextRun() uint64 {
	s.meta.LastRun++
	return s.meta.LastRun
}

// newRun sets everything of a changefeed back.
func (s *State) newRun(feed Changefeed, from Position, x entryContext) Changefeed {
	var open []Barrier
	for b := range s.Barriers(feed.ID) {
		open = append(open, b)
	}
	for _, b := range open {
		b.Notes = "the changefeed was set back to " + from.String()
		s.endBarrier(b, BarrierVoid, x)
	}
	for _, row := range s.dispatchersOfFeed(feed.ID) {
		row.Position = from
		s.setDispatcher(row)
	}
	feed.Run = s.nextRun()
	feed.Watermark, feed.WatermarkAt, feed.Chain, feed.Granted = from, x.index, Position{}, Position{}
	feed.SyncPointAfter = from
	return feed
}

func (m *UpdateChangefeed) apply(s *State, x entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	switch {
	case !v.OK():
		return v
	case len(m.Source) > maxDetail:
		return malformed("source is longer than 1024 bytes")
	case !feed.stopped():
		return refused(ChangefeedNotPaused, feedFacts(feed))
	}
	if v := s.allStopped(feed); !v.OK() {
		return v
	}
	if m.Source != "" {
		feed.Source = m.Source
	}
	if m.HasSyncPoints && m.SyncPointEvery != feed.SyncPointEvery {
		feed = s.endSyncPoints(feed, x)
		feed.SyncPointEvery = m.SyncPointEvery
	}
	s.setChangefeed(feed)
	return v
}

// endSyncPoints ends the open sync points of a changefeed whose distance changes: nobody will stand at their keys again,
// so the chain of the trigger's events goes on from where the trigger itself stands.
func (s *State) endSyncPoints(feed Changefeed, x entryContext) Changefeed {
	var open []Barrier
	for b := range s.Barriers(feed.ID) {
		if b.Key.At.Stage == StageSyncPoint {
			open = append(open, b)
		}
	}
	for _, b := range open {
		b.Notes = "the distance of sync points was changed"
		result := b.Result
		if result == 0 {
			result = BarrierVoid
		}
		s.endBarrier(b, result, x)
	}
	if row, _ := s.Dispatcher(feed.Trigger); row.Position.Less(feed.Chain) {
		feed.Chain = row.Position
	}
	feed.SyncPointAfter = feed.Watermark
	for _, row := range s.dispatchersOfFeed(feed.ID) {
		feed.SyncPointAfter = feed.SyncPointAfter.Max(row.Position)
	}
	return feed
}

// Removing a changefeed drops everything of it; it and its name go with the last removal.
func (m *RemoveChangefeed) apply(s *State, x entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	if !v.OK() {
		return v
	}
	feed.Status, feed.StatusAt, feed.StatusBy = ChangefeedIsRemoving, x.index, x.by
	s.setChangefeed(feed)
	for _, t := range s.tablesOfFeed(feed.ID) {
		if !t.Dropping && !t.Trigger {
			s.startDrop(t, x)
		}
	}
	s.removeRest(feed, x)
	return v
}

// removeRest takes the trigger out of a changefeed that is being removed, when no table is left, and then the changefeed.
func (s *State) removeRest(feed Changefeed, x entryContext) {
	tables := s.tablesOfFeed(feed.ID)
	switch {
	case len(tables) == 0:
		s.dropChangefeed(feed)
	case len(tables) == 1 && tables[0].Trigger && !tables[0].Dropping:
		s.startDrop(tables[0], x)
	}
}

func (s *State) tablesOfFeed(id ChangefeedID) []Table {
	var tables []Table
	for t := range s.Tables(id) {
		tables = append(tables, t)
	}
	return tables
}
