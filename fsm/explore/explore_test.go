package explore

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole of the large worlds is `make explore`; here each must come to its end, or to this many states.
var statesOfEach = flag.Int("explore.states", 5_000, "states of each world after which a test gives up looking")

func TestNoWorldBreaksARule(t *testing.T) {
	for _, w := range Worlds() {
		t.Run(w.Name, func(t *testing.T) {
			r, err := Explore(t.Context(), Config{World: w, MaxStates: *statesOfEach})
			if err != nil {
				require.ErrorIs(t, err, ErrTooLarge)
			}
			require.Nil(t, r.Found)
			t.Logf("%d states, %d transitions, %d standings, %d real transitions, depth %d, complete %t",
				r.States, r.Transitions, r.Standings, r.Applied, r.Depth, err == nil)
		})
	}
}
