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
		SinkFenced: m.SinkFenced, SinkMaxWriteMS: m.SinkMaxWriteMS, Start: m.Start, Run: 1, CreatedAt: x.index,
	}
	s.setChangefeed(feed)
	for i := range m.Tables {
		s.addTable(feed, m.Tables[i], m.Start, x)
	}
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
	case len(m.Tables) == 0:
		return malformed("a changefeed needs at least one table")
	case !m.Start.Valid():
		return malformed("start position has no such stage")
	default:
		return accepted(Facts{})
	}
}

func feedFacts(f Changefeed) Facts { return Facts{Changefeed: f.Name, ChangefeedID: f.ID} }

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
	if feed.Status == ChangefeedIsPaused {
		return refused(ChangefeedPaused, feedFacts(feed))
	}
	feed.Status = ChangefeedIsPaused
	s.setChangefeed(feed)
	for _, row := range s.dispatchersOfFeed(feed.ID) {
		if s.pause(row, x) {
			v.Facts.Have++
		}
	}
	return v
}

func (s *State) pause(row Dispatcher, x entryContext) bool {
	op, inSlot := s.operators.get(Operator{ID: row.Slot})
	switch {
	case row.Phase == Running:
		op = s.open(s.describe(Operator{Kind: OpStop, Epoch: row.Epoch}, row), x)
		row.Slot = op.ID
		s.setOperator(op)
		s.enter(row, Stopping, x)
		return true
	case inSlot && !op.Aborting && (op.Kind == OpAdd || op.Kind == OpMove):
		s.abort(op, OpCanceled, ending{reason: "CHANGEFEED_PAUSED", detail: "by " + x.by}, x)
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

func (m *ResumeChangefeed) apply(s *State, _ entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	if !v.OK() {
		return v
	}
	if feed.Status != ChangefeedIsPaused {
		return refused(ChangefeedNotPaused, feedFacts(feed))
	}
	feed.Status = ChangefeedRunning
	s.setChangefeed(feed)
	return v
}

// Removing a changefeed drops everything of it; it and its name go with the last removal.
func (m *RemoveChangefeed) apply(s *State, x entryContext) Verdict {
	feed, v := s.feedNamed(m.Name)
	if !v.OK() {
		return v
	}
	feed.Status = ChangefeedIsRemoving
	s.setChangefeed(feed)
	for _, t := range s.tablesOfFeed(feed.ID) {
		if !t.Dropping {
			s.startDrop(t, x)
		}
	}
	s.dropChangefeedIfEmpty(feed)
	return v
}

func (s *State) tablesOfFeed(id ChangefeedID) []Table {
	var tables []Table
	for t := range s.Tables(id) {
		tables = append(tables, t)
	}
	return tables
}

func (s *State) dropChangefeedIfEmpty(feed Changefeed) {
	if !s.tablesOf.some(uint64(feed.ID)) {
		s.dropChangefeed(feed)
	}
}
