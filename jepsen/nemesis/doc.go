// Package nemesis kills processes at moments that matter, and restarts them.
//
// It knows what is in flight by the history and by the agents' ledgers, and logs each fault with its times.
//
// Invariants: a kill that hit nothing in flight is logged and does not count. At most one server is down at a time.
package nemesis
