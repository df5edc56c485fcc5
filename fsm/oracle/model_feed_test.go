package oracle

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/fsm"
)

func (m *model) feedNamed(name string) *feed {
	for _, f := range m.feeds {
		if f.name == name {
			return f
		}
	}
	return nil
}

// wanted finds a changefeed that is not being removed.
func (m *model) wanted(name string) (*feed, answer) {
	f := m.feedNamed(name)
	switch {
	case f == nil:
		return nil, no(fsm.UnknownChangefeed)
	case f.status == fsm.ChangefeedIsRemoving:
		return nil, no(fsm.ChangefeedRemoving)
	default:
		return f, yes()
	}
}

func (m *model) stoppedReason(f *feed) fsm.Reason {
	if f.status == fsm.ChangefeedIsFailed {
		return fsm.ChangefeedFailed
	}
	return fsm.ChangefeedPaused
}

func (m *model) tablesOf(id fsm.ChangefeedID) []*table {
	var out []*table
	for _, t := range inOrder(m.tables) {
		if t.feed == id {
			out = append(out, t)
		}
	}
	return out
}

// spansOf lists a table's dispatchers in key order.
func (m *model) spansOf(id fsm.TableID) []*dispatcher {
	var out []*dispatcher
	for _, d := range inOrder(m.dispatchers) {
		if d.table == id {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b *dispatcher) int { return cmp.Compare(a.span.Start, b.span.Start) })
	return out
}

func (m *model) dispatchersOf(id fsm.ChangefeedID) []*dispatcher {
	var out []*dispatcher
	for _, t := range m.tablesOf(id) {
		out = append(out, m.spansOf(t.id)...)
	}
	return out
}

func (m *model) feedOf(d *dispatcher) *feed { return m.feeds[m.tables[d.table].feed] }

func (m *model) create(c *fsm.CreateChangefeed) answer {
	if c.Name == "" || c.Source == "" || c.Sink == "" || (!c.SinkFenced && c.SinkMaxWriteMS == 0) || !known(c.Start) {
		return no(fsm.Malformed)
	}
	if old := m.feedNamed(c.Name); old != nil {
		if old.status == fsm.ChangefeedIsRemoving {
			return no(fsm.ChangefeedRemoving)
		}
		return no(fsm.ChangefeedExists)
	}
	if a := m.mayAdd(c.Sink, c.Tables); a.reason != fsm.Accepted {
		return a
	}
	m.lastFeed++
	m.lastRun++
	f := &feed{
		id: m.lastFeed, name: c.Name, sink: c.Sink, source: c.Source, status: fsm.ChangefeedRunning, run: m.lastRun,
		every: c.SyncPointEvery, after: c.Start, watermark: c.Start,
	}
	m.feeds[f.id] = f
	for _, spec := range c.Tables {
		m.addTable(f, spec, c.Start)
	}
	m.lastTable++
	m.tables[m.lastTable] = &table{id: m.lastTable, feed: f.id, trigger: true}
	f.trigger = m.born(m.lastTable, fsm.Span{}, c.Start).id
	return yes()
}

// born creates an absent dispatcher.
func (m *model) born(t fsm.TableID, span fsm.Span, at fsm.Position) *dispatcher {
	m.lastDispatcher++
	d := &dispatcher{id: m.lastDispatcher, table: t, span: span, at: at, phase: fsm.Absent, phaseMS: m.timeMS}
	m.dispatchers[d.id] = d
	return d
}

func (m *model) addTable(f *feed, spec fsm.TableSpec, at fsm.Position) {
	m.lastTable++
	m.tables[m.lastTable] = &table{id: m.lastTable, feed: f.id, ref: fsm.TableRef{Schema: spec.Schema, Name: spec.Name}}
	bounds := append(append([]string{""}, spec.SplitKeys...), "")
	for i := range len(bounds) - 1 {
		m.born(m.lastTable, fsm.Span{Start: bounds[i], End: bounds[i+1]}, at)
	}
}

