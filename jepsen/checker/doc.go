// Package checker decides whether a run kept the promises: from histories, ledgers, sinks and state hashes alone.
//
// It knows what must hold. It shares no code with the product, and none of its functions talks to anything.
//
// Invariants: a check that looked at nothing says so by its count, so that an empty run cannot pass for a clean one.
// Unknown outcomes are never guessed.
package checker
