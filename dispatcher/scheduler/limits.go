package scheduler

import (
	"fmt"
)

// Limits bound one plan.
type Limits struct {
	// Round is the most commands that one plan proposes.
	Round int
	// Scan is the most absent dispatchers that one plan looks at.
	Scan int
	// Spread is the most rows that one plan reads to see how tables are spread. A table that does not fit is spread by
	// the nodes' load alone.
	Spread int
	// InFlight is the most starts that a node may have under way.
	InFlight int
	// BackoffMS is the wait after a dispatcher's first failure, in state-machine time; it doubles with each further one up
	// to MaxBackoffMS.
	BackoffMS, MaxBackoffMS uint64
}

// DefaultLimits places about five thousand dispatchers a second at five plans a second.
func DefaultLimits() Limits {
	return Limits{
		Round:        1_024,
		Scan:         8_192,
		Spread:       16_384,
		InFlight:     256,
		BackoffMS:    500,
		MaxBackoffMS: 30_000,
	}
}

// Validate returns an error that names the first limit under which nothing would ever be placed.
func (l Limits) Validate() error {
	for _, p := range []struct {
		name string
		n    int
	}{{"Round", l.Round}, {"Scan", l.Scan}, {"InFlight", l.InFlight}} {
		if p.n < 1 {
			return fmt.Errorf("scheduler limit %s is %d; set it to 1 or more, or nothing is ever placed", p.name, p.n)
		}
	}
	if l.MaxBackoffMS < l.BackoffMS {
		return fmt.Errorf("scheduler limit MaxBackoffMS is %d, below BackoffMS %d; set it to %d or more",
			l.MaxBackoffMS, l.BackoffMS, l.BackoffMS)
	}
	return nil
}

// backoff is the wait after so many failures.
func (l Limits) backoff(failures uint32) uint64 {
	if failures == 0 {
		return 0
	}
	wait := l.BackoffMS
	for range failures - 1 {
		if wait >= l.MaxBackoffMS {
			break
		}
		wait *= 2
	}
	return min(wait, l.MaxBackoffMS)
}
