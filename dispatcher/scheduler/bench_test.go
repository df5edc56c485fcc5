package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// A plan must cost the same whether there are few or many dispatchers.
func BenchmarkPlace(b *testing.B) {
	for _, spans := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("absent=%d", spans), func(b *testing.B) {
			w := newWorld(b)
			for i := range 10 {
				w.node(fmt.Sprintf("n%d", i))
			}
			const each = 1_000
			for i := range spans / each {
				w.feed(fmt.Sprintf("f%d", i), each)
			}
			in := scheduler.Input{View: w.s.View(), Limits: scheduler.DefaultLimits()}
			b.ReportAllocs()
			for b.Loop() {
				if n := len(scheduler.Make(in).Proposals); n == 0 || n > in.Limits.Round {
					b.Fatalf("planned %d", n)
				}
			}
		})
	}
}

// Nothing can be placed, and the cursor stands in the middle: what a plan costs at worst.
func BenchmarkPlaceFromTheMiddle(b *testing.B) {
	w := newWorld(b)
	w.node("n1")
	w.feed("f", 100_000)
	in := scheduler.Input{
		View: w.s.View(), Limits: scheduler.DefaultLimits(), From: scheduler.Cursor{Changefeed: 1, Dispatcher: 50_000},
		Skip: func(fsm.Dispatcher) bool { return true },
	}
	for b.Loop() {
		if n := len(scheduler.Make(in).Proposals); n != 0 {
			b.Fatalf("planned %d", n)
		}
	}
}

// Everything runs and nothing is to be done; then one node is drained. A round must not cost more for more dispatchers.
func BenchmarkRunning(b *testing.B) {
	for _, spans := range []int{1_000, 10_000, 100_000} {
		w := newWorld(b)
		const nodes = 10
		for i := range nodes {
			w.node(fmt.Sprintf("n%d", i))
		}
		w.policy(func(p *fsm.Policy) { p.MaxPlacementsPerNode = 1_000_000 })
		const each = 1_000
		next := 0
		for i := range spans / each {
			w.feed(fmt.Sprintf("f%d", i), each)
			for range each + 1 {
				next++
				w.run(fmt.Sprintf("n%d", next%nodes), fsm.DispatcherID(next))
			}
		}
		w.cool()
		rates := map[fsm.DispatcherID]uint64{1: 10, 2: 20}
		in := scheduler.Input{View: w.s.View(), Limits: scheduler.DefaultLimits(), Loads: w.rates(rates)}
		in.Limits.MergeAtOnce = 4
		b.Run(fmt.Sprintf("calm/dispatchers=%d", spans), func(b *testing.B) {
			for b.Loop() {
				if n := len(scheduler.Make(in).Proposals); n != 0 {
					b.Fatalf("planned %d", n)
				}
			}
		})
		w.must(&fsm.StartDrain{Node: "n3"})
		in.View = w.s.View()
		b.Run(fmt.Sprintf("drain/dispatchers=%d", spans), func(b *testing.B) {
			for b.Loop() {
				if n := len(scheduler.Make(in).Proposals); n == 0 {
					b.Fatal("nothing planned")
				}
			}
		})
	}
}
