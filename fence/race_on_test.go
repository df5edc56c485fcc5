//go:build race

package fence_test

// searchShare divides the size of the second of the two searches for overlaps: the race detector slows the model down
// tenfold and finds nothing in it, since a schedule runs in one goroutine.
const searchShare = 4
