package apitest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// Log is a log that everybody agrees on, and the state that follows from it.
type Log struct {
	ids []fsm.ServerID

	mu     sync.Mutex // guards what follows
	state  *fsm.State
	term   uint64
	hashes map[uint64]fsm.Digest
	log    []fsm.Entry
	cut    uint64 // entries below it are forgotten
	// Entries counts the entries that carried a request of the id.
	entries map[fsm.RequestID]int
}

// NewLog is an empty log.
func NewLog() *Log {
	return &Log{state: fsm.New(), hashes: map[uint64]fsm.Digest{}, entries: map[fsm.RequestID]int{}}
}

func (l *Log) begin(tb testing.TB, ids []fsm.ServerID) {
	tb.Helper()
	l.ids = ids
	l.beginTerm(tb, ids[0])
	l.MustApply(tb, &fsm.BeginGeneration{Generation: 7, Cluster: ClusterID, Why: fsm.GenerationBootstrap})
	for _, id := range ids {
		l.MustApply(tb, &fsm.AnnounceServer{Server: id, Address: Address(id), HighestLevel: 1})
	}
}

func (l *Log) beginTerm(tb testing.TB, id fsm.ServerID) {
	tb.Helper()
	l.mu.Lock()
	l.term++
	l.mu.Unlock()
	l.MustApply(tb, &fsm.BeginTerm{Server: id})
}

// Term is the newest term.
func (l *Log) Term() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// Apply appends one entry and applies it, under the newest term.
func (l *Log) Apply(proposals ...fsm.Proposal) []fsm.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := fsm.Entry{Index: l.state.Meta().Index + 1, Term: l.term}
	for _, p := range proposals {
		p.Term = l.term
		e.Proposals = append(e.Proposals, p)
		l.entries[p.Request]++
	}
	l.log = append(l.log, e)
	verdicts := l.state.Apply(e)
	l.hashes[e.Index] = l.state.Hash()
	return verdicts
}

// MustApply applies a command that must be accepted.
func (l *Log) MustApply(tb testing.TB, command fsm.Command) fsm.Verdict {
	tb.Helper()
	v := l.Apply(fsm.Proposal{Command: command})[0]
	require.True(tb, v.OK(), "%T: %s", command, v.Sentence())
	return v
}

// Pass lets state-machine time pass, in ticks of at most a second.
func (l *Log) Pass(tb testing.TB, ms uint64) {
	tb.Helper()
	l.MustApply(tb, &fsm.Tick{})
	for ; ms > 0; ms -= min(ms, fsm.MaxTickMS) {
		l.MustApply(tb, &fsm.Tick{ElapsedMS: uint32(min(ms, fsm.MaxTickMS))})
	}
}

// Times is how many proposals with the request id have come into the log.
func (l *Log) Times(id fsm.RequestID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[id]
}

// View is the state.
func (l *Log) View() *fsm.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View()
}

// Cut forgets every state before the entry at index.
func (l *Log) Cut(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = index
}

// StateAt replays the log to an index; ok is false if that has been cut off.
func (l *Log) StateAt(index uint64) (view *fsm.View, oldest uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index < l.cut {
		return nil, l.cut, false
	}
	s := fsm.New()
	for _, e := range l.log {
		if e.Index <= index {
			s.Apply(e)
		}
	}
	return s.View(), l.cut, true
}

// World is everything of a state that a refusal may not change.
type World struct {
	Dispatchers []fsm.Dispatcher
	Operators   []fsm.Operator
	Finished    []fsm.Operator
	Nodes       []fsm.Node
	Changefeeds []fsm.Changefeed
	Tables      []fsm.Table
	Servers     []fsm.Server
	Issued      [5]uint64
}

// World reads all of it.
func (l *Log) World() World {
	v := l.View()
	m := v.Meta()
	w := World{Issued: [5]uint64{
		uint64(m.LastEpoch), uint64(m.LastIncarnation), uint64(m.LastDispatcher), uint64(m.LastChangefeed), uint64(m.LastTable),
	}}
	for d := range v.Dispatchers() {
		w.Dispatchers = append(w.Dispatchers, d)
	}
	for o := range v.Operators() {
		w.Operators = append(w.Operators, o)
	}
	for o := range v.FinishedOperators() {
		w.Finished = append(w.Finished, o)
	}
	for n := range v.Nodes() {
		w.Nodes = append(w.Nodes, n)
	}
	for f := range v.Changefeeds() {
		w.Changefeeds = append(w.Changefeeds, f)
		for t := range v.Tables(f.ID) {
			w.Tables = append(w.Tables, t)
		}
	}
	for s := range v.Servers() {
		w.Servers = append(w.Servers, s)
	}
	return w
}

// Seed makes a changefeed "feed" with the tables t (four spans) and u (one), and the live nodes n1, n2 and n3.
func (l *Log) Seed(tb testing.TB) {
	tb.Helper()
	l.MustApply(tb, &fsm.CreateChangefeed{
		Name: "feed", Source: "wal2json:x", Sink: "sqlite:y", SinkFenced: true,
		Tables: []fsm.TableSpec{{Name: "t", SplitKeys: []string{"b", "c", "d"}}, {Name: "u"}},
	})
	for _, name := range []fsm.NodeName{"n1", "n2", "n3"} {
		l.MustApply(tb, &fsm.RegisterNode{Node: name, LeaseMS: 2000, ClockClass: 1, Protocol: 1})
	}
}

// Run takes a dispatcher to Running on the node.
func (l *Log) Run(tb testing.TB, id fsm.DispatcherID, node fsm.NodeName) {
	tb.Helper()
	l.MustApply(tb, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id, To: node})
	l.Report(tb, id, fsm.ReportRunning)
}

// Report reports the dispatcher's present placement.
func (l *Log) Report(tb testing.TB, id fsm.DispatcherID, what fsm.ReportKind) {
	tb.Helper()
	v := l.View()
	d, ok := v.Dispatcher(id)
	require.True(tb, ok)
	n, ok := v.NodeOf(d.Incarnation)
	require.True(tb, ok)
	l.MustApply(tb, &fsm.ReportPlacements{Node: n.Name, Incarnation: n.Incarnation, Reports: []fsm.PlacementReport{
		{PlacementPosition: fsm.PlacementPosition{Dispatcher: id, Epoch: d.Epoch}, What: what},
	}})
}
