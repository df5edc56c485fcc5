package oracle

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// malformedAsk says whether an operator is asked for in a way that means nothing.
func malformedAsk(c *fsm.AdmitOperator) bool {
	nodes := c.From != "" || c.FromAny || c.To != ""
	several := len(c.Sources) > 0
	cuts := len(c.Spans) > 0 || len(c.Targets) > 0
	switch c.Op {
	case fsm.OpAdd:
		return c.Dispatcher == 0 || several || cuts || c.To == "" || c.From != "" || c.FromAny
	case fsm.OpMove:
		return c.Dispatcher == 0 || several || cuts || c.To == "" || (c.From != "" && c.FromAny)
	case fsm.OpRemove:
		return c.Dispatcher == 0 || several || cuts || nodes
	case fsm.OpSplit:
		return c.Dispatcher == 0 || several || nodes || len(c.Spans) > 256 ||
			(len(c.Targets) > 0 && len(c.Targets) != len(c.Spans))
	case fsm.OpMerge:
		return c.Dispatcher != 0 || cuts || nodes
	default:
		return true
	}
}

func (m *model) admit(c *fsm.AdmitOperator) answer {
	if malformedAsk(c) {
		return no(fsm.Malformed)
	}
	if c.Op == fsm.OpMerge {
		return m.admitMerge(c)
	}
	d := m.dispatchers[c.Dispatcher]
	if d == nil {
		return no(fsm.UnknownDispatcher)
	}
	for _, name := range append([]fsm.NodeName{c.From, c.To}, c.Targets...) {
		if name != "" && m.nodes[name] == nil {
			return no(fsm.UnknownNode)
		}
	}
	if c.ExpectEpoch != 0 && c.ExpectEpoch != d.epoch {
		return m.owned(fsm.EpochMismatch, d)
	}
	if a := m.feedAllows(d, c.Op); a.reason != fsm.Accepted {
		return a
	}
	if c.Op == fsm.OpRemove {
		return m.removal(d, false)
	}
	if a := m.free(d); a.reason != fsm.Accepted {
		return a
	}
	return m.admitFree(d, c)
}

// feedAllows: nothing is started in a changefeed that is stopped or removed, and a trigger can only be placed.
func (m *model) feedAllows(d *dispatcher, kind fsm.OperatorKind) answer {
	f := m.feedOf(d)
	switch {
	case kind != fsm.OpRemove && f.stopped():
		return no(m.stoppedReason(f))
	case kind != fsm.OpRemove && f.status == fsm.ChangefeedIsRemoving:
		return no(fsm.ChangefeedRemoving)
	case d.id == f.trigger && kind != fsm.OpAdd && kind != fsm.OpMove:
		return no(fsm.TriggerDispatcher)
	default:
		return yes()
	}
}

// owned names the owner in a refusal.
func (m *model) owned(r fsm.Reason, d *dispatcher) answer {
	return answer{reason: r, owner: m.nameOf(d.inc), epoch: d.epoch}
}

// free: an operator in the slot refuses everything but a removal, and so does a removal that holds the range.
func (m *model) free(d *dispatcher) answer {
	if d.slot != 0 {
		return answer{reason: fsm.OperatorExists, operator: d.slot}
	}
	if m.held(d) {
		return no(fsm.RangeRemoving)
	}
	return yes()
}

// held: something that runs nowhere, where a removal still has to stop what writes the same rows.
func (m *model) held(d *dispatcher) bool {
	t := m.tables[d.table]
	if t.trigger || d.phase != fsm.Absent || d.slot != 0 {
		return false
	}
	for _, other := range m.dispatchers {
		op, o := m.operators[other.slot], m.tables[other.table]
		if op == nil || op.kind != fsm.OpRemove || o.trigger || o.ref != t.ref {
			continue
		}
		if m.feeds[o.feed].sink == m.feeds[t.feed].sink && overlap(other.span, d.span) {
			return true
		}
	}
	return false
}

// admitFree is about a dispatcher in no operator: absent or running.
func (m *model) admitFree(d *dispatcher, c *fsm.AdmitOperator) answer {
	runs := d.phase == fsm.Running
	switch {
	case c.Op == fsm.OpSplit && !runs:
		return no(fsm.NotRunning)
	case c.Op == fsm.OpSplit:
		return m.startSplit(d, c)
	case c.Op == fsm.OpMove && (c.From != "" || c.FromAny):
		if !runs {
			return no(fsm.NotOwner)
		}
		return m.startMove(d, c)
	case runs: // an Add, or a Move from nowhere
		return m.owned(fsm.AlreadyOwned, d)
	default:
		return m.startAdd(d, m.nodes[c.To], c.Op)
	}
}

func (m *model) open(op *operator) *operator {
	op.id = fsm.OpID(m.next())
	op.deadline = m.timeMS + m.policy.OperatorDeadlineMS
	m.operators[op.id] = op
	return op
}

// takes says whether a node can be given one more.
func (m *model) takes(n *node) answer {
	switch {
	case n.status == fsm.NodeStatusFenced:
		return no(fsm.NodeFenced)
	case n.ended():
		return no(fsm.NodeExpired)
	case n.draining:
		return no(fsm.NodeDraining)
	case m.carries(n.inc) >= int(m.policy.MaxPlacementsPerNode), len(m.operators) >= int(m.policy.MaxOperators):
		return no(fsm.LimitReached)
	default:
		return yes()
	}
}

