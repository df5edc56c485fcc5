// Package raftnodetest builds clusters of raftnode servers in memory, for tests of any package.
//
// It knows an in-memory network that can be cut, delayed and cut in one direction, and stores that outlive a crash. It
// works inside a testing/synctest bubble, where every timeout of Raft is fake time. It must not be imported by the
// product. Every wait is bounded; a wait that does not end fails the test.
//
// The library's in-memory transport knows neither connections nor disks: faults of both must be tested over real TCP and
// files too.
package raftnodetest
