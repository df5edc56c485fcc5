package scheduler

import (
	"errors"
	"fmt"
)

// Limits bound one plan and say which policies are on.
type Limits struct {
	// Round is the most commands that one plan proposes.
	Round int
	// Scan is the most dispatchers that each policy of a plan looks at.
	Scan int
	// Spread is the most rows that one plan reads to see how tables are spread. A table that does not fit is spread by
	// the nodes' load alone.
	Spread int
	// Operators is the most running operators that one plan looks at. While more run, nothing is moved, split or merged;
	// the oldest are seen to in any case.
	Operators int
	// InFlight is the most starts that a node may have under way.
	InFlight int
	// BackoffMS is the wait after a dispatcher's first failure, in state-machine time; it doubles with each further one up
	// to MaxBackoffMS.
	BackoffMS, MaxBackoffMS uint64

	// CooldownMS is how long a placement must have been running before it is moved for balance, split or merged; JoinMS how
	// long a node must have been registered before balance gives it work. State-machine time.
	CooldownMS, JoinMS uint64
	// BalanceMoves is the most moves that may run while balance adds to them; zero turns balance off.
	BalanceMoves int
	// Counts are uneven when the fullest and the emptiest node are further apart than BalanceSlack dispatchers and than
	// BalancePercent of the mean.
	BalanceSlack, BalancePercent uint64
	// Rates are uneven when the busiest and the idlest node are further apart than LoadSlack rows a second and than
	// LoadPercent of the mean; a zero LoadSlack leaves rates alone. After a move they must settle for LoadSettleMS.
	LoadSlack, LoadPercent, LoadSettleMS uint64

	// SplitRate is the rate, in rows a second, from which a dispatcher is split; zero turns splitting off. SplitAtOnce is
	// the most splits that run together.
	SplitRate   uint64
	SplitAtOnce int
	// MergeAtOnce is the most merges that run together; zero turns merging off. Up to MergeSources neighbours are joined
	// that together write no more than MergeRate rows a second.
	MergeAtOnce, MergeSources int
	MergeRate                 uint64
}

// DefaultLimits places about five thousand dispatchers a second at five plans a second, repairs, drains and balances, and
// neither splits nor merges.
func DefaultLimits() Limits {
	return Limits{
		Round:          1_024,
		Scan:           8_192,
		Spread:         16_384,
		Operators:      16_384,
		InFlight:       256,
		BackoffMS:      500,
		MaxBackoffMS:   30_000,
		CooldownMS:     30_000,
		JoinMS:         10_000,
		BalanceMoves:   16,
		BalanceSlack:   2,
		BalancePercent: 10,
		LoadSlack:      5_000,
		LoadPercent:    25,
		LoadSettleMS:   15_000,
		SplitAtOnce:    4,
		MergeSources:   8,
	}
}

// splitOverMerge keeps what has been merged from being split at once: a split begins at no less than this many times the
// rate up to which neighbours are merged.
const splitOverMerge = 4

// Validate returns an error that names every limit under which nothing would ever be placed, or policies would undo each
// other's work.
func (l Limits) Validate() error {
	var errs []error
	for _, p := range []struct {
		name string
		n    int
	}{{"Round", l.Round}, {"Scan", l.Scan}, {"InFlight", l.InFlight}} {
		if p.n < 1 {
			errs = append(errs, fmt.Errorf("scheduler limit %s is %d; set it to 1 or more, or nothing is ever placed", p.name, p.n))
		}
	}
	if l.MaxBackoffMS < l.BackoffMS {
		errs = append(errs, fmt.Errorf("scheduler limit MaxBackoffMS is %d, below BackoffMS %d; set it to %d or more",
			l.MaxBackoffMS, l.BackoffMS, l.BackoffMS))
	}
	if l.BalanceMoves > 0 && l.BalanceSlack < 1 {
		errs = append(errs, errors.New("scheduler limit BalanceSlack is 0; set it to 1 or more, or balance moves for ever"))
	}
	if l.MergeAtOnce > 0 && l.MergeSources < 2 {
		errs = append(errs, fmt.Errorf("scheduler limit MergeSources is %d; set it to 2 or more, or MergeAtOnce to 0", l.MergeSources))
	}
	if l.MergeAtOnce > 0 && l.SplitRate > 0 && l.SplitRate < splitOverMerge*l.MergeRate {
		errs = append(errs, fmt.Errorf("scheduler limit SplitRate is %d, below %d times MergeRate %d: what is merged would be "+
			"split again; set it to %d or more", l.SplitRate, splitOverMerge, l.MergeRate, splitOverMerge*l.MergeRate))
	}
	return errors.Join(errs...)
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
