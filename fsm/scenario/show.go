package scenario

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/fsm"
)

// showState prints the whole state, or what concerns one dispatcher, changefeed or node.
func showState(w *world, a *args, p *printer) error {
	v := w.state.View()
	if !a.more() {
		showAll(p, v)
		return nil
	}
	name := a.plain[0]
	if n, ok := v.Node(fsm.NodeName(name)); ok {
		a.word("a node")
		showNode(p, v, n)
		for row := range v.DispatchersOn(n.Incarnation) {
			showDispatcher(p, v, row)
		}
		return nil
	}
	if f, ok := v.Changefeed(name); ok {
		a.word("a changefeed")
		showChangefeed(p, v, f)
		return nil
	}
	id := a.dispatcher()
	if row, ok := v.Dispatcher(id); ok {
		showDispatcher(p, v, row)
	} else if a.err == nil {
		p.line("%s: not there", dispatcherWord(id))
	}
	return nil
}

func showAll(p *printer, v *fsm.View) {
	m := v.Meta()
	p.line("state index=%d term=%d leader=%s generation=%d level=%d time=%d", m.Index, m.Term, quote(string(m.Leader)), m.Generation, m.Level, m.TimeMS)
	for s := range v.Servers() {
		p.line("server %s at %s level=%d", quote(string(s.ID)), quote(s.Address), s.HighestLevel)
	}
	for n := range v.Nodes() {
		showNode(p, v, n)
	}
	for f := range v.Changefeeds() {
		showChangefeed(p, v, f)
	}
	for op := range v.Operators() {
		showOperator(p, v, op)
	}
}

func showNode(p *printer, v *fsm.View, n fsm.Node) {
	load := v.Load(n.Incarnation)
	line := facts{"node", wordsOf(v).life(n.Name, n.Incarnation), n.Status.String()}
	line.add("lease=%d tick=%d placements=%d", n.LeaseMS, n.LastTick, load.Placements)
	line.addIf(n.Draining, "%s left=%d", drainLine(n), v.DrainLeft(n))
	p.line("%s", line.String())
}

func showChangefeed(p *printer, v *fsm.View, f fsm.Changefeed) {
	line := facts{"changefeed", quote(f.Name), f.Status.String()}
	line.add("run=%d watermark=%s", f.Run, f.Watermark)
	line.addIf(f.SyncPointEvery != 0, "sync-points=%d", f.SyncPointEvery)
	line.addIf(f.Chain != fsm.Position{}, "chain=%s", f.Chain)
	line.addIf(f.Granted != fsm.Position{}, "granted=%s", f.Granted)
	line.addIf(f.Reason != "", "reason=%s detail=%s by %s", quote(f.Reason), quote(f.Detail), dispatcherWord(f.FailedBy))
	p.line("%s", line.String())
	for b := range v.Barriers(f.ID) {
		p.line("%s %s, %s", barrierName(v, b), specLine(b.Spec), barrierLine(v, b))
	}
	for t := range v.Tables(f.ID) {
		if !t.Trigger {
			p.line("table %d %s", t.ID, tableLine(v, t))
		}
		for row := range v.DispatchersOfTable(t.ID) {
			showDispatcher(p, v, row)
		}
	}
}

func showDispatcher(p *printer, v *fsm.View, row fsm.Dispatcher) {
	p.line("%s %s: %s", dispatcherWord(row.ID), spanLine(v, row), placementLine(v, row))
}

func showOperator(p *printer, v *fsm.View, op fsm.Operator) {
	word := wordsOf(v)
	p.line("op %s: %s", word.operator(op.ID), operatorLine(word, op))
}

// showOrders prints what a node has still to do, as the leader would tell it now.
func showOrders(w *world, a *args, p *printer) error {
	l := a.node()
	v := w.state.View()
	word := wordsOf(v)
	p.line("orders for %s term=%d index=%d", word.life(l.node, l.inc), v.Meta().Term, v.Meta().Index)
	for o := range v.Orders(l.inc) {
		p.line("%s", orderLine(word, o))
	}
	for o := range v.BarrierOrders(l.inc) {
		p.line("%s", barrierOrderLine(v, o))
	}
	return nil
}

func showOperators(w *world, _ *args, p *printer) error {
	v := w.state.View()
	p.line("running %d", v.OperatorCount())
	for op := range v.Operators() {
		showOperator(p, v, op)
	}
	p.line("ended, newest first")
	for op := range v.FinishedOperators() {
		showOperator(p, v, op)
	}
	return nil
}

