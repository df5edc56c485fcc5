package scheduler

import "github.com/weir-project/weir/fsm"

// placeAbsent proposes an Add for absent dispatchers of running changefeeds that are in no operator (an absent source of
// a Merge is), not held by a removal and not backing off after a failure.
func (p *planner) placeAbsent() {
	if p.room() == 0 || !p.has() {
		return
	}
	from := p.in.From
	done := p.walk(func(at Cursor) bool { return at.after(from) }) && p.walk(func(at Cursor) bool { return !at.after(from) })
	if done {
		p.next.Changefeed, p.next.Dispatcher = 0, 0
	}
}

// walk looks at the absent dispatchers that lie in the wanted part of the order; it reports whether it saw them all.
func (p *planner) walk(wanted func(Cursor) bool) bool {
	for f := range p.in.View.Changefeeds() {
		if f.Status != fsm.ChangefeedRunning || !reaches(f.ID, wanted) {
			continue
		}
		for row := range p.in.View.AbsentDispatchers(f.ID) {
			if !wanted(Cursor{Changefeed: f.ID, Dispatcher: row.ID}) {
				continue
			}
			if p.room() == 0 || p.started == p.in.Limits.Scan {
				return false
			}
			p.started++
			if !p.place(row) {
				return false
			}
			p.next.Changefeed, p.next.Dispatcher = f.ID, row.ID
		}
	}
	return true
}

// reaches says whether any dispatcher of the changefeed can lie in the wanted part.
func reaches(f fsm.ChangefeedID, wanted func(Cursor) bool) bool {
	return wanted(Cursor{Changefeed: f}) || wanted(Cursor{Changefeed: f, Dispatcher: ^fsm.DispatcherID(0)})
}

// place proposes to start the dispatcher, if it may be started; it is false if no node has room.
func (p *planner) place(row fsm.Dispatcher) bool {
	if !p.placeable(row) {
		return true
	}
	k := p.kinOf(row)
	to := p.choose(k)
	if to == nil {
		return false
	}
	p.admit(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: row.ID, To: to.name, ExpectEpoch: row.Epoch})
	p.spread.add(k, to)
	to.take()
	return true
}

func (p *planner) placeable(row fsm.Dispatcher) bool {
	if row.Slot != 0 || p.nowMS < row.FailedMS+p.in.Limits.backoff(row.Failures) {
		return false
	}
	if p.in.Skip != nil && p.in.Skip(row) {
		return false
	}
	_, held := p.in.View.HeldBy(row)
	return !held
}
