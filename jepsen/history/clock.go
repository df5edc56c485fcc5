package history

import "golang.org/x/sys/unix"

// Now reads CLOCK_BOOTTIME in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("read CLOCK_BOOTTIME: " + err.Error()) // the kernel has had it since 2011
	}
	return ts.Nano()
}
