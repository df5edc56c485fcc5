package scheduler

import "github.com/weir-project/weir/fsm"

// merge proposes to join neighbours that together write little, and have for the cool-down. It goes through the tables
// bit by bit, a bounded number of dispatchers a plan.
func (p *planner) merge() {
	l := p.in.Limits
	if p.in.Loads == nil || l.MergeAtOnce <= p.ops.merges || p.room() == 0 {
		return
	}
	m := &merger{planner: p, looks: l.Scan, from: p.in.From.Merge}
	for f := range p.in.View.Changefeeds() {
		if f.Status != fsm.ChangefeedRunning || f.ID < m.from.Changefeed {
			continue
		}
		if !m.walk(f) {
			return
		}
	}
	p.next.Merge = TableCursor{}
}

// merger is a walk through tables.
type merger struct {
	*planner
	looks int
	from  TableCursor
	group []fsm.Dispatcher // neighbours that may be joined
	rate  uint64           // of the group
}

// walk goes through the tables of a changefeed; it is false when the plan has looked at enough.
func (m *merger) walk(f fsm.Changefeed) bool {
	for t := range m.in.View.Tables(f.ID) {
		at := TableCursor{Changefeed: f.ID, Table: t.ID}
		if t.Trigger || t.Dropping || (f.ID == m.from.Changefeed && t.ID < m.from.Table) {
			continue
		}
		if f.ID == m.from.Changefeed && t.ID == m.from.Table {
			at.Start = m.from.Start
		}
		if !m.walkTable(at) {
			return false
		}
	}
	return true
}

func (m *merger) walkTable(at TableCursor) bool {
	m.group = nil
	for row := range m.in.View.DispatchersOfTable(at.Table) {
		if row.Span.Start < at.Start {
			continue
		}
		if m.looks == 0 || m.room() == 0 || m.ops.merges >= m.in.Limits.MergeAtOnce {
			m.next.Merge = TableCursor{Changefeed: at.Changefeed, Table: at.Table, Start: m.resume(row)}
			m.join()
			return false
		}
		m.looks--
		m.consider(row)
	}
	m.join()
	return true
}

// resume is where the next plan starts when this one stops before a row: at the one before it, if that may have found a
// neighbour, and is not all that this plan has looked at.
func (m *merger) resume(row fsm.Dispatcher) string {
	if len(m.group) == 1 && m.looks < m.in.Limits.Scan-1 {
		return m.group[0].Span.Start
	}
	return row.Span.Start
}

// consider adds a dispatcher to the group, or ends the group before it.
func (m *merger) consider(row fsm.Dispatcher) {
	rate, known := m.in.Loads.Rate(row)
	if !known || rate > m.in.Limits.MergeRate || !m.movable(row) || !m.settled(row) {
		m.join()
		return
	}
	if n := len(m.group); n > 0 {
		end := m.group[n-1].Span.End
		if n == m.in.Limits.MergeSources || m.rate+rate > m.in.Limits.MergeRate || end == "" || end != row.Span.Start {
			m.join()
		}
	}
	m.group, m.rate = append(m.group, row), m.rate+rate
}

// join proposes to merge the group, if it is one, and begins another.
func (m *merger) join() {
	group := m.group
	m.group, m.rate = nil, 0
	if len(group) < 2 || m.room() == 0 || m.ops.merges >= m.in.Limits.MergeAtOnce {
		return
	}
	ask := &fsm.AdmitOperator{Op: fsm.OpMerge, ExpectEpoch: group[0].Epoch}
	for _, row := range group {
		ask.Sources = append(ask.Sources, row.ID)
		m.taken[row.ID] = true
	}
	m.admit(ask)
	m.ops.merges++
}
