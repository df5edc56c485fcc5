// Package bubble tests whole clusters in one process under fake time: real replicas of raftnode, the real leader's loop,
// the real API over gRPC, real nodes; only the network, the disks, the sources and the sinks are made of memory.
//
// It holds tests alone. A testing/synctest bubble gives every timer fake time, so that seconds of cluster time pass in
// milliseconds and nothing is waited for. It knows the parts and how they are wired, which it takes from serve, so that
// what is tested is what is shipped. It must not be imported by anything.
//
// Every random test prints its seed and how to run it again. The seed fixes what the test does, not how the scheduler of
// Go interleaves goroutines that wake at one instant: a rerun is likely to show the same, not certain to.
package bubble
