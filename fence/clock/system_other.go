//go:build !linux

package clock

import "time"

// SystemClock reads the plain monotonic clock of package time for both components.
type SystemClock struct{ start time.Time }

// System returns the clock of this machine. Its origin is the moment of the call: readings of two values of SystemClock
// must not be mixed.
func System() SystemClock { return SystemClock{start: time.Now()} }

// Class is Monotonic: one clock that may be slewed and may skip a suspend.
func (SystemClock) Class() Class { return Monotonic }

// Now reads the monotonic clock.
func (c SystemClock) Now() Reading {
	d := time.Since(c.start)
	return Reading{Boot: d, Raw: d}
}
