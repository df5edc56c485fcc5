package fence_test

import (
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// searchSize is how many schedules each rule set is tried on.
const searchSize = 20_000

func searchSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FENCE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "FENCE_SEED is a number")
		seed = n
	}
	t.Logf("rerun: FENCE_SEED=%d go test ./fence -run '^%s$' -count=1 -v", seed, t.Name())
	return seed
}

// The protocol itself, with good and with slewed clocks: no schedule lets a write start after the expiry has been applied
// anywhere, and no healthy clock is taken for a stalled one.
func TestRandomSchedulesNeverOverlap(t *testing.T) {
	t.Parallel()
	seed := searchSeed(t)
	t.Run("boot and raw clocks", func(t *testing.T) {
		t.Parallel()
		searchForOverlap(t, seed, searchSize, variant{})
	})
	t.Run("slewed clocks", func(t *testing.T) {
		t.Parallel()
		searchForOverlap(t, seed, searchSize/searchShare, variant{slewed: true})
	})
}

func searchForOverlap(t *testing.T, seed uint64, size int, v variant) {
	t.Helper()
	var expired, changes, acks int
	worst := time.Duration(math.MaxInt64)
	for i := range uint64(size) {
		o := runSchedule(seed+i, v)
		require.Zerof(t, o.stalls, "schedule %d: a healthy clock counted as stalled", seed+i)
		changes += o.changes
		acks += o.acks
		if !o.expired {
			continue
		}
		expired++
		require.Positivef(t, o.margin, "schedule %d: a write could start %v after the expiry", seed+i, -o.margin)
		worst = min(worst, o.margin)
	}
	t.Logf("%d schedules, %d expiries, %d leader changes, %d acks that counted, 0 overlaps, worst margin %v",
		size, expired, changes, acks, worst)
	require.Greater(t, expired, size/2, "too few schedules reach an expiry to mean anything")
	require.Greater(t, changes, size/2, "too few leader changes to mean anything")
	require.Less(t, worst, 50*time.Millisecond, "no schedule comes close: the search is too tame")
}

// Each rule left out has a schedule that breaks it: the search is able to see what it looks for.
func TestRandomSchedulesKillMutants(t *testing.T) {
	t.Parallel()
	seed := searchSeed(t)
	for name, v := range map[string]variant{
		"slewed clock registered as good":  {misdeclared: true},
		"deadline from receipt":            {fromReceipt: true},
		"ack before commit":                {ackBeforeCommit: true},
		"wait from election":               {waitFromElection: true},
		"ack by index alone":               {ackByIndex: true},
		"no compare at expiry":             {noCompare: true},
		"ack of heartbeats after capture":  {ackAllHeard: true},
		"ack although the tick refused":    {ignoreVerdict: true},
		"append time of overwritten stays": {keepFirstAppend: true},
	} {
		t.Run(name, func(t *testing.T) {
			tried, overlaps, worst := 0, 0, time.Duration(0)
			for i := range uint64(searchSize) {
				tried++
				if o := runSchedule(seed+i, v); o.expired && o.margin <= 0 {
					overlaps++
					worst = min(worst, o.margin)
				}
				if overlaps == 3 {
					break
				}
			}
			t.Logf("%d overlaps in %d schedules, worst %v", overlaps, tried, -worst)
			require.Positive(t, overlaps, "the mutant survives %d schedules", tried)
		})
	}
}
