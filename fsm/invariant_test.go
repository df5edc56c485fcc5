package fsm

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// planted is a small healthy state in which rules can be broken: nodes n1 and n2; a changefeed whose table t has
// dispatchers 1, running on n1, and 2, stopping on n1 for a Move to n2; its trigger is 3, running on n1. Dispatcher 1
// waits at an open event at 100 of table t, which has been granted to nobody.
func planted(t *testing.T) *State {
	t.Helper()
	s := New()
	index := uint64(0)
	do := func(c Command) Verdict {
		t.Helper()
		index++
		v := s.Apply(Entry{Index: index, Term: 1, Proposals: []Proposal{{Term: 1, Command: c}}})[0]
		require.True(t, v.OK(), v.Sentence())
		return v
	}
	do(&BeginTerm{Server: "s1"})
	do(&BeginGeneration{Generation: 7, Cluster: "c", Why: GenerationBootstrap})
	n1 := do(&RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1}).Facts.Incarnation
	do(&RegisterNode{Node: "n2", LeaseMS: 2000, ClockClass: 1, Protocol: 1})
	do(&CreateChangefeed{Name: "f", Source: "a:b", Sink: "c:d", SinkFenced: true, Start: At(10), Tables: []TableSpec{{Name: "t", SplitKeys: []string{"m"}}}})
	for d := DispatcherID(1); d <= 3; d++ {
		epoch := do(&AdmitOperator{Op: OpAdd, Dispatcher: d, To: "n1"}).Facts.Epoch
		do(&ReportPlacements{Node: "n1", Incarnation: n1, Reports: []PlacementReport{{
			PlacementPosition: PlacementPosition{Dispatcher: d, Epoch: epoch}, What: ReportRunning,
		}}})
	}
	feed, _ := s.Changefeed("f")
	row, _ := s.Dispatcher(1)
	do(&ReportBarrier{Node: "n1", Incarnation: n1, Reports: []BarrierReport{{
		Key: BarrierKey{feed.ID, feed.Run, Position{100, StageDDL}}, What: SaidWaiting, Pairs: []Pair{{1, row.Epoch}},
		Spec: BarrierSpec{Influence: InfluenceTables, Tables: []TableRef{{Name: "t"}}, Statement: "alter"},
	}}})
	do(&AdmitOperator{Op: OpMove, Dispatcher: 2, From: "n1", To: "n2"})
	require.NoError(t, s.CheckInvariants())
	return s
}

// change stores a dispatcher that has been changed by f.
func change(s *State, id DispatcherID, f func(row *Dispatcher)) {
	row, _ := s.Dispatcher(id)
	f(&row)
	s.setDispatcher(row)
}

func changeFeed(s *State, f func(feed *Changefeed)) {
	feed, _ := s.Changefeed("f")
	f(&feed)
	s.setChangefeed(feed)
}

func changeEvent(s *State, f func(b *Barrier)) {
	for b := range s.barriers.all() {
		f(&b)
		s.setBarrier(b)
		return
	}
}

