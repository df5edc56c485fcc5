package fsm

func (m *AddTables) apply(s *State, x entryContext) Verdict {
	if len(m.Tables) == 0 || !m.Start.Valid() {
		return malformed("no table is named, or the start position has no such stage")
	}
	feed, v := s.feedNamed(m.Changefeed)
	if !v.OK() {
		return v
	}
	if v := s.checkTables(feed.Sink, m.Tables); !v.OK() {
		return v
	}
	earliest := feed.Watermark.Max(feed.Granted)
	if m.Start != (Position{}) && m.Start.Less(earliest) {
		f := feedFacts(feed)
		f.At = earliest
		return refused(StartTooOld, f)
	}
	for i := range m.Tables {
		v.Facts.TableID = s.addTable(feed, m.Tables[i], earliest.Max(m.Start), x)
	}
	return v
}

// checkTables refuses names that are malformed, given twice or taken, by any changefeed that writes to the same sink.
func (s *State) checkTables(sink string, specs []TableSpec) Verdict {
	want := uint64(s.DispatcherCount())
	for i := range specs {
		if v := s.checkTable(sink, specs, i); !v.OK() {
			return v
		}
		want += uint64(len(specs[i].SplitKeys)) + 1
	}
	if limit := s.meta.Policy.MaxDispatchers; want > limit {
		return refused(LimitReached, Facts{Limit: "dispatchers", Have: want, Want: limit})
	}
	return accepted(Facts{})
}

func (s *State) checkTable(sink string, specs []TableSpec, i int) Verdict {
	if v := s.checkTableShape(specs, i); !v.OK() {
		return v
	}
	spec := &specs[i]
	ref := TableRef{spec.Schema, spec.Name}
	if id, taken := s.targets.get(target{sink, spec.Schema, spec.Name}); taken {
		t, _ := s.Table(id)
		feed, _ := s.ChangefeedByID(t.Changefeed)
		return refused(TableExists, Facts{Table: ref.String(), TableID: id, Changefeed: feed.Name})
	}
	return accepted(Facts{})
}

// checkTableShape refuses what no changefeed could have.
func (s *State) checkTableShape(specs []TableSpec, i int) Verdict {
	spec := &specs[i]
	ref := TableRef{spec.Schema, spec.Name}
	if spec.Name == "" || len(spec.Name) > maxName || len(spec.Schema) > maxName {
		return malformed("a table name is empty, or a name is longer than 128 bytes")
	}
	last := ""
	for _, key := range spec.SplitKeys {
		if key <= last {
			return malformed("split keys of " + ref.String() + " are not strictly ascending")
		}
		last = key
	}
	for j := range i {
		if specs[j].Schema == spec.Schema && specs[j].Name == spec.Name {
			return malformed("table " + ref.String() + " is named twice")
		}
	}
	return accepted(Facts{})
}

// addTrigger creates the dispatcher that reads the source's events. It belongs to a table of its own kind.
func (s *State) addTrigger(feed Changefeed, x entryContext) DispatcherID {
	s.meta.LastTable++
	t := Table{ID: s.meta.LastTable, Changefeed: feed.ID, Trigger: true, CreatedAt: x.index}
	s.setTable(t)
	return s.newDispatcher(t.ID, WholeTable(), feed.Start, x).ID
}

// addTable creates a table and its spans, absent. A range that a running removal still holds makes its dispatcher held:
// absent, but not placeable until the removal has ended; that follows from the removals and is stored nowhere.
func (s *State) addTable(feed Changefeed, spec TableSpec, start Position, x entryContext) TableID {
	s.meta.LastTable++
	t := Table{ID: s.meta.LastTable, Changefeed: feed.ID, Schema: spec.Schema, Name: spec.Name, CreatedAt: x.index}
	s.setTable(t)
	from := ""
	for i := range len(spec.SplitKeys) + 1 {
		to := ""
		if i < len(spec.SplitKeys) {
			to = spec.SplitKeys[i]
		}
		s.newDispatcher(t.ID, Span{Start: from, End: to}, start, x)
		from = to
	}
	return t.ID
}

func (m *DropTables) apply(s *State, x entryContext) Verdict {
	if len(m.Tables) == 0 {
		return malformed("no table is named")
	}
	feed, v := s.feedNamed(m.Changefeed)
	if !v.OK() {
		return v
	}
	tables := make([]Table, len(m.Tables))
	for i, ref := range m.Tables {
		t, ok := s.TableNamed(feed, ref.Schema, ref.Name)
		if !ok {
			return refused(UnknownTable, Facts{Changefeed: feed.Name, Table: ref.String()})
		}
		tables[i] = t
	}
	for _, t := range tables {
		if now, ok := s.Table(t.ID); ok && !now.Dropping {
			s.startDrop(t, x)
		}
		v.Facts.TableID = t.ID
	}
	return v
}

// startDrop gives every dispatcher of the table a removal, or deletes it at once if it runs nowhere. The table's name is
// free from now on; its ranges only when the removals have ended.
func (s *State) startDrop(t Table, x entryContext) {
	t.Dropping = true
	s.setTable(t)
	for _, row := range s.dispatchersOfTable(t.ID) {
		if now, ok := s.Dispatcher(row.ID); ok {
			s.admit(now, ReqDrop, admission{drop: true}, x)
		}
	}
	s.dropTableIfEmpty(t, x)
}

// dropTableIfEmpty deletes a table that is being dropped once its last dispatcher is gone.
func (s *State) dropTableIfEmpty(t Table, x entryContext) {
	if s.spans.some(t.ID) {
		return
	}
	if _, there := s.Table(t.ID); !there {
		return
	}
	s.dropTable(t)
	if feed, _ := s.ChangefeedByID(t.Changefeed); feed.Status == ChangefeedIsRemoving {
		s.removeRest(feed, x)
	}
}
