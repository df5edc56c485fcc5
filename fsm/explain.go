package fsm

import "fmt"

// Explanation says why something stands as it does: each line a fact of the state, the log entry since which it holds,
// and who caused it. It follows from the log alone, so every server says the same of the same entry.
type Explanation struct {
	Subject string
	Lines   []ExplanationLine
}

// ExplanationLine is one fact. Index is zero where no entry stands for it, By empty where nobody asked.
type ExplanationLine struct {
	Index uint64
	By    string
	Text  string
}

func (e *Explanation) say(index uint64, by, format string, args ...any) {
	e.Lines = append(e.Lines, ExplanationLine{Index: index, By: by, Text: fmt.Sprintf(format, args...)})
}

// ExplainDispatcher says where a dispatcher is, why, and what it waits for; ok is false if it is neither there nor
// remembered.
func (d *data) ExplainDispatcher(id DispatcherID) (e Explanation, ok bool) {
	e.Subject = fmt.Sprintf("dispatcher %d", id)
	row, there := d.Dispatcher(id)
	if there {
		d.explainWork(&e, row)
		d.explainPlacement(&e, row)
		d.explainAbsence(&e, row)
		d.explainWaiting(&e, row)
	}
	past := 0
	for r := range d.History(id) {
		past++
		e.say(r.EndedAt, "", "epoch %s on node %s, placed at entry %d, ended: %s%s; the next placement starts at %s",
			r.Epoch, r.Node, r.PlacedAt, r.Reason, of(", ", r.Detail), r.Position)
	}
	if !there && past > 0 {
		e.say(0, "", "it does not exist any more: it was removed, split or merged")
	}
	return e, there || past > 0
}

func (d *data) explainWork(e *Explanation, row Dispatcher) {
	t, _ := d.Table(row.Table)
	feed, _ := d.ChangefeedByID(t.Changefeed)
	if t.Trigger {
		e.say(t.CreatedAt, "", "it reads the events of changefeed %s, from %s on", feed.Name, row.Position)
		return
	}
	e.say(t.CreatedAt, "", "it replicates %s of table %s for changefeed %s, from %s on", row.Span, TableRef{t.Schema, t.Name}, feed.Name, row.Position)
}

func (d *data) explainPlacement(e *Explanation, row Dispatcher) {
	if op, ok := d.operators.get(Operator{ID: row.Slot}); ok {
		e.say(op.Since, op.By, "%s", d.operatorText(op))
	}
	if row.Phase == Absent {
		e.say(row.PhaseAt, "", "it runs nowhere")
		return
	}
	n, _ := d.NodeOf(row.Incarnation)
	e.say(row.PhaseAt, "", "it is %s on node %s, incarnation %s, under epoch %s, placed at entry %d", row.Phase, n.Name, n.Incarnation, row.Epoch, row.PlacedAt)
}

// explainAbsence says what keeps an absent dispatcher from being placed.
func (d *data) explainAbsence(e *Explanation, row Dispatcher) {
	feed, _ := d.ChangefeedByID(ChangefeedID(d.feedOf(row)))
	if feed.Status != ChangefeedRunning {
		e.say(feed.StatusAt, feed.StatusBy, "changefeed %s is %s%s%s", feed.Name, feed.Status, of(": ", feed.Reason), of(", ", feed.Detail))
	}
	if op, held := d.HeldBy(row); held {
		e.say(op.Since, op.By, "removal %s still holds a part of its range, waiting for node %s", op.ID, op.From)
	}
	if row.Failures > 0 {
		e.say(0, "", "its placements have failed %d times in a row, last at log time %d ms; the scheduler waits longer each time", row.Failures, row.FailedMS)
	}
	if row.Phase != Absent {
		return
	}
	takers := 0
	for n := range d.Nodes() {
		if n.Status == NodeStatusLive && !n.Draining {
			takers++
		}
	}
	if takers == 0 {
		e.say(0, "", "no node can take it: none is live without being fenced or drained")
	}
}

func (d *data) explainWaiting(e *Explanation, row Dispatcher) {
	t, _ := d.Table(row.Table)
	feed, _ := d.ChangefeedByID(t.Changefeed)
	for b := range d.Barriers(feed.ID) {
		if row.Leaving || !b.Spec.concerns(t) || !row.Position.Less(b.Key.At) {
			continue
		}
		switch {
		case row.Waits && row.Position == b.Key.Before():
			e.say(b.OpenedAt, "", "it waits at the event at %s, which is %s", b.Key.At, b.Status)
		case row.Position.Less(b.Key.Before()):
			e.say(b.OpenedAt, "", "the event at %s waits for it: it has reached %s", b.Key.At, row.Position)
		default:
			e.say(b.OpenedAt, "", "it has reached the event at %s, which is %s, and must pass it", b.Key.At, b.Status)
		}
	}
	if bound, holder := d.CheckpointBound(feed); holder.Dispatcher == row.ID {
		e.say(0, "", "it holds the watermark of changefeed %s at %s, because it is %s", feed.Name, bound, row.Phase)
	}
}

