package explore

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// kind says what an action is.
type kind uint8

// What can happen. The operands of an action stand behind its kind: D a dispatcher and T a table by rank, N a node, O a
// running operator by rank. Everything up to lastCommand is a command of the log.
const (
	doAdd          kind = iota + 1 // D N
	doMove                         // D N: from whoever owns it
	doMoveFrom                     // D N N: from the first to the second
	doMoveNowhere                  // D N: it must be absent
	doRemove                       // D
	doSplit                        // D cell target: at the start of the cell, the first child on the node before target, if any
	doMerge                        // D D
	doCancel                       // O
	doRegister                     // N
	doFence                        // N
	doExpire                       // N
	doGoodbye                      // N
	doStartDrain                   // N
	doClearDrain                   // N
	doConfirmDrain                 // N
	doPause
	doResume
	doAddTable  // number of a table that the world may add
	doDropTable // T
	doDecide    // event decision
	doAdvance   // stop: raise the watermark
	doSay       // D event what: a word of its node about its placement
	doSayAll    // N event what: of everything that the node runs
	doTick      // N, 1: its ack arrives: a tick names its incarnation
	doReport    // D what position: of its node, about its placement; a stop of the track from 1, 0 for none

	// Stale input, which must change nothing.
	doReportStale  // N: everything it could say of placements that are not current, or not its own
	doReportEnded  // N: everything it could say of its own placements, by an earlier incarnation
	doSayStale     // N: everything it could say of events for placements that are not current, or not its own
	doAdvanceStale // stop: raise the watermark on the word of other sets than those that run
	doExpireLate   // N: expecting an older tick than the last
	doTickEnded    // N: naming an incarnation that is not live
	doExpect       // D N: an add that expects another epoch
	doRepeat       // one of the menu by rank, under a request id, twice

	// What nodes do between commands. The second operand is a record of the node by rank.
	nodeStarts   // N R: obeys a start
	nodeToldStop // N R: obeys a stop of what it does not hold
	nodeBuilt    // N R: it runs
	nodeFails    // N R: its start has failed
	nodeStops    // N R, 1: the stop report has the position: it has stopped, by itself or as ordered
	nodeAcked    // N R: hears that its report has been counted
	nodeMoves    // N R: it writes on, up to the next stop of the track
	nodeBegins   // N R: it obeys the order to write an event
	nodeWrites   // N R: the event is downstream
	nodeUnsure   // N R, 1: the event is downstream, 0: it is not; the node cannot know
	nodePasses   // N R: it obeys the order to pass an event
	nodeGoesOn   // N R: it hears that its written or passed has been counted, and leaves the event behind
	nodeLate     // N: its lease is over for now: it pauses
	askExpire    // N: the leader has waited long enough for it, and proposes to expire it
	nodeRevived  // N: an earlier process of the name gets an ack that it should not
	nodeFenced   // N, 1: what it was writing gets downstream: its lease is over; it runs nothing any more
)

const lastCommand = doRepeat

// action is something that can happen in a standing.
type action struct {
	kind    kind
	a, b, c uint8
}

// stale says whether the action must change nothing.
func (a action) stale() bool { return a.kind >= doReportStale && a.kind <= lastCommand }

// ask is a command together with the words for it in a script.
type ask struct {
	command fsm.Command
	line    string
	request fsm.RequestID
}