// target is the live table, of any changefeed, that replicates into a table of the sink.
func (m *model) target(sink string, ref fsm.TableRef) *table {
	for _, t := range m.tables {
		if !t.trigger && !t.dropping && t.ref == ref && m.feeds[t.feed].sink == sink {
			return t
		}
	}
	return nil
}

// live is the table of the name that the changefeed replicates.
func (m *model) live(f *feed, ref fsm.TableRef) *table {
	if t := m.target(f.sink, ref); t != nil && t.feed == f.id {
		return t
	}
	return nil
}

func wellFormed(specs []fsm.TableSpec, i int) bool {
	spec := specs[i]
	for j, key := range spec.SplitKeys {
		if key == "" || (j > 0 && key <= spec.SplitKeys[j-1]) {
			return false
		}
	}
	for _, other := range specs[:i] {
		if other.Schema == spec.Schema && other.Name == spec.Name {
			return false
		}
	}
	return spec.Name != ""
}

func (m *model) mayAdd(sink string, specs []fsm.TableSpec) answer {
	count := len(m.dispatchers)
	for i, spec := range specs {
		if !wellFormed(specs, i) {
			return no(fsm.Malformed)
		}
		if m.target(sink, fsm.TableRef{Schema: spec.Schema, Name: spec.Name}) != nil {
			return no(fsm.TableExists)
		}
		count += 1 + len(spec.SplitKeys)
	}
	if count > int(m.policy.MaxDispatchers) {
		return no(fsm.LimitReached)
	}
	return yes()
}

func (m *model) addTables(c *fsm.AddTables) answer {
	if len(c.Tables) == 0 || !known(c.Start) {
		return no(fsm.Malformed)
	}
	f, a := m.wanted(c.Changefeed)
	if f == nil {
		return a
	}
	if a := m.mayAdd(f.sink, c.Tables); a.reason != fsm.Accepted {
		return a
	}
	earliest := later(f.watermark, f.granted)
	if c.Start != (fsm.Position{}) && before(c.Start, earliest) {
		return no(fsm.StartTooOld)
	}
	for _, spec := range c.Tables {
		m.addTable(f, spec, later(c.Start, earliest))
	}
	return a
}

func (m *model) dropTables(c *fsm.DropTables) answer {
	if len(c.Tables) == 0 {
		return no(fsm.Malformed)
	}
	f, a := m.wanted(c.Changefeed)
	if f == nil {
		return a
	}
	for _, ref := range c.Tables {
		if m.live(f, ref) == nil {
			return no(fsm.UnknownTable)
		}
	}
	for _, ref := range c.Tables {
		if t := m.live(f, ref); t != nil {
			m.drop(t)
		}
	}
	return a
}

// drop takes a table away: what runs nowhere at once, everything else by a removal.
func (m *model) drop(t *table) {
	t.dropping = true
	for _, d := range m.spansOf(t.id) {
		if now := m.dispatchers[d.id]; now != nil {
			m.removal(now, true)
		}
	}
	m.sweep(t.id)
}

// sweep deletes a table that has lost its last dispatcher to a drop, and what was only kept by it.
func (m *model) sweep(id fsm.TableID) {
	t := m.tables[id]
	if t == nil || !t.dropping || len(m.spansOf(id)) > 0 {
		return
	}
	delete(m.tables, id)
	if f := m.feeds[t.feed]; f.status == fsm.ChangefeedIsRemoving {
		m.removeRest(f)
	}
}

// removeRest lets the trigger go when no table is left, and the changefeed after it.
func (m *model) removeRest(f *feed) {
	switch left := m.tablesOf(f.id); {
	case len(left) == 0:
		delete(m.feeds, f.id)
	case len(left) == 1 && left[0].trigger && !left[0].dropping:
		m.drop(left[0])
	}
}

