// Package mutants breaks the rules of the state machine on purpose, one at a time, and shows that the tests notice.
//
// A mutant is a text of one file of the state machine and another text in its place. All of them are compiled into one
// test binary (go test -overlay; nothing in the work tree changes), and each process runs with one of them. One of the
// catchers that name the broken rule must fail: a script of fsm/testdata, a test named after a review sequence or a
// field report, a property, or an invariant, wherever it is checked. A state hash, a golden file, a panic or a mere
// difference in how something is printed do not count.
//
// It knows source texts, the output of go test and the names of tests; it must not be imported by anything, and imports
// nothing of the project but the names of the admission table's rows. It has the following invariants: every mutant's
// old text stands in its file exactly once; every row of the admission table, every invariant and every review sequence
// that is the state machine's matter is broken by at least one mutant; every catcher that a mutant names exists; and
// without a mutant all catchers pass.
//
// All of it is tests, so that nothing of it is linked anywhere:
//
//	make mutants                        all of them, and the table of docs/verification.md
//	make mutants MUTANTS=sample         five, the same ones each time; changes no file
//	make mutants MUTANTS=held,reports   those whose id or rule contains one of the words
package mutants
