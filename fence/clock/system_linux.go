package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SystemClock reads CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW. The zero value is ready.
type SystemClock struct{}

// System returns the clock of this machine.
func System() SystemClock { return SystemClock{} }

// Class is BootRaw: both clocks are read.
func (SystemClock) Class() Class { return BootRaw }

// Now reads both clocks, one system call each. Boot is read last, so that a suspend between the two calls is in the
// reading already.
func (SystemClock) Now() Reading {
	raw := read(unix.CLOCK_MONOTONIC_RAW)
	return Reading{Boot: read(unix.CLOCK_BOOTTIME), Raw: raw}
}

// read stops the process when the kernel refuses a clock: a process that cannot tell the time can neither hold a lease
// nor wait for one, and stopping is the only answer that is safe on both sides.
func read(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("clock: the kernel refuses to read a clock that leases need: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