func (m *model) remove(c *fsm.RemoveChangefeed) answer {
	f, a := m.wanted(c.Name)
	if f == nil {
		return a
	}
	f.status = fsm.ChangefeedIsRemoving
	for _, t := range m.tablesOf(f.id) {
		if !t.trigger && !t.dropping {
			m.drop(t)
		}
	}
	m.removeRest(f)
	return a
}

func (m *model) pause(c *fsm.PauseChangefeed) answer {
	f, a := m.wanted(c.Name)
	switch {
	case f == nil:
		return a
	case f.stopped():
		return no(m.stoppedReason(f))
	}
	f.status = fsm.ChangefeedIsPaused
	m.stopAll(f)
	return a
}

// stopAll stops what runs and cancels what is under way; removals go on.
func (m *model) stopAll(f *feed) {
	for _, d := range m.dispatchersOf(f.id) {
		d = m.dispatchers[d.id]
		if d == nil {
			continue
		}
		op := m.operators[d.slot]
		switch {
		case d.phase == fsm.Running:
			stop := m.open(&operator{kind: fsm.OpStop, dispatcher: d.id})
			d.slot = stop.id
			m.enter(d, fsm.Stopping)
		case op != nil && !op.aborting && op.kind != fsm.OpRemove && op.kind != fsm.OpStop:
			m.abort(op, fsm.OpCanceled)
		}
	}
}

// fail stops a changefeed that runs, because going on makes no sense.
func (m *model) fail(f *feed, by fsm.DispatcherID) {
	if f.status == fsm.ChangefeedRunning {
		f.status, f.failedBy = fsm.ChangefeedIsFailed, by
		m.stopAll(f)
	}
}

func (m *model) allAbsent(f *feed) bool {
	for _, d := range m.dispatchersOf(f.id) {
		if d.phase != fsm.Absent {
			return false
		}
	}
	return true
}

func (m *model) resume(c *fsm.ResumeChangefeed) answer {
	f, a := m.wanted(c.Name)
	switch {
	case f == nil:
		return a
	case !f.stopped():
		return no(fsm.ChangefeedNotPaused)
	case c.HasFrom && (!known(c.From) || before(f.watermark, c.From)):
		return no(fsm.Malformed)
	}
	if c.HasFrom && before(c.From, f.watermark) {
		switch {
		case !c.Force:
			return no(fsm.StartTooOld)
		case !m.allAbsent(f):
			return no(fsm.ChangefeedStopping)
		}
		m.setBack(f, c.From)
	}
	if d := m.dispatchers[f.failedBy]; d != nil {
		d.failures = 0
	}
	f.status, f.failedBy = fsm.ChangefeedRunning, 0
	return a
}

// setBack starts a new run.
func (m *model) setBack(f *feed, from fsm.Position) {
	for _, b := range m.eventsOf(f.id) {
		m.endEvent(b, fsm.BarrierVoid)
	}
	for _, d := range m.dispatchersOf(f.id) {
		d.at = from
	}
	m.lastRun++
	f.run, f.watermark, f.after = m.lastRun, from, from
	f.chain, f.granted = fsm.Position{}, fsm.Position{}
}

func (m *model) update(c *fsm.UpdateChangefeed) answer {
	f, a := m.wanted(c.Name)
	switch {
	case f == nil:
		return a
	case !f.stopped():
		return no(fsm.ChangefeedNotPaused)
	case !m.allAbsent(f):
		return no(fsm.ChangefeedStopping)
	}
	if c.Source != "" {
		f.source = c.Source
	}
	if !c.HasSyncPoints || c.SyncPointEvery == f.every {
		return a
	}
	for _, b := range m.eventsOf(f.id) {
		if b.key.At.Stage == fsm.StageSyncPoint {
			m.endEvent(b, cmp.Or(b.result, fsm.BarrierVoid))
		}
	}
	if t := m.dispatchers[f.trigger]; before(t.at, f.chain) {
		f.chain = t.at
	}
	f.every, f.after = c.SyncPointEvery, f.watermark
	for _, d := range m.dispatchersOf(f.id) {
		f.after = later(f.after, d.at)
	}
	return a
}
