package oracle

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// end is what is said of why a placement ends.
type end struct{ failure, fatal bool }

// placed is the dispatcher whose current placement is meant.
func (m *model) placed(id fsm.DispatcherID, inc fsm.Incarnation, epoch fsm.Epoch) *dispatcher {
	d := m.dispatchers[id]
	if d == nil || d.phase == fsm.Absent || d.inc != inc || d.epoch != epoch {
		return nil
	}
	return d
}

func (m *model) enter(d *dispatcher, p fsm.Phase) { d.phase, d.phaseMS = p, m.timeMS }

// startsAt: what is below the watermark is downstream.
func (m *model) startsAt(d *dispatcher) fsm.Position { return later(d.at, m.feedOf(d).watermark) }

func (m *model) place(d *dispatcher, inc fsm.Incarnation, op fsm.OpID) {
	d.inc, d.epoch, d.slot, d.hasRun, d.waits = inc, fsm.Epoch(m.next()), op, false, false
	d.at = m.startsAt(d)
	m.enter(d, fsm.Starting)
}

func (m *model) leave(d *dispatcher, slot fsm.OpID) {
	d.inc, d.epoch, d.hasRun, d.waits, d.slot = 0, 0, false, false, slot
	m.enter(d, fsm.Absent)
}

func (m *model) finish(op *operator, result fsm.OpResult) {
	op.result, op.ended = result, m.index
	delete(m.operators, op.id)
	m.finished[op.id] = op
	if len(m.finished) <= int(m.policy.KeepOperators) {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Values(m.finished)), func(a, b *operator) int {
		return cmp.Or(cmp.Compare(a.ended, b.ended), cmp.Compare(a.id, b.id))
	})
	delete(m.finished, oldest.id)
}

func (m *model) reportPlacements(c *fsm.ReportPlacements) answer {
	n, a := m.current(c.Node, c.Incarnation)
	if n == nil {
		return a
	}
	for i := range c.Reports {
		a.reports = append(a.reports, m.report(n, &c.Reports[i]))
	}
	return a
}

func (m *model) report(n *node, r *fsm.PlacementReport) fsm.Reason {
	d := m.placed(r.Dispatcher, n.inc, r.Epoch)
	switch {
	case d == nil && r.What == fsm.ReportRunning:
		return fsm.ReportStale
	case d == nil:
		return fsm.ReportInert
	case r.What == fsm.ReportRunning && d.phase == fsm.Starting:
		op := m.operators[d.slot]
		d.slot, d.hasRun = 0, true
		m.enter(d, fsm.Running)
		m.finish(op, fsm.OpDone)
	case r.What == fsm.ReportStopped, r.What == fsm.ReportStartFailed && d.phase != fsm.Running:
		if r.What == fsm.ReportStopped && r.HasPosition && known(r.Position) {
			d.at = m.stoppedAt(d, r.Position)
		}
		m.placementEnded(d, end{failure: true, fatal: r.Fatal})
	default:
		return fsm.ReportInert
	}
	return fsm.ReportCounted
}

// stoppedAt: nobody is past an event that has not been written.
func (m *model) stoppedAt(d *dispatcher, said fsm.Position) fsm.Position {
	for _, b := range m.eventsOf(m.feedOf(d).id) {
		if b.status != fsm.BarrierPassing && m.concerns(b, d) && before(d.at, b.key.At) && before(reached(b.key), said) {
			said = reached(b.key)
		}
	}
	return later(d.at, said)
}

// placementEnded: a confirmed stop, a failed start, an expiry.
func (m *model) placementEnded(d *dispatcher, why end) {
	phase, op := d.phase, m.operators[d.slot]
	for _, b := range m.events {
		if b.heldBy(d) {
			b.status = fsm.BarrierCollecting
			if b.unknown {
				b.status = fsm.BarrierUndecided
			}
		}
	}
	f, leaving := m.feedOf(d), d.leaving
	if phase == fsm.Stopping {
		m.stopConfirmed(d, op)
	} else {
		if why.failure {
			if phase == fsm.Running && m.timeMS-d.phaseMS >= m.policy.HealthyMS {
				d.failures = 0
			}
			d.failures++
		}
		m.leave(d, 0)
		if op != nil {
			m.finish(op, fsm.OpFailed)
		}
	}
	tooOften := m.policy.FailAfter > 0 && d.failures >= m.policy.FailAfter && phase != fsm.Stopping
	if !leaving && why.failure && (why.fatal || tooOften) {
		m.fail(f, d.id)
	}
}

