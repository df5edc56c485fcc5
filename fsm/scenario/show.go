package scenario

import (
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
	p.line("%s", line.String())
}

func showChangefeed(p *printer, v *fsm.View, f fsm.Changefeed) {
	p.line("changefeed %s %s run=%d", quote(f.Name), f.Status, f.Run)
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

// explain prints the sentence that people get for a verdict.
func explain(w *world, a *args, p *printer) error {
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
