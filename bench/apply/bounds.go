package main

import "fmt"

// bounds says what the state machine is held to. Ratios compare the largest size with the smallest.
type bounds struct {
	instructions float64 // ratio
	time         float64 // ratio; 0: not held to
	allocations  float64 // per command, at the largest size
	heap         float64 // bytes a dispatcher, at the largest size
}

func fullBounds() bounds { return bounds{instructions: 1.3, time: 3, allocations: 2, heap: 250} }

// shortBounds are for a machine that does other things meanwhile: no times.
func shortBounds() bounds { return bounds{instructions: 1.3, allocations: 2, heap: 250} }

// row is what was measured at one size. Numbers are per command, heap per dispatcher.
type row struct {
	dispatchers  int
	nanoseconds  float64 // median of the rounds
	spread       float64 // (slowest - fastest) / median of the rounds
	allocations  float64
	bytes        float64
	instructions float64
	heap         heap
}

// verdicts compares the rows with the bounds: a line for each, and whether all hold.
func (b bounds) verdicts(rows []row) (lines []string, ok bool) {
	first, last := rows[0], rows[len(rows)-1]
	ok = true
	check := func(what string, have, bound float64) {
		word := "holds"
		if have > bound {
			word, ok = "BROKEN", false
		}
		lines = append(lines, fmt.Sprintf("%-52s %8.2f  <= %6.2f  %s", what, have, bound, word))
	}
	span := fmt.Sprintf("from %d to %d dispatchers", first.dispatchers, last.dispatchers)
	check("instructions, "+span, last.instructions/first.instructions, b.instructions)
	if b.time > 0 {
		check("time, "+span, last.nanoseconds/first.nanoseconds, b.time)
	}
	check(fmt.Sprintf("allocations a command at %d", last.dispatchers), last.allocations, b.allocations)
	check(fmt.Sprintf("heap bytes a dispatcher at %d, built", last.dispatchers), last.heap.Built, b.heap)
	check(fmt.Sprintf("heap bytes a dispatcher at %d, restored", last.dispatchers), last.heap.Restored, b.heap)
	return lines, ok
}
