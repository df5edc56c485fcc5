package clock

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Reading is one look at both clocks: time since an arbitrary origin that is fixed for the life of the process.
type Reading struct {
	// Boot counts suspend and may be slewed (CLOCK_BOOTTIME).
	Boot time.Duration
	// Raw is never slewed and stands still during suspend (CLOCK_MONOTONIC_RAW).
	Raw time.Duration
}

// Add returns the reading at which both clocks have advanced by d.
func (r Reading) Add(d time.Duration) Reading {
	return Reading{Boot: r.Boot + d, Raw: r.Raw + d}
}

// Regressed reports whether a clock showed less than in the earlier reading, which a sound clock never does.
func (r Reading) Regressed(earlier Reading) bool {
	return r.Boot < earlier.Boot || r.Raw < earlier.Raw
}

// Later takes each clock's later value of the two readings.
func Later(a, b Reading) Reading {
	return Reading{Boot: max(a.Boot, b.Boot), Raw: max(a.Raw, b.Raw)}
}

// Clock reads the clocks. Implementations are safe for concurrent use and do not allocate in Now.
type Clock interface {
	Now() Reading
}

// MaxElapsed is the larger of the two elapsed times: what the holder of a lease counts, so that it stops early rather
// than late.
func MaxElapsed(from, to Reading) time.Duration {
	return max(to.Boot-from.Boot, to.Raw-from.Raw)
}

// MinElapsed is the smaller of the two elapsed times, never below zero: what a server counts that waits for a lease to
// end, so that it waits too long rather than too short.
func MinElapsed(from, to Reading) time.Duration {
	return max(0, min(to.Boot-from.Boot, to.Raw-from.Raw))
}

// PPM is a rate error in parts per million.
type PPM int64

// Million is the denominator of a PPM.
const Million PPM = 1_000_000

// Class says which clocks a process can read, and with it how far they may drift. It is recorded with a node and is
// part of the protocol: numbers never change their meaning.
type Class uint8

const (
	// BootRaw is both CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW: only the crystal errs.
	BootRaw Class = 1
	// Monotonic is a single slewed clock that may stand still during suspend.
	Monotonic Class = 2
)

// WorstDrift is the largest drift of any class. It bounds clocks whose class is not known.
const WorstDrift PPM = 100_000

// Drift bounds the error of the clock's rate against real time. A class that this code does not know has WorstDrift.
func (c Class) Drift() PPM {
	switch c {
	case BootRaw:
		return 1_000
	case Monotonic:
		return WorstDrift
	default:
		return WorstDrift
	}
}

// Valid reports whether the class is one that this code knows.
func (c Class) Valid() bool { return c == BootRaw || c == Monotonic }

// String names the class as it is shown in status output.
func (c Class) String() string {
	switch c {
	case BootRaw:
		return "boot+raw"
	case Monotonic:
		return "monotonic"
	default:
		return fmt.Sprintf("class(%d)", uint8(c))
	}
}

// ClassOf returns the class that the clock states through a Class method, and Monotonic, the worst, when it states none.
func ClassOf(c Clock) Class {
	if s, ok := c.(interface{ Class() Class }); ok {
		return s.Class()
	}
	return Monotonic
}

// ScaleUp returns ceil(d*num/den) without overflow; a result that does not fit is the longest duration. It needs d >= 0,
// num >= 0 and den > 0.
func ScaleUp(d time.Duration, num, den PPM) time.Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(num))
	lo, carry := bits.Add64(lo, uint64(den-1), 0)
	hi += carry
	if hi >= uint64(den) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(den))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(q)
}

// ScaleDown returns floor(d*num/den) without overflow, under the conditions of [ScaleUp].
func ScaleDown(d time.Duration, num, den PPM) time.Duration {
	hi, lo := bits.Mul64(uint64(d), uint64(num))
	if hi >= uint64(den) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(den))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(q)
}
