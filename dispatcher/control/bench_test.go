package control

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// What one look at a node costs when the state has moved on, by the number of orders that it has not carried out: all of
// them sent a moment ago, or none of them sent yet.
func BenchmarkDerive(b *testing.B) {
	for _, pending := range []int{10, 1_000, 100_000} {
		view, inc := backlog(b, pending)
		for _, sent := range []bool{true, false} {
			b.Run(fmt.Sprintf("pending=%d/sent=%t", pending, sent), func(b *testing.B) {
				now := clock.Reading{Boot: 1, Raw: 1}
				g := outgoing{sent: map[orderKey]mark{}, strays: map[session.Pair]struct{}{}}
				for sent {
					g.batch, g.dirty = nil, true
					if g.derive(view, inc, now) == 0 {
						break
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					g.dirty = true
					g.derive(view, inc, now)
				}
			})
		}
	}
}

func backlog(b *testing.B, n int) (*fsm.View, fsm.Incarnation) {
	b.Helper()
	l := newFakeLog(&clock.Manual{})
	l.do(&fsm.Tick{})
	inc := l.do(&fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1}).Facts.Incarnation
	for first := fsm.DispatcherID(1); int(first) <= n; first += 10_000 {
		v := l.do(&fsm.CreateChangefeed{
			Name: fmt.Sprintf("f%d", first), Source: "file:x", Sink: fmt.Sprintf("sink:%d", first), SinkFenced: true,
			Tables: []fsm.TableSpec{splitTable(min(n, 10_000))},
		})
		if !v.OK() {
			b.Fatal(v.Reason, v.Facts.Detail)
		}
	}
	for id := range fsm.DispatcherID(n) {
		if v := l.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id + 1, To: "n1"}); !v.OK() {
			b.Fatal(v.Reason)
		}
	}
	return l.View(), inc
}
