// Package history keeps what clients asked of a cluster and what they were told, as lines of JSON.
//
// It knows operations, their outcomes and the clock. It knows nothing of how they were sent or what they should have
// answered.
//
// Invariants: all times are CLOCK_BOOTTIME in nanoseconds, one clock for every process of a machine. An operation of
// unknown outcome has no end of its own: it may take effect at any later time. Nothing unknown is ever called refused.
package history
