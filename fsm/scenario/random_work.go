package scenario

import "github.com/weir-project/weir/fsm"

// What a random log does with spans, drains and runs.

// split cuts at keys inside the span, mostly, and sends the children to nodes, sometimes.
func (l *RandomLog) split(row fsm.Dispatcher) fsm.Command {
	m := &fsm.AdmitOperator{Op: fsm.OpSplit, Dispatcher: row.ID}
	var keys []string
	for _, key := range []string{"b", "f", "k", "p", "w"} {
		if (row.Span.Contains(key) && key != row.Span.Start && l.pick(2) == 0) || l.pick(40) == 0 {
			keys = append(keys, key)
		}
	}
	m.Spans = cutAt(row.Span, keys)
	if l.pick(2) == 0 {
		for range m.Spans {
			if l.pick(3) == 0 {
				m.Targets = append(m.Targets, "")
				continue
			}
			m.Targets = append(m.Targets, l.nodeName())
		}
	}
	return m
}

// merge takes a dispatcher and its next neighbours, and sometimes anybody.
func (l *RandomLog) merge(row fsm.Dispatcher) fsm.Command {
	m := &fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{row.ID}}
	end := row.Span.End
	for other := range l.state.DispatchersOfTable(row.Table) {
		if end != "" && other.Span.Start == end && (len(m.Sources) == 1 || l.pick(2) == 0) {
			m.Sources, end = append(m.Sources, other.ID), other.Span.End
		}
	}
	if len(m.Sources) == 1 || l.pick(20) == 0 {
		m.Sources = append(m.Sources, l.someDispatcher().ID)
	}
	return m
}

func (l *RandomLog) admitMany() fsm.Command {
	m := &fsm.AdmitMany{AllOrNothing: l.pick(2) == 0}
	for range l.pick(5) {
		if op, ok := l.admit().(*fsm.AdmitOperator); ok {
			m.Items = append(m.Items, *op)
		}
	}
	return m
}

func (l *RandomLog) drain() fsm.Command {
	name := l.nodeName()
	n, _ := l.state.Node(name)
	switch {
	case !n.Draining:
		return &fsm.StartDrain{Node: name}
	case l.pick(2) == 0:
		return &fsm.ConfirmDrain{Node: name, Incarnation: l.incarnation(name)}
	default:
		return &fsm.ClearDrain{Node: name}
	}
}

func (l *RandomLog) resume() fsm.Command { return l.resumeOf(l.feedName()) }

// resumeOf goes back below the watermark in one of four.
func (l *RandomLog) resumeOf(name string) fsm.Command {
	m := &fsm.ResumeChangefeed{Name: name}
	if feed, ok := l.state.Changefeed(name); ok && l.pick(3) == 0 {
		m.HasFrom, m.Force = true, l.pick(4) > 0
		m.From = fsm.At(feed.Watermark.TS + 3 - min(feed.Watermark.TS, uint64(l.pick(30))))
	}
	return m
}

func (l *RandomLog) updateChangefeed() fsm.Command {
	m := &fsm.UpdateChangefeed{Name: l.feedName(), HasSyncPoints: l.pick(2) == 0, SyncPointEvery: uint64(l.pick(3)) * 20}
	if name, stopped := l.stoppedFeed(); stopped {
		m.Name = name
	}
	if l.pick(2) == 0 {
		m.Source = "wal2json:/other"
	}
	return m
}

// checkpoint is mostly as far as the state and the nodes' minima allow, which here are what the state stores.
func (l *RandomLog) checkpoint() fsm.Command {
	feed, _ := l.state.Changefeed(l.feedName())
	bound, _ := l.state.CheckpointBound(feed)
	least := fsm.Position{TS: feed.Watermark.TS + uint64(l.pick(30)), Stage: fsm.StageSyncPoint}
	m := &fsm.AdvanceCheckpoint{Changefeed: feed.ID, Run: feed.Run, To: least}
	if bound.Less(m.To) && l.pick(4) > 0 {
		m.To = bound
	}
	for inc := range l.state.Crews(feed.ID) {
		_, hash := l.state.Crew(feed.ID, inc)
		n := fsm.NodeMinimum{Incarnation: inc, SetHash: hash + uint64(l.pick(30)/29), Minimum: least}
		if l.pick(20) == 0 {
			n.Minimum.TS -= min(n.Minimum.TS, uint64(l.pick(30)))
		}
		if l.pick(30) > 0 {
			m.Nodes = append(m.Nodes, n)
		}
	}
	if l.pick(20) == 0 {
		m.Run--
	}
	return m
}
