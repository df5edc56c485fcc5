package main

// clientRequest asks Valgrind for something, and returns 0 where there is no Valgrind.
//
//go:noescape
func clientRequest(args *[6]uint64) uint64
