package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

func TestWavesKeepInvariantsAndTheNumberOfDispatchers(t *testing.T) {
	w := newWorld(500, 7)
	w.setPolicy(func(*fsm.Policy) {})
	count := w.state.DispatcherCount()
	kinds := map[fsm.CommandKind]int{}
	for range 5 {
		w.play(3, func(e fsm.Entry) []fsm.Verdict {
			for _, p := range e.Proposals {
				kinds[p.Command.Kind()]++
			}
			return w.state.Apply(e)
		})
		require.NoError(t, w.state.CheckInvariants())
		require.Equal(t, count, w.state.DispatcherCount())
	}
	for d := range w.state.Dispatchers() {
		require.Zero(t, d.Slot, "every story has ended")
	}
	for _, kind := range []fsm.CommandKind{
		fsm.KindAdmitOperator, fsm.KindReportPlacements, fsm.KindCancelOperator, fsm.KindDropTables, fsm.KindAddTables, fsm.KindTick,
	} {
		require.Positive(t, kinds[kind], "%s is part of the mix", kind)
	}
}

func TestEqualSeedsPlayEqualCommands(t *testing.T) {
	a, b := newWorld(400, 3), newWorld(400, 3)
	a.setPolicy(func(*fsm.Policy) {})
	b.setPolicy(func(*fsm.Policy) {})
	for range 2 {
		a.play(1, a.state.Apply)
		b.play(1, b.state.Apply)
	}
	require.Equal(t, a.state.Hash(), b.state.Hash())
	c := newWorld(400, 4)
	require.NotEqual(t, newWorld(400, 3).state.Hash(), c.state.Hash())
}

func TestViewsChangeNothingButTheCost(t *testing.T) {
	a, b := newWorld(400, 3), newWorld(400, 3)
	a.setPolicy(func(*fsm.Policy) {})
	b.setPolicy(func(*fsm.Policy) {})
	without, with := a.allocRound(2, pace{Batch: 1}), b.allocRound(2, pace{Batch: 1, Views: 1})
	require.Equal(t, a.state.Hash(), b.state.Hash())
	require.Equal(t, without.Commands, with.Commands)
	require.Greater(t, with.Allocations, without.Allocations)
}

func TestWarmingFillsThePast(t *testing.T) {
	w := newWorld(300, 1)
	w.warm(20_000)
	p := w.state.Meta().Policy
	finished := 0
	for range w.state.FinishedOperators() {
		finished++
	}
	require.Equal(t, int(p.KeepOperators), finished)
}

func TestBoundsNameWhatIsBroken(t *testing.T) {
	b := fullBounds()
	first := row{dispatchers: 1000, instructions: 1000, nanoseconds: 1000, allocations: 1, heap: heap{Built: 9000, Restored: 9000}}
	last := row{dispatchers: 1_000_000, instructions: 1300, nanoseconds: 3000, allocations: 2, heap: heap{Built: 250, Restored: 250}}
	lines, ok := b.verdicts([]row{first, last})
	require.True(t, ok, "what equals its bound holds: %q", lines)
	require.Len(t, lines, 5)
	for name, spoil := range map[string]func(*row){
		"instructions": func(r *row) { r.instructions = 1301 },
		"time":         func(r *row) { r.nanoseconds = 3001 },
		"allocations":  func(r *row) { r.allocations = 2.01 },
		"built":        func(r *row) { r.heap.Built = 251 },
		"restored":     func(r *row) { r.heap.Restored = 251 },
	} {
		spoilt := last
		spoil(&spoilt)
		lines, ok := b.verdicts([]row{first, spoilt})
		require.False(t, ok, name)
		broken := 0
		for _, line := range lines {
			if bytes.Contains([]byte(line), []byte("BROKEN")) {
				require.Contains(t, line, name)
				broken++
			}
		}
		require.Equal(t, 1, broken, "%s: %q", name, lines)
	}
}

func TestOutsideOfValgrindRequestsDoNothing(t *testing.T) {
	var tool callgrind
	require.False(t, tool.present())
	tool.start()
	tool.toggle()
	tool.stop()
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	for _, args := range [][]string{
		{"-sizes", "1000,1000"}, {"-sizes", "10"}, {"-sizes", "many"}, {"-batch", "0"}, {"-waves", "0"}, {"-rounds", "0"}, {"-history", "0"}, {"-views", "-1"},
	} {
		_, err := parse(args)
		require.Error(t, err, "%q", args)
	}
	o, err := parse([]string{"-short"})
	require.NoError(t, err)
	require.Equal(t, []int{1000, 100_000}, o.sizes)
}