// ask builds the command of an action, in the numbers of sh.
func (w *World) ask(sh *shape, a action) ask {
	//exhaustive:ignore
	switch a.kind {
	case doAdd, doMove, doMoveFrom, doMoveNowhere, doRemove, doExpect:
		return w.askOperator(sh, a)
	case doRepeat:
		again := w.ask(sh, w.menu(sh)[a.a])
		again.request, again.line = "again", "req=again time=0 times=2 "+again.line
		return again
	case doCancel:
		id := sh.ops[a.a].ID
		return ask{command: &fsm.CancelOperator{Op: id}, line: "cancel " + id.String()}
	case doSplit:
		return w.askSplit(sh, a)
	case doMerge:
		one, two := sh.rows[a.a].ID, sh.rows[a.b].ID
		return ask{
			command: &fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{one, two}},
			line:    fmt.Sprintf("merge %s,%s", dispatcherWord(one), dispatcherWord(two)),
		}
	case doSay:
		return w.askSay(sh, a)
	case doSayAll:
		return w.askSayAll(sh, a)
	case doSayStale:
		return w.askSayStale(sh, a)
	case doDecide:
		return w.askDecide(sh, a)
	case doAdvance, doAdvanceStale:
		return w.askAdvance(sh, a)
	case doRegister, doFence, doExpire, doExpireLate, doGoodbye, doTick, doTickEnded, doStartDrain, doClearDrain, doConfirmDrain:
		return askNode(sh, a)
	case doPause:
		return ask{command: &fsm.PauseChangefeed{Name: feedName}, line: "pause " + feedName}
	case doResume:
		return ask{command: &fsm.ResumeChangefeed{Name: feedName}, line: "resume " + feedName}
	case doAddTable:
		return askAddTable(w.Tables[a.a])
	case doDropTable:
		t := &sh.tabs[a.a]
		ref := fsm.TableRef{Schema: t.Schema, Name: t.Name}
		return ask{
			command: &fsm.DropTables{Changefeed: feedName, Tables: []fsm.TableRef{ref}},
			line:    "drop-tables " + feedName + " table=" + ref.String(),
		}
	default:
		return w.askReport(sh, a)
	}
}

func (w *World) askOperator(sh *shape, a action) ask {
	row, to := &sh.rows[a.a], nodeName(int(a.b))
	m := &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: row.ID, To: to}
	d := dispatcherWord(row.ID)
	//exhaustive:ignore
	switch a.kind {
	case doMove:
		m.FromAny = true
		return ask{command: m, line: fmt.Sprintf("move %s from=* to=%s", d, to)}
	case doMoveFrom:
		m.From, m.To = to, nodeName(int(a.c))
		return ask{command: m, line: fmt.Sprintf("move %s from=%s to=%s", d, m.From, m.To)}
	case doMoveNowhere:
		return ask{command: m, line: fmt.Sprintf("move %s to=%s", d, to)}
	case doRemove:
		m.Op, m.To = fsm.OpRemove, ""
		return ask{command: m, line: "remove " + d}
	case doExpect:
		m.Op, m.ExpectEpoch = fsm.OpAdd, sh.old(row)
		return ask{command: m, line: fmt.Sprintf("add %s %s epoch=%s", d, to, m.ExpectEpoch)}
	default:
		m.Op = fsm.OpAdd
		return ask{command: m, line: fmt.Sprintf("add %s %s", d, to)}
	}
}

func (w *World) askSplit(sh *shape, a action) ask {
	row, at := &sh.rows[a.a], w.Cells[a.b].span.Start
	m := &fsm.AdmitOperator{
		Op: fsm.OpSplit, Dispatcher: row.ID, Spans: []fsm.Span{{Start: row.Span.Start, End: at}, {Start: at, End: row.Span.End}},
	}
	line := fmt.Sprintf("split %s at=%s", dispatcherWord(row.ID), at)
	if a.c > 0 {
		m.Targets = []fsm.NodeName{nodeName(int(a.c - 1)), ""}
		line += fmt.Sprintf(" targets=%s,-", m.Targets[0])
	}
	return ask{command: m, line: line}
}

func askNode(sh *shape, a action) ask {
	n, name := &sh.nodes[a.a], nodeName(int(a.a))
	//exhaustive:ignore
	switch a.kind {
	case doRegister:
		return ask{command: registration(name), line: "register " + string(name)}
	case doFence:
		return ask{command: &fsm.FenceNode{Node: name}, line: "fence " + string(name)}
	case doStartDrain:
		return ask{command: &fsm.StartDrain{Node: name}, line: "start-drain " + string(name)}
	case doClearDrain:
		return ask{command: &fsm.ClearDrain{Node: name}, line: "clear-drain " + string(name)}
	case doConfirmDrain:
		m := &fsm.ConfirmDrain{Node: name, Incarnation: n.incarnation}
		return ask{command: m, line: "confirm-drain " + string(name)}
	case doGoodbye:
		return ask{command: &fsm.Goodbye{Node: name, Incarnation: n.incarnation}, line: "goodbye " + string(name)}
	case doTick, doTickEnded:
		t := &fsm.Tick{ElapsedMS: 100, Base: n.incarnation, Bits: []byte{1}}
		return ask{command: t, line: fmt.Sprintf("tick base=%s bits=1", n.incarnation)}
	case doExpireLate:
		m := &fsm.ExpireNode{Node: name, Incarnation: n.incarnation, ExpectTick: n.lastTick - 1}
		return ask{command: m, line: fmt.Sprintf("expire %s expect=%d", name, m.ExpectTick)}
	default:
		m := &fsm.ExpireNode{Node: name, Incarnation: n.incarnation, ExpectTick: n.lastTick}
		return ask{command: m, line: "expire " + string(name)}
	}
}

