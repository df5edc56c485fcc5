// Package workload asks for changes to who owns what, from many clients at once, and feeds the logs meanwhile.
//
// It knows what it asks for. Whether the answers are right is not its business.
//
// Invariants: what it asks for follows from the seed and from what the cluster showed it, so that a rerun asks alike
// though not the same. A request that is sent twice carries the same id and body both times.
package workload
