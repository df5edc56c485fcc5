package scenario

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// tableLine describes a table.
func tableLine(v *fsm.View, t fsm.Table) string {
	feed, _ := v.ChangefeedByID(t.Changefeed)
	if t.Trigger {
		return "trigger of " + quote(feed.Name)
	}
	line := facts{quote(fsm.TableRef{Schema: t.Schema, Name: t.Name}.String()), "of", quote(feed.Name)}
	line.addIf(t.Dropping, "dropping")
	return line.String()
}

// spanLine says what a dispatcher replicates.
func spanLine(v *fsm.View, row fsm.Dispatcher) string {
	t, _ := v.Table(row.Table)
	if t.Trigger {
		return tableLine(v, t)
	}
	return quote(fsm.TableRef{Schema: t.Schema, Name: t.Name}.String()) + " " + row.Span.String()
}

// placementLine says where a dispatcher stands.
func placementLine(v *fsm.View, row fsm.Dispatcher) string {
	word := wordsOf(v)
	line := facts{row.Phase.String()}
	if row.Phase != fsm.Absent {
		node, _ := v.NodeOf(row.Incarnation)
		line.add("%s epoch=%s", word.life(node.Name, row.Incarnation), word.epoch(row.Epoch))
	}
	line.addIf(row.Slot != 0, "op=%s", word.operator(row.Slot))
	if row.Phase == fsm.Absent && row.Slot == 0 {
		holder, held := v.HeldBy(row)
		line.addIf(held, "held-by=%s", word.operator(holder.ID))
	}
	line.add("at=%s", row.Position)
	line.addIf(row.Waits, "waits")
	line.addIf(row.Leaving, "leaving")
	line.addIf(row.Failures != 0, "failures=%d", row.Failures)
	return line.String()
}

// operatorLine describes an operator, running or ended.
func operatorLine(word words, op fsm.Operator) string {
	line := facts{op.Kind.String(), dispatcherWord(op.Dispatcher)}
	if op.Kind == fsm.OpMerge {
		line[1] = dispatcherList(op.Sources)
	}
	line.addIf(op.From != "" || op.FromIncarnation != 0, "from=%s", word.life(op.From, op.FromIncarnation))
	line.addIf(op.To != "" || op.ToIncarnation != 0, "to=%s", word.life(op.To, op.ToIncarnation))
	line.addIf(op.Epoch != 0, "epoch=%s", word.epoch(op.Epoch))
	line.addIf(len(op.Spans) > 0, "spans=%s", spanList(op.Spans))
	line.addIf(len(op.Targets) > 0, "targets=%s", targetList(word, op.Targets))
	line.addIf(op.Drop, "by-drop")
	line.addIf(op.By != "", "by=%s", quote(op.By))
	line.addIf(op.StuckAt != 0, "stuck")
	switch {
	case op.Result != 0:
		line.add("-> %s", endLine(word, op))
	case op.Aborting:
		line.add("-> aborting, will be %s", abortLine(op))
	}
	return line.String()
}

// endLine says how an operator ended.
func endLine(word words, op fsm.Operator) string {
	line := facts{op.Result.String()}
	line.addIf(op.ReplacedBy != 0, "by=%s", word.operator(op.ReplacedBy))
	line.addIf(op.Reason != "", "reason=%s", quote(op.Reason))
	line.addIf(len(op.Made) > 0, "made=%s", dispatcherList(op.Made))
	return line.String()
}

func dispatcherList(ids []fsm.DispatcherID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = dispatcherWord(id)
	}
	return strings.Join(words, ",")
}

func spanList(spans []fsm.Span) string {
	words := make([]string, len(spans))
	for i, s := range spans {
		words[i] = s.String()
	}
	return strings.Join(words, "")
}

func targetList(word words, targets []fsm.Destination) string {
	words := make([]string, len(targets))
	for i, t := range targets {
		words[i] = "-"
		if t.Node != "" {
			words[i] = word.life(t.Node, t.Incarnation)
		}
	}
	return strings.Join(words, ",")
}

// abortLine says how an aborting operator will end.
func abortLine(op fsm.Operator) string {
	return fmt.Sprintf("%s reason=%s", op.AbortResult, quote(op.Reason))
}

// orderLine prints an order as a node gets it.
func orderLine(word words, o fsm.Order) string {
	line := facts{o.Kind.String(), dispatcherWord(o.Dispatcher)}
	line.add("epoch=%s op=%s", word.epoch(o.Epoch), word.operator(o.Operator))
	if o.Kind == fsm.OrderStart {
		w := o.Work
		if w.Trigger {
			line.add("changefeed=%s run=%d trigger start=%s", quote(w.Changefeed), w.Run, w.Start)
			line.addIf(w.SyncPointEvery != 0, "sync-points=%d", w.SyncPointEvery)
			return line.String()
		}
		line.add("changefeed=%s run=%d table=%s id=%d span=%s start=%s",
			quote(w.Changefeed), w.Run, quote(fsm.TableRef{Schema: w.Schema, Name: w.Table}.String()), w.TableID, w.Span, w.Start)
		line.addIf(w.SyncPointEvery != 0, "sync-points=%d", w.SyncPointEvery)
		line.addIf(!w.SinkFenced, "unfenced max-write=%d", w.SinkMaxWriteMS)
	}
	return line.String()
}

// recordLine prints a line of a dispatcher's history.
func recordLine(word words, r fsm.PlacementRecord) string {
	line := facts{word.life(r.Node, r.Incarnation)}
	line.add("epoch=%s placed=%d ended=%d time=%d", word.epoch(r.Epoch), r.PlacedAt, r.EndedAt, r.EndedMS)
	line.addIf(!r.HasRun, "never-ran")
	line.addIf(r.Reason != "", "reason=%s", quote(r.Reason))
	line.addIf(r.Detail != "", "detail=%s", quote(r.Detail))
	line.add("at=%s", r.Position)
	return line.String()
}
