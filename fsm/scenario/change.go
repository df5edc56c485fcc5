package scenario

import (
	"cmp"
	"iter"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// bornBetween lists the dispatchers that are in after and not in before.
func bornBetween(before, after *fsm.View) []fsm.DispatcherID {
	var born []fsm.DispatcherID
	for row := range after.Dispatchers() {
		if row.ID > before.Meta().LastDispatcher {
			born = append(born, row.ID)
		}
	}
	return born
}

// printChanges prints what is different after an entry, in one order for all entries. What changes with every tick (the
// time, who was heard) is left out.
func printChanges(p *printer, before, after *fsm.View) {
	printMetaChanges(p, before.Meta(), after.Meta())
	printServerChanges(p, before, after)
	printNodeChanges(p, before, after)
	printChangefeedChanges(p, before, after)
	printTableChanges(p, before, after)
	printBarrierChanges(p, before, after)
	printOperatorChanges(p, before, after)
	printDispatcherChanges(p, before, after)
}

func printMetaChanges(p *printer, was, is fsm.Meta) {
	if is.Term != was.Term || is.Leader != was.Leader {
		p.line("  term %d led by %s", is.Term, quote(string(is.Leader)))
	}
	if is.Generation != was.Generation {
		p.line("  generation %d of cluster %s", is.Generation, quote(is.Cluster))
	}
	if is.Level != was.Level {
		p.line("  feature level %d", is.Level)
	}
	if is.Policy != was.Policy {
		p.line("  policy: %s", policyLine(is.Policy))
	}
	if is.RequestFloorMS != was.RequestFloorMS {
		p.line("  requests from before %d are too old", is.RequestFloorMS)
	}
}

func policyLine(o fsm.Policy) string {
	var line facts
	line.add("max-dispatchers=%d", o.MaxDispatchers)
	line.add("max-placements-per-node=%d", o.MaxPlacementsPerNode)
	line.add("max-operators=%d", o.MaxOperators)
	line.add("max-nodes=%d", o.MaxNodes)
	line.add("keep-requests=%d", o.KeepRequests)
	line.add("keep-requests-ms=%d", o.KeepRequestsMS)
	line.add("keep-operators=%d", o.KeepOperators)
	line.add("keep-history=%d", o.KeepHistory)
	line.add("keep-history-each=%d", o.KeepHistoryEach)
	line.add("healthy-ms=%d", o.HealthyMS)
	line.add("keep-barriers=%d", o.KeepBarriers)
	line.add("operator-deadline-ms=%d", o.OperatorDeadlineMS)
	line.add("barrier-deadline-ms=%d", o.BarrierDeadlineMS)
	line.add("cancel-stuck=%t", o.CancelStuck)
	line.add("fence-stuck=%t", o.FenceStuck)
	line.add("fence-stuck-ms=%d", o.FenceStuckMS)
	line.add("fail-after=%d", o.FailAfter)
	line.add("drain-at-once=%d", o.DrainAtOnce)
	return line.String()
}

func printServerChanges(p *printer, before, after *fsm.View) {
	for is := range after.Servers() {
		was, _ := before.Server(is.ID)
		if was.Address != is.Address || was.HighestLevel != is.HighestLevel {
			p.line("  server %s at %s understands level %d", quote(string(is.ID)), quote(is.Address), is.HighestLevel)
		}
	}
}

func printNodeChanges(p *printer, before, after *fsm.View) {
	word := wordsOf(after)
	for is := range after.Nodes() {
		was, known := before.Node(is.Name)
		switch {
		case !known || was.Incarnation != is.Incarnation:
			p.line("  %s: %s lease=%d", word.life(is.Name, is.Incarnation), is.Status, is.LeaseMS)
		case was.Status != is.Status && is.Status == fsm.NodeStatusFenced && is.FenceWhy != "":
			p.line("  %s: %s -> fenced, %s", word.life(is.Name, is.Incarnation), was.Status, is.FenceWhy)
		case was.Status != is.Status:
			p.line("  %s: %s -> %s", word.life(is.Name, is.Incarnation), was.Status, is.Status)
		}
		if now := drainLine(is); now != drainLine(was) {
			p.line("  %s: %s -> %s", word.life(is.Name, is.Incarnation), drainLine(was), now)
		}
	}
	for was := range before.Nodes() {
		if _, known := after.Node(was.Name); !known {
			p.line("  %s: forgotten", word.life(was.Name, was.Incarnation))
		}
	}
}

func printChangefeedChanges(p *printer, before, after *fsm.View) {
	for is := range after.Changefeeds() {
		was, known := before.ChangefeedByID(is.ID)
		switch {
		case !known:
			p.line("  changefeed %s: %s", quote(is.Name), is.Status)
			continue
		case was.Status != is.Status && is.Reason != "":
			p.line("  changefeed %s: %s -> %s reason=%s by %s", quote(is.Name), was.Status, is.Status, quote(is.Reason), dispatcherWord(is.FailedBy))
		case was.Status != is.Status:
			p.line("  changefeed %s: %s -> %s", quote(is.Name), was.Status, is.Status)
		}
		printFeedFacts(p, was, is)
	}
	for was := range before.Changefeeds() {
		if _, known := after.ChangefeedByID(was.ID); !known {
			p.line("  changefeed %s: gone", quote(was.Name))
		}
	}
}

// printFeedFacts tells of what else of a changefeed is different.
func printFeedFacts(p *printer, was, is fsm.Changefeed) {
	name := quote(is.Name)
	if was.Run != is.Run {
		p.line("  changefeed %s: run %d -> %d", name, was.Run, is.Run)
	}
	if was.Watermark != is.Watermark {
		p.line("  changefeed %s: watermark %s -> %s", name, was.Watermark, is.Watermark)
	}
	if was.Source != is.Source {
		p.line("  changefeed %s: source %s -> %s", name, quote(was.Source), quote(is.Source))
	}
	if was.SyncPointEvery != is.SyncPointEvery {
		p.line("  changefeed %s: sync-points %d -> %d", name, was.SyncPointEvery, is.SyncPointEvery)
	}
}

// printBarrierChanges tells of events that were opened, that went on, and that ended since before.
func printBarrierChanges(p *printer, before, after *fsm.View) {
	for feed := range before.Changefeeds() {
		for was := range before.Barriers(feed.ID) {
			name := barrierName(before, was)
			is, open := after.Barrier(was.Key)
			if !open {
				is, open = after.BarrierRecord(was.Key)
			}
			old, now := barrierLine(before, was), barrierLine(after, is)
			switch {
			case !open:
				p.line("  %s: %s -> forgotten", name, old)
			case now != old:
				p.line("  %s: %s -> %s", name, old, now)
			}
		}
	}
	for feed := range after.Changefeeds() {
		for is := range after.Barriers(feed.ID) {
			if _, known := before.Barrier(is.Key); !known {
				p.line("  %s: new %s, %s", barrierName(after, is), specLine(is.Spec), barrierLine(after, is))
			}
		}
	}
	for is := range after.BarrierRecords() {
		if is.OpenedAt > before.Meta().Index {
			p.line("  %s: new %s, %s", barrierName(after, is), specLine(is.Spec), barrierLine(after, is))
		}
	}
}

func printTableChanges(p *printer, before, after *fsm.View) {
	for is := range tablesOf(after) {
		was, known := before.Table(is.ID)
		switch {
		case !known:
			p.line("  table %d: %s", is.ID, tableLine(after, is))
		case was.Dropping != is.Dropping:
			p.line("  table %d: dropping", is.ID)
		}
	}
	for was := range tablesOf(before) {
		if _, known := after.Table(was.ID); !known {
			p.line("  table %d: gone", was.ID)
		}
	}
}

// tablesOf yields the tables of every changefeed. A trigger has one of its own, which tells nothing that the trigger
// itself does not.
func tablesOf(v *fsm.View) iter.Seq[fsm.Table] {
	return func(yield func(fsm.Table) bool) {
		for feed := range v.Changefeeds() {
			for t := range v.Tables(feed.ID) {
				if !t.Trigger && !yield(t) {
					return
				}
			}
		}
	}
}

// printOperatorChanges tells of operators that began, that abort, and that ended since before.
func printOperatorChanges(p *printer, before, after *fsm.View) {
	word := wordsOf(after)
	for op := range before.Operators() {
		is, known := after.Operator(op.ID)
		switch {
		case !known:
			p.line("  op %s: forgotten", word.operator(op.ID))
		case is.Result != 0:
			p.line("  op %s: %s", word.operator(op.ID), endLine(word, is))
		case is.StuckAt != op.StuckAt:
			p.line("  op %s: stuck", word.operator(op.ID))
		case is.Aborting != op.Aborting:
			p.line("  op %s: aborting, will be %s", word.operator(op.ID), abortLine(is))
		case is.Drop != op.Drop:
			p.line("  op %s: now by a drop", word.operator(op.ID))
		}
	}
	for _, is := range newOperators(before, after) {
		p.line("  op %s: %s", word.operator(is.ID), operatorLine(word, is))
	}
}

// newOperators lists the operators that were admitted since before, those that have already ended included.
func newOperators(before, after *fsm.View) []fsm.Operator {
	last := fsm.OpID(before.Meta().LastEpoch)
	var begun []fsm.Operator
	for _, all := range []iter.Seq[fsm.Operator]{after.Operators(), after.FinishedOperators()} {
		for op := range all {
			if op.ID > last {
				begun = append(begun, op)
			}
		}
	}
	slices.SortFunc(begun, func(x, y fsm.Operator) int { return cmp.Compare(x.ID, y.ID) })
	return begun
}

func printDispatcherChanges(p *printer, before, after *fsm.View) {
	for was := range before.Dispatchers() {
		old := placementLine(before, was)
		is, there := after.Dispatcher(was.ID)
		if !there {
			p.line("  %s: %s -> gone", dispatcherWord(was.ID), old)
			continue
		}
		if now := placementLine(after, is); now != old {
			p.line("  %s: %s -> %s", dispatcherWord(was.ID), old, now)
		}
	}
	for _, id := range bornBetween(before, after) {
		row, _ := after.Dispatcher(id)
		p.line("  %s: new %s, %s", dispatcherWord(id), spanLine(after, row), placementLine(after, row))
	}
}
