// Package scenario runs scripts against the state machine: a small text format in which a bug report, a test and an
// explanation are the same file. docs/scenarios.md describes the format for people who write scripts.
//
// It knows the format, how to build each command from words, and how to print verdicts, changes, orders and state. It
// must not know files, clocks, logs or servers: it reads a script and returns text, so that the same script gives the
// same text everywhere. It decides no rule of the system; every verdict comes from package fsm.
//
// Invariants: each command is one log entry (a batch is one entry of several commands); after every entry the state
// machine's own invariants are checked, and a violation ends the script; text that is printed depends on nothing but
// the script and the state machine.
//
// Read it in this order: script.go (blocks of a file), word.go (words of a line), verb.go (the table of verbs), the
// build files (words to commands), runner.go (what running means), then the printing: verdict.go, change.go, show.go.
package scenario