// operatorText says what an operator is doing and what it waits for.
func (d *data) operatorText(op Operator) string {
	text := fmt.Sprintf("%s %s of dispatcher %d%s%s", op.Kind, op.ID, op.Dispatcher, of(" from node ", string(op.From)), of(" to node ", string(op.To)))
	if op.Kind == OpMerge {
		text = fmt.Sprintf("%s %s of dispatchers %v", op.Kind, op.ID, op.Sources)
	}
	if op.Result != 0 {
		return text + " ended: " + op.Result.String() + of(", ", op.Reason) + of(", ", op.Detail)
	}
	if row, ok := d.WaitsFor(op); ok {
		n, _ := d.NodeOf(row.Incarnation)
		verb := "stop"
		if row.Phase == Starting {
			verb = "start"
		}
		text += fmt.Sprintf(", waits for node %s to %s dispatcher %d under epoch %s", n.Name, verb, row.ID, row.Epoch)
	}
	if op.Aborting {
		text += fmt.Sprintf("; it is being aborted and will end %s", op.AbortResult)
	}
	return text
}

// ExplainOperator says who asked for an operator, what it does, and what it waits for or how it ended.
func (d *data) ExplainOperator(id OpID) (e Explanation, ok bool) {
	op, ok := d.Operator(id)
	if !ok {
		return e, false
	}
	e.Subject = fmt.Sprintf("%s %s", op.Kind, op.ID)
	e.say(op.Since, op.By, "admitted for table %s of changefeed %s", op.Table, op.Changefeed)
	at := op.Ended
	if op.Result == 0 {
		at = d.meta.Index
	}
	e.say(at, "", "%s", d.operatorText(op))
	if len(op.Made) > 0 {
		e.say(op.Ended, "", "it has made dispatchers %v", op.Made)
	}
	if op.StuckAt != 0 {
		e.say(op.StuckAt, "", "its deadline has passed: it counts as stuck; cancel it with: weir operator cancel %s, or fence the node that it waits for", op.ID)
	}
	if op.ReplacedBy != 0 {
		e.say(op.Ended, "", "removal %s took its place", op.ReplacedBy)
	}
	return e, true
}

// ExplainBarrier says how far an event is, open or remembered, and what it waits for.
func (d *data) ExplainBarrier(key BarrierKey) (e Explanation, ok bool) {
	b, open := d.Barrier(key)
	if !open {
		if b, ok = d.BarrierRecord(key); !ok {
			return e, false
		}
	}
	feed, _ := d.ChangefeedByID(key.Changefeed)
	e.Subject = fmt.Sprintf("event of changefeed %s at %s", feed.Name, key.At)
	e.say(b.OpenedAt, "", "first reported by dispatcher %d; it concerns %s%s", b.OpenedBy, b.Spec.Influence, of(": ", b.Spec.Statement))
	if b.Permission > 0 {
		e.say(b.GrantedAt, "", "permission %d to write went to dispatcher %d under epoch %s", b.Permission, b.Writer, b.WriterEpoch)
	}
	if b.WrittenAt != 0 {
		e.say(b.WrittenAt, "", "%s%s", b.Result, of("; ", b.Notes))
	}
	if open {
		d.explainOpen(&e, b, feed)
	} else {
		e.say(b.EndedAt, "", "ended: %s%s", b.Result, of("; ", b.Notes))
	}
	if b.StuckAt != 0 {
		e.say(b.StuckAt, "", "its deadline has passed: it counts as stuck")
	}
	return e, true
}

// namedMissing bounds the dispatchers that an explanation names.
const namedMissing = 10

func (d *data) explainOpen(e *Explanation, b Barrier, feed Changefeed) {
	members, behind, unpassed := d.BarrierProgress(b.Key)
	switch {
	case b.Status == BarrierUndecided:
		e.say(0, "", "the last holder ended without knowing whether it wrote: compare the sink, then decide with: weir barrier decide %s %s", feed.Name, b.Key.At)
		return
	case b.Status == BarrierInWriting:
		e.say(b.GrantedAt, "", "it waits for dispatcher %d to write it", b.Writer)
		return
	case b.Status == BarrierPassing:
		e.say(b.WrittenAt, "", "%d of %d dispatchers have not passed it", unpassed, members)
	case behind > 0:
		e.say(b.OpenedAt, "", "%d of %d dispatchers have not reached it", behind, members)
	case b.Spec.TriggerTakesPart() && !b.TriggerSaid:
		e.say(b.OpenedAt, "", "everybody has reached it but the trigger, dispatcher %d, which reports the events in order", feed.Trigger)
	case feed.Status != ChangefeedRunning:
		e.say(feed.StatusAt, feed.StatusBy, "everybody has reached it; it is not written while changefeed %s is %s", feed.Name, feed.Status)
	default:
		e.say(b.OpenedAt, "", "everybody has reached it; it waits for a dispatcher that runs, is in no operator, and stands at it, to write it")
	}
	n := 0
	for row := range d.BarrierMissing(b) {
		if n++; n > namedMissing {
			e.say(0, "", "and others")
			return
		}
		node, _ := d.NodeOf(row.Incarnation)
		e.say(row.PhaseAt, "", "dispatcher %d is %s%s, at %s", row.ID, row.Phase, of(" on node ", string(node.Name)), row.Position)
	}
}

// ExplainRequest says how a request was answered, if that is remembered.
func (d *data) ExplainRequest(id RequestID) (e Explanation, ok bool) {
	r, ok := d.Request(id)
	if !ok {
		return e, false
	}
	e.Subject = fmt.Sprintf("request %s", r.ID)
	e.say(r.Verdict.Index, "", "%s: %s", r.Verdict.Reason, r.Verdict.Sentence())
	for i, item := range r.Verdict.Items {
		e.say(r.Verdict.Index, "", "item %d: %s: %s", i+1, item.Reason, item.Sentence())
	}
	return e, true
}
