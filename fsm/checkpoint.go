package fsm

// The watermark of a changefeed: everything up to it is downstream, wherever it was written.

// AdvanceCheckpoint is checked against this state, not believed: the nodes' minima must be about exactly the sets that
// are current here, and whatever no minimum covers bounds the watermark by what is stored of it.
func (m *AdvanceCheckpoint) apply(s *State, x entryContext) Verdict {
	feed, ok := s.ChangefeedByID(m.Changefeed)
	f := Facts{Changefeed: feed.Name, ChangefeedID: feed.ID, Run: feed.Run, At: feed.Watermark}
	switch {
	case !ok || feed.Run != m.Run || feed.Status == ChangefeedIsRemoving:
		return refused(StaleCheckpoint, f)
	case !m.To.Valid():
		return malformed("the position has no such stage")
	case !feed.Watermark.Less(m.To):
		return refused(StaleCheckpoint, f)
	}
	if v := m.checkNodes(s, feed); !v.OK() {
		return v
	}
	if bound, holder := s.CheckpointBound(feed); bound.Less(m.To) {
		return refused(CheckpointTooFar, holder)
	}
	feed.Watermark, feed.WatermarkAt = m.To, x.index
	s.setChangefeed(feed)
	s.forgetBarriers()
	f.At = m.To
	return accepted(f)
}

// checkNodes needs a minimum that allows the watermark for every set that runs a part of the changefeed.
func (m *AdvanceCheckpoint) checkNodes(s *State, feed Changefeed) Verdict {
	i := 0
	for c := range s.crews.of(feed.ID) {
		for i < len(m.Nodes) && m.Nodes[i].Incarnation < c.inc {
			i++
		}
		n, _ := s.NodeOf(c.inc)
		f := Facts{Changefeed: feed.Name, ChangefeedID: feed.ID, Run: feed.Run, At: feed.Watermark, Node: n.Name, Incarnation: c.inc}
		if i == len(m.Nodes) || m.Nodes[i].Incarnation != c.inc || m.Nodes[i].SetHash != c.hash {
			return refused(StaleCheckpoint, f)
		}
		if least := m.Nodes[i].Minimum; least.Less(m.To) {
			f.At = least
			return refused(CheckpointTooFar, f)
		}
	}
	return accepted(Facts{})
}

// noBound is above every position that a source gives.
func noBound() Position { return Position{TS: ^uint64(0), Stage: stageEnd} }

// CheckpointBound is how far the state itself lets a changefeed's watermark go, and who holds it there: a dispatcher
// that is not running, at its stored position, or an open barrier. What runs is bound by its node's minimum, which is
// not in the state.
func (d *data) CheckpointBound(feed Changefeed) (Position, Facts) {
	bound := noBound()
	f := Facts{Changefeed: feed.Name, ChangefeedID: feed.ID, Run: feed.Run}
	if k, ok := d.quiet.first(feed.ID); ok {
		row, _ := d.Dispatcher(k.id)
		bound = feed.Watermark.Max(k.at)
		f.Dispatcher, f.Epoch, f.Incarnation, f.Operator = row.ID, row.Epoch, row.Incarnation, row.Slot
		f.Detail = row.Phase.String()
		if n, ok := d.NodeOf(row.Incarnation); ok {
			f.Node = n.Name
		}
	}
	for b := range d.Barriers(feed.ID) {
		if before := feed.Watermark.Max(b.Key.Before()); before.Less(bound) {
			bound = before
			f = Facts{
				Changefeed: feed.Name, ChangefeedID: feed.ID, Run: feed.Run, Permission: b.Permission,
				Detail: "barrier " + b.Key.String() + " is " + b.Status.String(),
			}
		}
		break
	}
	f.At = bound
	return bound, f
}

// startOf is where a placement of the dispatcher starts: what is below the watermark is downstream.
func (s *State) startOf(row Dispatcher) Position {
	feed, _ := s.ChangefeedByID(ChangefeedID(s.feedOf(row)))
	return row.Position.Max(feed.Watermark)
}
