package scenario

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

func buildAdd(a *args) fsm.Command {
	return &fsm.AdmitOperator{
		Op: fsm.OpAdd, Dispatcher: a.dispatcher(), To: fsm.NodeName(a.word("the destination")), ExpectEpoch: a.epoch(),
	}
}

func buildMove(a *args) fsm.Command {
	m := a.admission(fsm.OpMove)
	if m.To == "" {
		a.fail("want to=NODE here")
	}
	return m
}

func buildRemove(a *args) fsm.Command {
	return &fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: a.dispatcher(), ExpectEpoch: a.epoch()}
}

// buildAdmit can also ask for what the other verbs would not: kinds that do not exist, parameters that do not fit.
func buildAdmit(a *args) fsm.Command {
	w := a.word("add, move, remove, stop, split, merge or a number")
	for k := fsm.OpAdd; k <= fsm.OpMerge; k++ {
		if w == k.String() {
			return a.admission(k)
		}
	}
	n, err := strconv.ParseUint(w, 10, 8)
	if err != nil {
		a.fail("%s: want add, move, remove, stop, split, merge or a number", w)
	}
	return a.admission(fsm.OperatorKind(n))
}

func (a *args) admission(kind fsm.OperatorKind) *fsm.AdmitOperator {
	m := &fsm.AdmitOperator{Op: kind, ExpectEpoch: a.epoch()}
	if a.more() || kind == fsm.OpMove {
		m.Dispatcher = a.dispatcher()
	}
	m.To = fsm.NodeName(a.text("to", ""))
	if from := a.text("from", ""); from == "*" {
		m.FromAny = true
	} else {
		m.From = fsm.NodeName(from)
	}
	return m
}

// buildSplit cuts the dispatcher's span at keys, or takes spans as they are, also those that do not fit.
func buildSplit(a *args) fsm.Command {
	m := &fsm.AdmitOperator{Op: fsm.OpSplit, Dispatcher: a.dispatcher(), ExpectEpoch: a.epoch()}
	at, cut := a.list("at")
	spans, given := a.list("spans")
	switch {
	case cut == given:
		a.fail("want at=KEY,... or spans=START..END,... here")
	case cut:
		row, _ := a.world.state.Dispatcher(m.Dispatcher)
		m.Spans = cutAt(row.Span, at)
	default:
		for _, w := range spans {
			start, end, ok := strings.Cut(w, "..")
			if !ok {
				a.fail("spans=%s: want START..END", w)
			}
			m.Spans = append(m.Spans, fsm.Span{Start: start, End: end})
		}
	}
	targets, _ := a.list("targets")
	for _, w := range targets {
		if w == "-" {
			w = ""
		}
		m.Targets = append(m.Targets, fsm.NodeName(w))
	}
	return m
}

func cutAt(whole fsm.Span, keys []string) []fsm.Span {
	spans := make([]fsm.Span, 0, len(keys)+1)
	from := whole.Start
	for _, key := range keys {
		spans = append(spans, fsm.Span{Start: from, End: key})
		from = key
	}
	return append(spans, fsm.Span{Start: from, End: whole.End})
}

func buildMerge(a *args) fsm.Command {
	m := &fsm.AdmitOperator{Op: fsm.OpMerge, ExpectEpoch: a.epoch()}
	for w := range strings.SplitSeq(a.word("dispatchers, d1,d2"), ",") {
		m.Sources = append(m.Sources, a.asDispatcher(w))
	}
	return m
}

// buildAdmitMany takes its items from the lines below it.
func buildAdmitMany(a *args) fsm.Command {
	m := &fsm.AdmitMany{}
	if a.more() {
		if w := a.word("all"); w != "all" {
			a.fail("%s: want all, or nothing", w)
		}
		m.AllOrNothing = true
	}
	for _, c := range a.inner {
		v, err := verbNamed(c.verb)
		if err != nil || v.build == nil || len(c.envelope) > 0 || c.name != "" {
			a.fail("%s: want add, move, remove, split, merge or admit, with nothing before it", c.verb)
			return m
		}
		item := newArgs(a.world, c)
		op, ok := v.build(item).(*fsm.AdmitOperator)
		if err := item.finish(); err != nil {
			a.fail("%w; usage: %s", err, v.name+" "+v.usage)
			return m
		}
		if !ok {
			a.fail("%s is no operator", c.verb)
			return m
		}
		m.Items = append(m.Items, *op)
	}
	return m
}

func buildCancel(a *args) fsm.Command {
	return &fsm.CancelOperator{Op: a.asOperator(a.word("an operator, its id or $NAME"))}
}
