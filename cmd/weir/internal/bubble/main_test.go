package bubble

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The counts; the defaults suit every run of all tests, the full ones are those of `make admit-race`.
var (
	seedFlag  = flag.Uint64("bubble.seed", 0, "seed of the random tests; 0: one is drawn")
	racesFlag = flag.Int("bubble.races", 40, "races of TestField_B01_TwoRacingAdmissions")
	lostFlag  = flag.Int("bubble.lost", 12, "in how many of them the leader must be lost between the two applies")
	leaseFlag = flag.Int("bubble.leases", 2, "seeds of each lease test")
	seedsFlag = flag.Int("bubble.seeds", 8, "seeds of the test of random schedules")
	timeFlag  = flag.Duration("bubble.time", 20*time.Second, "fake time that each random schedule goes on for before it heals")
	logFlag   = flag.String("bubble.log", "", "level at which the parts log; empty: not at all")
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// seed is the seed of this run. It is drawn outside of bubbles, where every clock starts at the same instant.
func seed(t *testing.T) uint64 {
	t.Helper()
	if *seedFlag != 0 {
		return *seedFlag
	}
	return uint64(time.Now().UnixNano()) & 0xffff_ffff
}