// registration is what `register NODE` of a script means.
func registration(name fsm.NodeName) *fsm.RegisterNode {
	return &fsm.RegisterNode{
		Node: name, LeaseMS: 2000, ClockClass: 1, Protocol: 1, BootID: "boot-of-" + string(name), LockDevice: 1, LockInode: 1,
	}
}

func askAddTable(t fsm.TableSpec) ask {
	return ask{
		command: &fsm.AddTables{Changefeed: feedName, Tables: []fsm.TableSpec{t}},
		line:    "add-tables " + feedName + tableWords(t),
	}
}

func tableWords(t fsm.TableSpec) string {
	words := " table=" + fsm.TableRef{Schema: t.Schema, Name: t.Name}.String()
	if len(t.SplitKeys) > 0 {
		words += " split=" + strings.Join(t.SplitKeys, ",")
	}
	return words
}

func (w *World) askReport(sh *shape, a action) ask {
	if a.kind != doReport {
		return askStale(sh, a)
	}
	row := &sh.rows[a.a]
	r := fsm.PlacementReport{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: row.ID, Epoch: row.Epoch}, What: fsm.ReportKind(a.b),
	}
	if a.c != 0 {
		r.HasPosition, r.Position = true, w.Track[a.c-1]
	}
	return reportOf(nodeName(row.node), row.Incarnation, r)
}

func reportOf(node fsm.NodeName, inc fsm.Incarnation, reports ...fsm.PlacementReport) ask {
	words := []string{fmt.Sprintf("report %s#%s", node, inc)}
	for i := range reports {
		r := &reports[i]
		word := fmt.Sprintf("%s %s@%s", r.What, dispatcherWord(r.Dispatcher), r.Epoch)
		if r.HasPosition {
			word += ":" + r.Position.String()
		}
		words = append(words, word)
	}
	return ask{
		command: &fsm.ReportPlacements{Node: node, Incarnation: inc, Reports: reports}, line: strings.Join(words, " "),
	}
}

// askStale is everything at once that a node must not be believed.
func askStale(sh *shape, a action) ask {
	n := &sh.nodes[a.a]
	inc := n.incarnation
	if a.kind == doReportEnded {
		inc--
	}
	var all []fsm.PlacementReport
	for d := range sh.rows {
		row := &sh.rows[d]
		pairs := []fsm.Epoch{sh.old(row)}
		if row.placed() && (a.kind == doReportEnded || row.node != int(a.a)) {
			pairs = append(pairs, row.Epoch)
		}
		for _, epoch := range pairs {
			for what := fsm.ReportRunning; what <= fsm.ReportStartFailed; what++ {
				all = append(all, fsm.PlacementReport{
					PlacementPosition: fsm.PlacementPosition{Dispatcher: row.ID, Epoch: epoch, HasPosition: true, Position: fsm.At(99)},
					What:              what,
				})
			}
		}
	}
	return reportOf(nodeName(int(a.a)), inc, all...)
}

// old is an epoch of the dispatcher that is not its present one.
func (sh *shape) old(row *rowShape) fsm.Epoch {
	if row.earlier != 0 {
		return row.earlier
	}
	return fsm.Epoch(uint64(sh.meta.Generation) << fsm.SequenceBits)
}

func dispatcherWord(id fsm.DispatcherID) string { return fmt.Sprintf("d%d", id) }
