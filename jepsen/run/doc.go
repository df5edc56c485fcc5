// Package run puts clusters, clients, faults and checkers together into the runs that the program offers.
//
// It knows what each run must have done at least. A run that did too little has failed, however clean it was.
//
// Invariants: each run has a folder that holds everything it saw, and ends by printing the seed, what it did, and the one
// line that does it again. Nothing is left running.
package run