// violations breaks each rule in each way that CheckInvariants looks for.
func violations() map[string]map[string]func(s *State) {
	return map[string]map[string]func(s *State){
		"one placement per dispatcher": {
			"absent with an epoch": func(s *State) { change(s, 1, func(d *Dispatcher) { d.Phase = Absent }) },
			"one epoch twice": func(s *State) {
				other, _ := s.Dispatcher(2)
				change(s, 1, func(d *Dispatcher) { d.Epoch = other.Epoch })
			},
		},
		"ended incarnations own nothing": {
			"expired": func(s *State) {
				n, _ := s.Node("n1")
				n.Status = NodeStatusExpired
				s.setNode(n)
			},
			"never registered": func(s *State) { change(s, 1, func(d *Dispatcher) { d.Incarnation += 9 }) },
		},
		"no start while a removal holds the range": {
			"held by the neighbour": func(s *State) {
				change(s, 2, func(d *Dispatcher) { d.Span.Start = "" })
				row, _ := s.Dispatcher(2)
				s.removals.add(s.heldRange(row))
			},
		},
		"running operators are those in slots": {
			"stopping without one":   func(s *State) { change(s, 2, func(d *Dispatcher) { d.Slot = 0 }) },
			"another's":              func(s *State) { change(s, 1, func(d *Dispatcher) { d.Slot = 1 << 40 }) },
			"in a phase without it":  func(s *State) { change(s, 2, func(d *Dispatcher) { d.Phase = Running }) },
			"an operator in no slot": func(s *State) { s.setOperator(Operator{ID: 5, Kind: OpAdd, Dispatcher: 1}) },
			"an operator that is over": func(s *State) {
				for op := range s.operators.all() {
					op.Result = OpDone
					s.setOperator(op)
				}
			},
			"leaving without a removal": func(s *State) { change(s, 2, func(d *Dispatcher) { d.Leaving = true }) },
		},
		"spans of a table never overlap": {
			"a neighbour":      func(s *State) { change(s, 1, func(d *Dispatcher) { d.Span.End = "n" }) },
			"an empty one":     func(s *State) { change(s, 2, func(d *Dispatcher) { d.Span.End = "a" }) },
			"another start":    func(s *State) { change(s, 2, func(d *Dispatcher) { d.Span.Start = "n" }) },
			"one left out":     func(s *State) { row, _ := s.Dispatcher(2); s.spans.del(row) },
			"one of no table":  func(s *State) { s.spans.add(Dispatcher{ID: 9, Table: 9}) },
			"of another table": func(s *State) { change(s, 2, func(d *Dispatcher) { d.Table = 2 }) },
		},
		"no orphans": {
			"a table without its changefeed": func(s *State) { s.setTable(Table{ID: 9, Changefeed: 9}) },
			"an event of another run":        func(s *State) { changeFeed(s, func(f *Changefeed) { f.Run++ }) },
		},
		"a removed changefeed drops every table": {
			"one is left": func(s *State) { changeFeed(s, func(f *Changefeed) { f.Status = ChangefeedIsRemoving }) },
		},
		"after a drop nothing is started": {
			"a Move goes on": func(s *State) {
				table, _ := s.Table(1)
				table.Dropping = true
				s.setTable(table)
			},
		},
		"a paused changefeed runs nothing": {
			"paused": func(s *State) { changeFeed(s, func(f *Changefeed) { f.Status = ChangefeedIsPaused }) },
			"failed": func(s *State) { changeFeed(s, func(f *Changefeed) { f.Status = ChangefeedIsFailed }) },
		},
		"numbers are issued before they are used": {
			"an epoch":       func(s *State) { change(s, 1, func(d *Dispatcher) { d.Epoch += 1 << 40 }) },
			"an incarnation": func(s *State) { s.meta.LastIncarnation-- },
			"a tick":         func(s *State) { s.meta.Index = 1 },
			"a dispatcher":   func(s *State) { s.meta.LastDispatcher = 1 },
			"a changefeed":   func(s *State) { s.meta.LastChangefeed = 0 },
		},
		"indexes equal a recomputation": {
			"one too many": func(s *State) { s.placed.add(1, 1) },
			"one too few": func(s *State) {
				row, _ := s.Dispatcher(1)
				s.placed.del(uint64(row.Incarnation), 1)
			},
			"another one": func(s *State) {
				n, _ := s.Node("n1")
				s.nodeOf.set(n.Incarnation, "n2")
			},
		},
		"the state hash covers every row": {
			"a row": func(s *State) { s.hash.sum.A++ },
		},
		"a permission ends with its holder": {
			"nobody": func(s *State) {
				changeEvent(s, func(b *Barrier) { b.Status, b.Writer = BarrierInWriting, 99 })
			},
			"another placement": func(s *State) {
				changeEvent(s, func(b *Barrier) { b.Status, b.Writer, b.WriterEpoch = BarrierInWriting, 1, 1 })
			},
		},
		"a permission needs everybody at the event": {
			"one is behind": func(s *State) {
				row, _ := s.Dispatcher(1)
				changeEvent(s, func(b *Barrier) { b.Status, b.Writer, b.WriterEpoch = BarrierInWriting, 1, row.Epoch })
			},
		},
		"nobody passes before the event is written": {
			"without a result": func(s *State) { changeEvent(s, func(b *Barrier) { b.Status = BarrierPassing }) },
		},
		"barriers end": {
			"everybody has passed": func(s *State) {
				changeEvent(s, func(b *Barrier) { b.Status, b.Result = BarrierPassing, BarrierWritten })
				for _, id := range []DispatcherID{1, 2} {
					change(s, id, func(d *Dispatcher) { d.Position = At(100) })
				}
			},
			"nobody is left": func(s *State) {
				for _, id := range []DispatcherID{1, 2} {
					change(s, id, func(d *Dispatcher) { d.Leaving = true })
				}
			},
			"ended and open": func(s *State) { changeEvent(s, func(b *Barrier) { b.Status = BarrierEnded }) },
		},
		"events are written in order": {
			"two at once": func(s *State) {
				changeEvent(s, func(b *Barrier) { b.TriggerSaid = true })
				changeEvent(s, func(b *Barrier) { b.Key.At.TS++ })
			},
		},
		"the watermark waits for open barriers": {
			"past it": func(s *State) { changeFeed(s, func(f *Changefeed) { f.Watermark = At(100) }) },
		},
		"a start is not below the watermark": {
			"below it": func(s *State) {
				changeFeed(s, func(f *Changefeed) { f.Watermark = At(50) })
				change(s, 2, func(d *Dispatcher) { d.Phase = Starting })
			},
		},
	}
}

// TestEveryInvariantCanBeBroken breaks each rule in each way that CheckInvariants looks for, and sees it reported under
// its name.
func TestEveryInvariantCanBeBroken(t *testing.T) {
	for rule, ways := range violations() {
		for way, spoil := range ways {
			t.Run(rule+": "+way, func(t *testing.T) {
				s := planted(t)
				spoil(s)
				s.sealMeta()
				err := s.CheckInvariants()
				require.ErrorIs(t, err, ErrInvariant)
				require.ErrorContains(t, err, "invariant violated: "+rule+": ")
			})
		}
	}
}

// TestEveryInvariantIsInTheList fails on an invariant that is added and never seen to be broken.
func TestEveryInvariantIsInTheList(t *testing.T) {
	source, err := os.ReadFile("invariant.go")
	require.NoError(t, err)
	rules := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:violated\(|const rule = )"([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		rules[m[1]] = true
		require.Contains(t, violations(), m[1])
	}
	require.Len(t, violations(), len(rules))
}
