//go:build !race

package fence_test

// searchShare divides the size of the second of the two searches for overlaps.
const searchShare = 1