func showHistory(w *world, a *args, p *printer) error {
	id := a.dispatcher()
	v := w.state.View()
	p.line("history of %s, oldest first", dispatcherWord(id))
	for r := range v.History(id) {
		p.line("%s", recordLine(wordsOf(v), r))
	}
	return nil
}

// explain prints the sentence that people get for a verdict, or why something stands as it does.
func explain(w *world, a *args, p *printer) error {
	v := w.state.View()
	if a.more() {
		switch a.plain[0] {
		case "dispatcher":
			a.word("dispatcher")
			printExplanation(p)(v.ExplainDispatcher(a.dispatcher()))
			return nil
		case "operator":
			a.word("operator")
			printExplanation(p)(v.ExplainOperator(a.asOperator(a.word("an operator, its id or $NAME"))))
			return nil
		case "barrier":
			a.word("barrier")
			printExplanation(p)(v.ExplainBarrier(a.key()))
			return nil
		case "request":
			a.word("request")
			printExplanation(p)(v.ExplainRequest(fsm.RequestID(a.word("a request id"))))
			return nil
		}
	}
	m := w.last
	if a.more() {
		m, _ = a.named(a.word("$NAME"))
	}
	if m.verdict.Reason == 0 {
		a.fail("there is no verdict to explain: write a command above, or $NAME of one")
		return nil
	}
	p.line("%s", m.verdict.Sentence())
	return nil
}

// printExplanation prints each fact with its entry.
func printExplanation(p *printer) func(e fsm.Explanation, known bool) {
	return func(e fsm.Explanation, known bool) {
		if !known {
			p.line("%s: nothing is known", e.Subject)
			return
		}
		p.line("%s", e.Subject)
		for _, l := range e.Lines {
			line := facts{}
			line.addIf(l.Index != 0, "since %d", l.Index)
			line.addIf(l.By != "", "by %s", quote(l.By))
			line.add("%s", l.Text)
			p.line("  %s", line.String())
		}
	}
}

// dryRun prints the verdict that a command would get now, and makes sure that asking has changed nothing.
func dryRun(w *world, a *args, p *printer) error {
	verb := a.word("a verb")
	c := call{verb: verb, params: a.all[1:]}
	a.plain, a.keys = nil, nil
	proposal, err := w.proposal(c)
	if err != nil {
		return err
	}
	view, before := w.state.View(), w.state.Hash()
	v := view.DryRun(proposal)
	if w.state.Hash() != before || view.Hash() != before {
		return errDryRun
	}
	p.line("dry-run %s: %s", verb, verdictLine(c, view, v))
	printItems(p, view, v)
	return nil
}

var errDryRun = errors.New("a dry run has changed the state")

func showBarriers(w *world, _ *args, p *printer) error {
	v := w.state.View()
	p.line("open")
	for feed := range v.Changefeeds() {
		for b := range v.Barriers(feed.ID) {
			p.line("%s %s, %s", barrierName(v, b), specLine(b.Spec), barrierLine(v, b))
			for row := range v.BarrierMissing(b) {
				p.line("  missing %s: %s", dispatcherWord(row.ID), placementLine(v, row))
			}
		}
	}
	p.line("ended, newest first")
	for b := range v.BarrierRecords() {
		p.line("%s %s, %s", barrierName(v, b), specLine(b.Spec), barrierLine(v, b))
	}
	return nil
}

func showHash(w *world, _ *args, p *printer) error {
	p.line("hash %s", w.state.Hash())
	return nil
}

// check is for people who want to see it: invariants are checked after every entry anyhow.
func check(w *world, _ *args, p *printer) error {
	if err := w.checkInvariants(); err != nil {
		return err
	}
	p.line("all invariants hold")
	return nil
}

// snapshot writes the state out, reads it back, and goes on with what was read.
func snapshot(w *world, _ *args, p *printer) error {
	restored, err := roundTrip(w.state.View())
	if err != nil {
		return err
	}
	if restored.Hash() != w.state.Hash() {
		return fmt.Errorf("the restored state has hash %s, the state itself %s", restored.Hash(), w.state.Hash())
	}
	w.state = restored
	w.trace()
	p.line("snapshot: restored, same hash")
	return nil
}
