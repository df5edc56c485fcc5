package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// feedName is the changefeed of every world.
const feedName = "shop"

// World is a small cluster and what may happen to it.
type World struct {
	Name string
	// Bounds says in words what the world is made of and where it ends.
	Bounds string
	// Short: the world is part of the share that continuous integration explores.
	Short bool
	Nodes int
	// Cells are the smallest pieces of key space: no two dispatchers may write one at once.
	Cells []cell
	// First are the tables that the changefeed is created with, Tables those that may be added, also again.
	First, Tables []fsm.TableSpec
	// MaxDispatchers bounds how many may be there at once: no table is added beyond.
	MaxDispatchers int
	// Track lists the positions at which a dispatcher can stand, from the start on; Events are met between them. Without a
	// track nodes say nothing of positions, and the trigger stays absent.
	Track  []fsm.Position
	Events []event
	// SyncPoints is the distance of sync points, zero for none.
	SyncPoints uint64
	// AllAtOnce: nodes also speak for everything that they run in one word. Late: reports also arrive when they are over.
	// Unsure: a node may not know whether it wrote an event.
	AllAtOnce, Late, Unsure bool
	// Asks are the kinds of commands that users send.
	Asks []kind
	// Leases: nodes pause and go on with the ticks that name them, and expiries race with these. Else a node that is expired
	// has been fenced before.
	Leases bool
	// Losses: nodes may lose their leases at any time, and come back where registrations are asked for; with Lost only the
	// first so many of them.
	Losses bool
	Lost   int
	// Remembered bounds the placements that one node knows of and that have ended.
	Remembered int
	// Node changes the rules of nodes; for tests that must see the explorer find something.
	Node NodeRules
}

// NodeRules are the duties of nodes that can be left out, to see what breaks.
type NodeRules struct {
	// ForgetsOnReport: it forgets a placement as soon as it has reported how it ended.
	ForgetsOnReport bool
	// ForgetsMark: it forgets a placement when that report is acknowledged, and obeys orders from before all the same.
	ForgetsMark bool
	// LateFence: it may be expired before it has lost its lease.
	LateFence bool
	// AckRefused: it gets the ack of a tick that has refused its incarnation.
	AckRefused bool
	// ForgetsEvent: it leaves an event behind as soon as it has said written or passed.
	ForgetsEvent bool
	// WaitsBeyond: a dispatcher that waits at an event counts as past it in its node's minimum.
	WaitsBeyond bool
}

// begin is the state in which the world starts, and the script that leads to it.
func (w *World) begin() (*fsm.State, []string, error) {
	s := fsm.New()
	c := concrete{state: s}
	c.apply(
		fsm.Proposal{Command: &fsm.BeginTerm{Server: "s1"}},
		fsm.Proposal{Command: &fsm.BeginGeneration{Generation: 1, Cluster: "scenario", Why: fsm.GenerationBootstrap}},
	)
	var asks []ask
	for i := range w.Nodes {
		asks = append(asks, ask{command: registration(nodeName(i)), line: "register " + string(nodeName(i))})
	}
	policy := fsm.DefaultPolicy()
	policy.FailAfter = 0 // how often a dispatcher has failed does not count here
	asks = append(asks, ask{command: &fsm.SetPolicy{Policy: policy}, line: "policy fail-after=0"}, w.creation())
	var script []string
	for _, a := range asks {
		script = append(script, a.line)
		if v := c.apply(fsm.Proposal{Command: a.command}); !v[0].OK() {
			return nil, nil, fmt.Errorf("%s: %s", a.line, v[0].Sentence())
		}
	}
	return s, script, nil
}

func (w *World) creation() ask {
	m := &fsm.CreateChangefeed{
		Name: feedName, Source: "wal2json:/source", Sink: "sqlite:/sink", SinkFenced: true, Start: fsm.At(10), Tables: w.First,
		SyncPointEvery: w.SyncPoints,
	}
	line := "create-changefeed " + feedName + " start=10"
	if w.SyncPoints != 0 {
		line += fmt.Sprintf(" sync-points=%d", w.SyncPoints)
	}
	words := []string{line}
	for _, t := range w.First {
		words = append(words, tableWords(t))
	}
	return ask{command: m, line: strings.Join(words, "")}
}

// concrete is a state with its log's next index.
type concrete struct{ state *fsm.State }

// apply carries out one entry, in the term that the state holds (the first, before it holds one).
func (c concrete) apply(proposals ...fsm.Proposal) []fsm.Verdict {
	m := c.state.Meta()
	term := max(m.Term, 1)
	for i := range proposals {
		proposals[i].Term = term
	}
	return c.state.Apply(fsm.Entry{Index: m.Index + 1, Term: term, Proposals: proposals})
}

// menu lists the commands that can arrive in a state whatever its nodes do: those of users and of the leader.
func (w *World) menu(sh *shape) []action {
	var menu []action
	for _, k := range w.Asks {
		menu = append(menu, w.choices(sh, k)...)
	}
	return menu
}

