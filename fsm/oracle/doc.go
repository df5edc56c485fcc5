// Package oracle tests the state machine against a slow, obvious model of its rules.
//
// It knows the rules as the design states them, written a second time with plain maps and slices: no index, no
// copy-on-write, every question answered by looking at everything. It shares with package fsm the public types of commands
// and rows, and no code that decides. It must not know how package fsm decides, and reads its state through the public
// methods alone. The package has nothing but tests.
//
// Invariants of the tests: after every command the verdict and all visible state are those of the model, CheckInvariants
// finds nothing, and the witness, who knows nothing but the log and what can be read, has seen no promise broken that
// needs a memory: epochs, proofs of stops, written events, positions, watermarks.
//
// Read it in this order: model_test.go (what the model keeps, and the envelope of a command), the model_ files (one for
// each subject), compare_test.go, witness_test.go, world_test.go (the random small worlds), oracle_test.go (the
// properties).
package oracle
