// Package clock reads the clocks that leases are measured with.
//
// It knows how to read two clocks of one machine, how to compare two readings, how far such clocks may drift, and how to
// make timers. It must not know what a lease is, and nothing here compares readings of two processes: the origin of a
// reading is arbitrary and is good for differences inside one process only.
//
// Why two clocks. CLOCK_BOOTTIME counts the time that the machine is suspended, but is slewed by time daemons;
// CLOCK_MONOTONIC_RAW is not slewed, but skips a suspend. Whoever must stop in time takes the larger elapsed time
// ([MaxElapsed], the node that holds a lease); whoever must wait long enough takes the smaller ([MinElapsed], the server
// that waits a lease out). What is left is the error of the crystal, bounded by [Class.Drift].
//
// Not covered by any clock here: a virtual machine that is paused together with its clock. See [Skewed] for how tests
// produce it.
//
// Invariants:
//   - neither component of a [System] reading ever decreases within a process;
//   - all arithmetic is on integers; a product that may overflow is computed in 128 bits.
//
// This package, commands and tests are the only places that may ask package time for the time or for timers; all others
// take a [Clock] and [Timers].
package clock
