// Package dev runs a whole system on one machine: servers and agents as child processes, a supervisor for the agents,
// and a demo that moves work, kills owners and leaders, and compares the replica with its upstream.
//
// It knows processes, folders, ports and what the public API tells. It must not know rules: everything that it says of
// the cluster it has asked for, and everything that it concludes about safety it reads from what the sink recorded.
//
// What always holds: no child outlives this process, however it ends (children stop when the pipe on their standard
// input closes, and on Linux the kernel kills them with their parent); nothing that this process did not start is ever
// signalled; the demo's verdict is "right" only if the replica equals the upstream, every planned fault really happened,
// and no write of an old owner came after one of the next.
package dev
