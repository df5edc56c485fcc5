package scheduler

import "github.com/weir-project/weir/fsm"

// keysAtOnce bounds how many dispatchers one plan asks split keys for.
const keysAtOnce = 16

// split proposes to split dispatchers that write at the rate or above it, the busiest of each node first. Children go to
// the nodes that would get them if they were absent.
func (p *planner) split() {
	l := p.in.Limits
	if l.SplitRate == 0 || p.in.SplitKeys == nil || p.in.Loads == nil {
		return
	}
	asked := 0
	for _, n := range p.nodes {
		for _, b := range p.in.Loads.Busiest(n.incarnation) {
			if b.Rate < l.SplitRate || asked == keysAtOnce || p.room() == 0 || p.ops.splits >= l.SplitAtOnce {
				break
			}
			row, ok := p.in.View.Dispatcher(b.Dispatcher)
			if !ok || row.Epoch != b.Epoch || p.isTrigger(row) || !p.movable(row) || !p.settled(row) {
				continue
			}
			asked++
			p.splitUp(row)
		}
	}
}

func (p *planner) splitUp(row fsm.Dispatcher) {
	keys, ok := p.in.SplitKeys(row)
	spans := spansOf(row.Span, keys)
	after := uint64(p.in.View.DispatcherCount() + len(spans) - 1)
	if !ok || len(keys) == 0 || !fsm.Tile(row.Span, spans) || after > p.meta.Policy.MaxDispatchers {
		return
	}
	p.admit(&fsm.AdmitOperator{
		Op: fsm.OpSplit, Dispatcher: row.ID, ExpectEpoch: row.Epoch, Spans: spans, Targets: p.targets(row, len(spans)),
	})
	p.taken[row.ID] = true
	p.ops.splits++
}

// targets chooses a node for each child; nil if there is none for any.
func (p *planner) targets(row fsm.Dispatcher, children int) []fsm.NodeName {
	targets := make([]fsm.NodeName, children)
	for i := range targets {
		to := p.choose(p.kinOf(row))
		if to == nil {
			break
		}
		targets[i] = to.name
		p.spread.add(p.kinOf(row), to)
		to.take()
	}
	if targets[0] == "" {
		return nil
	}
	return targets
}

// spansOf cuts a span at its inner bounds.
func spansOf(span fsm.Span, keys []string) []fsm.Span {
	spans := make([]fsm.Span, 0, len(keys)+1)
	start := span.Start
	for _, key := range keys {
		spans = append(spans, fsm.Span{Start: start, End: key})
		start = key
	}
	return append(spans, fsm.Span{Start: start, End: span.End})
}
