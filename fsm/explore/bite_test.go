package explore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm/scenario"
)

// A search that finds nothing proves something only if it finds what is there. Each duty of nodes that can be left out is
// left out here, in a world where it matters, and a way must come out that ends in a broken rule.
func TestReview_DutiesOfNodesThatAreLeftOutAreFound(t *testing.T) {
	if raceDetector {
		t.Skip("these searches run without the race detector, in make explore-short: with it they take many minutes")
	}
	for _, c := range []struct {
		name  string
		world func() *World
		rules NodeRules
		rule  string
	}{
		{"R01 forgets when it reports", smallWorld, NodeRules{ForgetsOnReport: true}, "one writer per key"},
		{"R01 forgets the mark", smallWorld, NodeRules{ForgetsMark: true}, "one writer per key"},
		{"R02 ack of a tick that refused", leaseWorld, NodeRules{AckRefused: true}, "one writer per key"},
		{"expired before it has paused", leaseWorld, NodeRules{LateFence: true}, "one writer per key"},
		{"R15 forgets the event when it has spoken", smallEventWorld, NodeRules{ForgetsEvent: true}, "what was begun can end"},
		{"R17 waiting counts as past", syncWorld, NodeRules{WaitsBeyond: true}, "what is up to the watermark is downstream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world()
			w.Node = c.rules
			r, err := Explore(t.Context(), Config{World: w, MaxStates: 2_000_000})
			require.NoError(t, err)
			require.NotNil(t, r.Found)
			require.ErrorIs(t, r.Found.Err, ErrRule)
			require.ErrorContains(t, r.Found.Err, c.rule)
			plays(t, r.Found)
		})
	}
}

// plays runs a counter-example's script as people would, and returns what it prints.
func plays(t *testing.T, found *Counterexample) string {
	t.Helper()
	played, err := scenario.Run(strings.NewReader(found.Script), "found", scenario.Options{})
	require.NoError(t, err, "%s", found.Script)
	require.Empty(t, played.Mismatches)
	t.Logf("%v, %d steps\n%s", found.Err, found.Steps, played.Script)
	return played.Script
}

// The same without anything left out: the small worlds in which the duties above matter are whole.
func TestSmallWorldsAreSound(t *testing.T) {
	if raceDetector {
		t.Skip("these searches run without the race detector, in make explore-short: with it they take many minutes")
	}
	for _, w := range []*World{smallWorld(), smallEventWorld()} {
		t.Run(w.Name, func(t *testing.T) {
			r, err := Explore(t.Context(), Config{World: w, MaxStates: 2_000_000})
			require.NoError(t, err)
			require.Nil(t, r.Found)
			t.Logf("%d states, %d transitions", r.States, r.Transitions)
		})
	}
}

func smallWorld() *World {
	w := moveWorld()
	w.Name, w.Bounds, w.Losses = "small", "one dispatcher, 2 nodes; additions", false
	w.First[0].SplitKeys = nil
	w.Asks = []kind{doAdd}
	return w
}

func smallEventWorld() *World {
	w := eventWorld()
	w.Name, w.Bounds, w.Nodes, w.Losses = "small event", "one dispatcher, one node; a schema change", 1, false
	w.First[0].SplitKeys = nil
	w.Asks = []kind{doAdd}
	return w
}