func (m *model) startAdd(d *dispatcher, n *node, kind fsm.OperatorKind) answer {
	if a := m.takes(n); a.reason != fsm.Accepted {
		return a
	}
	op := m.open(&operator{kind: kind, dispatcher: d.id, to: n.inc})
	m.place(d, n.inc, op.id)
	return answer{reason: fsm.Accepted, operator: op.id, epoch: d.epoch}
}

func (m *model) startMove(d *dispatcher, c *fsm.AdmitOperator) answer {
	owner := m.nameOf(d.inc)
	switch {
	case !c.FromAny && c.From != owner:
		return m.owned(fsm.NotOwner, d)
	case c.To == owner:
		return m.owned(fsm.SameNode, d)
	case m.writes(d):
		return no(fsm.BarrierWriting)
	}
	n := m.nodes[c.To]
	if a := m.takes(n); a.reason != fsm.Accepted {
		return a
	}
	op := m.open(&operator{kind: fsm.OpMove, dispatcher: d.id, to: n.inc})
	d.slot = op.id
	m.enter(d, fsm.Stopping)
	return answer{reason: fsm.Accepted, operator: op.id}
}

// room checks the limits of what a Split or a Merge makes.
func (m *model) room(more int) bool {
	return len(m.dispatchers)+more <= int(m.policy.MaxDispatchers) && len(m.operators) < int(m.policy.MaxOperators)
}

func (m *model) startSplit(d *dispatcher, c *fsm.AdmitOperator) answer {
	switch {
	case len(c.Spans) < 2 || !tiles(d.span, c.Spans):
		return no(fsm.SpansDoNotTile)
	case m.writes(d):
		return no(fsm.BarrierWriting)
	case !m.room(len(c.Spans) - 1):
		return no(fsm.LimitReached)
	}
	op := m.open(&operator{kind: fsm.OpSplit, dispatcher: d.id, spans: c.Spans})
	for _, name := range c.Targets {
		inc := fsm.Incarnation(0)
		if name != "" {
			inc = m.nodes[name].inc
		}
		op.targets = append(op.targets, inc)
	}
	d.slot = op.id
	m.enter(d, fsm.Stopping)
	return answer{reason: fsm.Accepted, operator: op.id}
}

func (m *model) admitMerge(c *fsm.AdmitOperator) answer {
	if len(c.Sources) < 2 || len(c.Sources) > 256 {
		return no(fsm.Malformed)
	}
	var rows []*dispatcher
	for _, id := range c.Sources {
		if m.dispatchers[id] == nil {
			return no(fsm.UnknownDispatcher)
		}
		rows = append(rows, m.dispatchers[id])
	}
	slices.SortFunc(rows, func(a, b *dispatcher) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.span.Start, b.span.Start), cmp.Compare(a.id, b.id))
	})
	if len(slices.Compact(slices.Clone(rows))) < len(rows) {
		return no(fsm.Malformed)
	}
	if c.ExpectEpoch != 0 && c.ExpectEpoch != rows[0].epoch {
		return m.owned(fsm.EpochMismatch, rows[0])
	}
	for _, check := range []func(*dispatcher) answer{
		func(d *dispatcher) answer { return m.feedAllows(d, fsm.OpMerge) }, m.free,
	} {
		for _, d := range rows {
			if a := check(d); a.reason != fsm.Accepted {
				return a
			}
		}
	}
	if a := m.mergeFits(rows); a.reason != fsm.Accepted {
		return a
	}
	return m.startMerge(rows)
}

func (m *model) mergeFits(rows []*dispatcher) answer {
	for i, d := range rows {
		if i > 0 {
			left := rows[i-1]
			switch {
			case m.feedOf(left) != m.feedOf(d):
				return no(fsm.OtherChangefeed)
			case left.table != d.table || left.span.End == "" || left.span.End != d.span.Start:
				return no(fsm.NotAdjacent)
			}
		}
		if m.writes(d) {
			return no(fsm.BarrierWriting)
		}
	}
	if !m.room(0) {
		return no(fsm.LimitReached)
	}
	return yes()
}

func (m *model) startMerge(rows []*dispatcher) answer {
	op := m.open(&operator{kind: fsm.OpMerge, dispatcher: rows[0].id})
	for _, d := range rows {
		op.sources = append(op.sources, d.id)
		d.slot = op.id
		if d.phase == fsm.Running {
			m.enter(d, fsm.Stopping)
		}
	}
	m.mergeIfStopped(op)
	return answer{reason: fsm.Accepted, operator: op.id}
}

func (m *model) admitMany(c *fsm.AdmitMany) answer {
	if len(c.Items) == 0 || len(c.Items) > 256 {
		return no(fsm.LimitReached)
	}
	saved, a := m.clone(), yes()
	for i := range c.Items {
		item := m.admit(&c.Items[i])
		m.settle()
		a.items = append(a.items, item)
		if c.AllOrNothing && item.reason != fsm.Accepted {
			a.reason = fsm.ItemRefused
		}
	}
	if a.reason != fsm.Accepted {
		*m = *saved
	}
	return a
}

func (m *model) cancel(c *fsm.CancelOperator) answer {
	op := m.operators[c.Op]
	switch {
	case op == nil && m.finished[c.Op] != nil:
		return no(fsm.OperatorFinished)
	case op == nil:
		return no(fsm.NoSuchOperator)
	case op.kind == fsm.OpRemove, op.kind == fsm.OpStop && !op.aborting:
		return no(fsm.NotCancellable)
	case !op.aborting:
		m.abort(op, fsm.OpCanceled)
	}
	return answer{reason: fsm.Accepted, operator: op.id}
}