// choices are all actions of one kind.
func (w *World) choices(sh *shape, k kind) []action {
	//exhaustive:ignore
	switch k {
	case doAdd, doMove, doMoveNowhere, doMoveFrom:
		return w.placings(sh, k)
	case doRemove:
		return each(len(sh.rows), k)
	case doCancel:
		return each(len(sh.ops), k)
	case doRegister, doFence, doStartDrain, doClearDrain, doConfirmDrain:
		return each(w.Nodes, k)
	case doAdvance: // as far as nodes allow, which the state does not say
		return nil
	case doDecide:
		return w.decisions()
	case doAddTable, doDropTable:
		return w.tables(sh, k)
	case doSplit:
		return w.splits(sh)
	case doMerge:
		return w.merges(sh)
	default: // doPause, doResume
		return each(1, k)
	}
}

// each is one action of the kind for each of so many.
func each(n int, k kind) []action {
	all := make([]action, n)
	for i := range all {
		all[i] = action{kind: k, a: uint8(i)}
	}
	return all
}

// placings: every dispatcher to every node, from every node where that is named.
func (w *World) placings(sh *shape, k kind) []action {
	var all []action
	for d := range sh.rows {
		switch {
		case w.idle(sh, d):
		case k == doMoveFrom:
			all = append(all, w.movesFrom(d)...)
		default:
			for n := range w.Nodes {
				all = append(all, action{kind: k, a: uint8(d), b: uint8(n)})
			}
		}
	}
	return all
}

func (w *World) tables(sh *shape, k kind) []action {
	var all []action
	if k == doDropTable {
		for t := range sh.tabs {
			if !sh.tabs[t].Dropping && !sh.tabs[t].Trigger {
				all = append(all, action{kind: k, a: uint8(t)})
			}
		}
		return all
	}
	for i := range w.Tables {
		if len(sh.rows)+len(w.Tables[i].SplitKeys)+1 <= w.MaxDispatchers {
			all = append(all, action{kind: k, a: uint8(i)})
		}
	}
	return all
}

// splits: every dispatcher of two cells or more at each of their bounds, without targets or with one for the first child.
func (w *World) splits(sh *shape) []action {
	var all []action
	if len(sh.rows) >= w.MaxDispatchers {
		return nil
	}
	for d := range sh.rows {
		for i, c := range w.Cells {
			if sh.rows[d].cells&(1<<i) == 0 || c.span.Start == sh.rows[d].Span.Start {
				continue
			}
			for target := range w.Nodes + 1 {
				all = append(all, action{kind: doSplit, a: uint8(d), b: uint8(i), c: uint8(target)})
			}
		}
	}
	return all
}

// merges: every two dispatchers, fitting or not.
func (w *World) merges(sh *shape) []action {
	var all []action
	for d := range sh.rows {
		for e := range d {
			all = append(all, action{kind: doMerge, a: uint8(e), b: uint8(d)})
		}
	}
	return all
}

// idle says whether a dispatcher is the trigger of a world without events: it stays absent.
func (w *World) idle(sh *shape, d int) bool {
	if !sh.tabs[sh.rows[d].table].Trigger {
		return false
	}
	return !slices.ContainsFunc(w.Events, func(e event) bool { return e.spec.TriggerTakesPart() })
}

// losable says whether the node may lose its lease.
func (w *World) losable(node int) bool { return w.Losses && (w.Lost == 0 || node < w.Lost) }

// asks says whether somebody sends commands of the kind.
func (w *World) asks(k kind) bool { return slices.Contains(w.Asks, k) }

// decisions: every event may be declared written, to be written again, or left out. They are told apart from the truth by
// whoever takes the step.
func (w *World) decisions() []action {
	var all []action
	for i := range w.Events {
		for d := fsm.DecideWritten; d <= fsm.DecideSkip; d++ {
			all = append(all, action{kind: doDecide, a: uint8(i), b: uint8(d)})
		}
	}
	return all
}

func (w *World) movesFrom(d int) []action {
	var all []action
	for from := range w.Nodes {
		for to := range w.Nodes {
			all = append(all, action{kind: doMoveFrom, a: uint8(d), b: uint8(from), c: uint8(to)})
		}
	}
	return all
}

// noise lists the stale input of a state.
func (w *World) noise(sh *shape) []action {
	var all []action
	for n := range sh.nodes {
		if sh.nodes[n].incarnation == 0 {
			continue
		}
		all = append(all, action{kind: doReportStale, a: uint8(n)}, action{kind: doReportEnded, a: uint8(n)})
		if len(w.Events) > 0 {
			all = append(all, action{kind: doSayStale, a: uint8(n)})
		}
		if live(sh.nodes[n].status) {
			all = append(all, action{kind: doExpireLate, a: uint8(n)})
		}
		if sh.nodes[n].status != fsm.NodeStatusLive {
			all = append(all, action{kind: doTickEnded, a: uint8(n)})
		}
	}
	for d := range sh.rows {
		all = append(all, action{kind: doExpect, a: uint8(d)})
	}
	for i := range w.Track {
		if len(sh.crews) > 0 {
			all = append(all, action{kind: doAdvanceStale, a: uint8(i)})
		}
	}
	return all
}

// repeats lists every command of the menu under a request id that is used twice.
func (w *World) repeats(sh *shape) []action {
	var all []action
	for i := range w.menu(sh) {
		all = append(all, action{kind: doRepeat, a: uint8(i)})
	}
	return all
}

// cellWords names cells.
func (w *World) cellWords(set cells) string {
	var words []string
	for i, c := range w.Cells {
		if set&(1<<i) != 0 {
			words = append(words, c.table+" "+c.span.String())
		}
	}
	return strings.Join(words, ", ")
}
