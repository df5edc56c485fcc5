// Package cli is the command line: what can be asked, how the answer is printed, and with which code the process ends.
//
// It knows flags, the control plane through package plane, and the programs that other packages wire up. It must not
// know rules: whether something is allowed is for the state machine to say, and the sentence that says so is printed as
// it comes.
//
// What always holds: exactly one sentence says why a command did not do what it was asked, on standard error; the exit
// code tells the class of that (see [Code]); with -o json standard output is one JSON document and nothing else; without
// a terminal every output is plain lines.
package cli