// stopConfirmed is what an operator does when what it stops has stopped.
func (m *model) stopConfirmed(d *dispatcher, op *operator) {
	switch {
	case op.kind == fsm.OpRemove:
		delete(m.dispatchers, d.id)
		m.sweep(d.table)
		m.finish(op, fsm.OpDone)
	case op.kind == fsm.OpMerge:
		m.leave(d, op.id)
		if op.aborting {
			m.leaveMerge(op)
		} else {
			m.mergeIfStopped(op)
		}
	case op.aborting:
		m.leave(d, 0)
		m.finish(op, op.abortResult)
	case op.kind == fsm.OpMove:
		if n := m.nodeOf(op.to); n == nil || n.status != fsm.NodeStatusLive {
			m.leave(d, 0)
			m.finish(op, fsm.OpFailed)
			return
		}
		op.moved = true
		m.place(d, op.to, op.id)
	case op.kind == fsm.OpSplit:
		m.splitUp(d, op)
	case op.kind == fsm.OpStop:
		m.leave(d, 0)
		m.finish(op, fsm.OpDone)
	default:
		panic("an operator of kind " + op.kind.String() + " stops something")
	}
}

func (m *model) splitUp(d *dispatcher, op *operator) {
	at := m.startsAt(d)
	delete(m.dispatchers, d.id)
	for i, span := range op.spans {
		child := m.born(d.table, span, at)
		op.made = append(op.made, child.id)
		if len(op.targets) == 0 {
			continue
		}
		if n := m.nodeOf(op.targets[i]); n != nil {
			_ = m.startAdd(child, n, fsm.OpAdd)
		}
	}
	m.finish(op, fsm.OpDone)
}

// in lists the sources that are still in a Merge, in key order.
func (m *model) in(op *operator) []*dispatcher {
	var rows []*dispatcher
	for _, id := range op.sources {
		if d := m.dispatchers[id]; d != nil && d.slot == op.id {
			rows = append(rows, d)
		}
	}
	return rows
}

func (m *model) mergeIfStopped(op *operator) {
	rows, at := m.in(op), endOfTime()
	for _, d := range rows {
		if d.phase != fsm.Absent {
			return
		}
		if from := m.startsAt(d); before(from, at) {
			at = from
		}
	}
	for _, d := range rows {
		delete(m.dispatchers, d.id)
	}
	span := fsm.Span{Start: rows[0].span.Start, End: rows[len(rows)-1].span.End}
	op.made = []fsm.DispatcherID{m.born(rows[0].table, span, at).id}
	m.finish(op, fsm.OpDone)
}

// leaveMerge frees the sources that have stopped; with the last one the Merge ends.
func (m *model) leaveMerge(op *operator) {
	for _, d := range m.in(op) {
		if d.phase == fsm.Absent {
			d.slot = 0
		}
	}
	if len(m.in(op)) == 0 {
		m.finish(op, op.abortResult)
	}
}

// abort makes an operator end with its dispatcher absent, when what may run has stopped.
func (m *model) abort(op *operator, result fsm.OpResult) {
	op.aborting, op.abortResult = true, result
	if op.kind == fsm.OpMerge {
		m.leaveMerge(op)
		return
	}
	if d := m.dispatchers[op.dispatcher]; d.phase == fsm.Starting {
		m.enter(d, fsm.Stopping)
	}
}

// removal takes a dispatcher out of the wanted set, whatever it is in.
func (m *model) removal(d *dispatcher, drop bool) answer {
	old := m.operators[d.slot]
	if old != nil && old.kind == fsm.OpRemove {
		old.drop = old.drop || drop
		return answer{reason: fsm.Accepted, operator: old.id}
	}
	op := m.open(&operator{kind: fsm.OpRemove, dispatcher: d.id, drop: drop})
	if d.phase == fsm.Absent {
		delete(m.dispatchers, d.id)
		m.sweep(d.table)
		m.finish(op, fsm.OpDone)
	} else {
		d.slot, d.leaving = op.id, true
		if d.phase != fsm.Stopping {
			m.enter(d, fsm.Stopping)
		}
	}
	switch {
	case old == nil:
	case old.kind != fsm.OpMerge:
		old.replacedBy = op.id
		m.finish(old, fsm.OpReplaced)
	default:
		old.replacedBy = op.id
		if old.aborting {
			m.leaveMerge(old)
		} else {
			m.abort(old, fsm.OpReplaced)
		}
	}
	return answer{reason: fsm.Accepted, operator: op.id}
}
