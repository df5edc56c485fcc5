package fsm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigState has n running dispatchers on 100 nodes.
func bigState(b testing.TB, n int) (*State, *uint64) {
	b.Helper()
	s := New()
	index := new(uint64)
	do := func(c Command) Verdict {
		*index++
		v := s.Apply(Entry{Index: *index, Term: 1, Proposals: []Proposal{{Term: 1, Command: c}}})[0]
		if !v.OK() {
			b.Fatal(v.Sentence())
		}
		return v
	}
	do(&BeginTerm{Server: "s1"})
	do(&BeginGeneration{Generation: 7, Cluster: "c", Why: GenerationBootstrap})
	var incs []Incarnation
	for i := range 100 {
		name := NodeName(fmt.Sprintf("n%03d", i))
		incs = append(incs, do(&RegisterNode{Node: name, LeaseMS: 2000, ClockClass: 1, Protocol: 1}).Facts.Incarnation)
	}
	var keys []string
	for i := range n - 1 {
		keys = append(keys, fmt.Sprintf("key%09d", i))
	}
	do(&CreateChangefeed{Name: "f", Source: "a:b", Sink: "c:d", SinkFenced: true, Tables: []TableSpec{{Name: "t", SplitKeys: keys}}})
	for i := range n {
		node := i % 100
		add := do(&AdmitOperator{Op: OpAdd, Dispatcher: DispatcherID(i + 1), To: NodeName(fmt.Sprintf("n%03d", node))})
		do(&ReportPlacements{Node: NodeName(fmt.Sprintf("n%03d", node)), Incarnation: incs[node], Reports: []PlacementReport{{
			PlacementPosition: PlacementPosition{Dispatcher: DispatcherID(i + 1), Epoch: add.Facts.Epoch}, What: ReportRunning,
		}}})
	}
	return s, index
}

// TestADispatcherStaysSmall tells early what bench/apply would tell late: there are a million of them, sixteen to an
// allocation, and allocations come in steps.
func TestADispatcherStaysSmall(t *testing.T) {
	require.LessOrEqual(t, int(reflect.TypeFor[Dispatcher]().Size()), 136)
}

// BenchmarkMove applies the three commands of a whole move of a random dispatcher.
func BenchmarkMove(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s, index := bigState(b, n)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "heapB/dispatcher")
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				id := DispatcherID(rng.IntN(n) + 1)
				row, _ := s.Dispatcher(id)
				from, _ := s.NodeOf(row.Incarnation)
				to := NodeName(fmt.Sprintf("n%03d", rng.IntN(100)))
				if to == from.Name {
					continue
				}
				*index++
				e := Entry{Index: *index, Term: 1, Proposals: []Proposal{{Term: 1, Command: &AdmitOperator{Op: OpMove, Dispatcher: id, FromAny: true, To: to}}}}
				if v := s.Apply(e)[0]; !v.OK() {
					b.Fatal(v.Sentence())
				}
				e.Proposals[0].Command = &ReportPlacements{Node: from.Name, Incarnation: from.Incarnation, Reports: []PlacementReport{{PlacementPosition: PlacementPosition{Dispatcher: id, Epoch: row.Epoch}, What: ReportStopped}}}
				s.Apply(e)
				row, _ = s.Dispatcher(id)
				dest, _ := s.NodeOf(row.Incarnation)
				e.Proposals[0].Command = &ReportPlacements{Node: dest.Name, Incarnation: dest.Incarnation, Reports: []PlacementReport{{PlacementPosition: PlacementPosition{Dispatcher: id, Epoch: row.Epoch}, What: ReportRunning}}}
				s.Apply(e)
			}
		})
	}
}

// BenchmarkView is what a reader costs.
func BenchmarkView(b *testing.B) {
	s, _ := bigState(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.View()
	}
}
