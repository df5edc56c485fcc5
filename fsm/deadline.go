package fsm

// Every operator and every barrier has a deadline in state-machine time. Passing it hands nothing over: it marks what
// has waited too long, so that people and policies see it, and what it waits for.

// stuckAtOnce bounds the work of one tick.
const stuckAtOnce = 256

func (s *State) markStuck(x entryContext) {
	for range stuckAtOnce {
		next, ok := s.due.least()
		if !ok || next.a > s.meta.TimeMS {
			break
		}
		op, _ := s.operators.get(Operator{ID: OpID(next.b)})
		op.StuckAt = x.index
		s.setOperator(op)
	}
	var late []Barrier
	for b := range s.barriers.all() {
		feed, _ := s.ChangefeedByID(b.Key.Changefeed)
		if b.StuckAt == 0 && b.DeadlineMS <= s.meta.TimeMS && feed.Status == ChangefeedRunning && len(late) < stuckAtOnce {
			late = append(late, b)
		}
	}
	for _, b := range late {
		b.StuckAt = x.index
		s.setBarrier(b)
	}
}

// WaitsFor is the placement that an operator waits for: one that must stop, or start.
func (d *data) WaitsFor(op Operator) (Dispatcher, bool) {
	if op.Kind != OpMerge {
		row, ok := d.Dispatcher(op.Dispatcher)
		return row, ok && row.Slot == op.ID
	}
	for _, row := range d.sourcesIn(op) {
		if row.Phase != Absent {
			return row, true
		}
	}
	return Dispatcher{}, false
}
