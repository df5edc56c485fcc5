package fence

import (
	"sync"

	"github.com/weir-project/weir/fence/clock"
)

// RetainedAppends is how many of the newest append times are kept.
const RetainedAppends = 1 << 16

// Appends knows when this server process received each log entry: the time a lease is waited out from. It belongs to the
// process, not to a term: elections do not reset it, so waiting makes progress however often the leader changes.
//
// Each time it gives is the true one or later, never earlier; later only lengthens a wait. All methods are safe for
// concurrent use.
type Appends struct {
	mu sync.Mutex
	// The times of first..last, at slot index mod len; empty while first is zero. Above the floor, times do not decrease
	// with the index.
	ring        []clock.Reading
	first, last uint64
	// known remembers the time once it was asked for, so that it stays although the ring moves on. Per incarnation.
	known map[uint64]knownAppend
	// floor covers the entries up to its index, whatever is noted for them: they were not received one by one.
	floor learnt
}

type knownAppend struct {
	index uint64
	at    clock.Reading
}

type learnt struct {
	index uint64
	at    clock.Reading
}

// NewAppends returns an empty record that keeps RetainedAppends times.
func NewAppends() *Appends { return NewAppendsKeeping(RetainedAppends) }

// NewAppendsKeeping returns an empty record that keeps the times of the newest n entries; n is at least 1. Fewer only
// make waits longer.
func NewAppendsKeeping(n int) *Appends {
	return &Appends{ring: make([]clock.Reading, max(1, n)), known: make(map[uint64]knownAppend)}
}

// NoteAppend notes that the entry at index was received for storing at at. See NoteAppends.
func (a *Appends) NoteAppend(index uint64, at clock.Reading) { a.NoteAppends(index, index, at) }

// NoteAppends notes that the entries first..last were received for storing at at, a reading taken after they were
// received, for instance in the wrapper of the log store before it stores. An index that is stored again gets the new
// time, and everything noted above it is void: those entries have been truncated.
func (a *Appends) NoteAppends(first, last uint64, at clock.Reading) {
	if first == 0 || last < first {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.floor.index = min(a.floor.index, first-1)
	size := uint64(len(a.ring))
	if a.first == 0 || first < a.first || first > a.last+1 {
		a.first = first
	}
	for i := first; i <= last; i++ {
		a.ring[i%size] = at
	}
	a.last = last
	if last-a.first >= size {
		a.first = last - size + 1
	}
}

// Learn notes that at at this server learnt of all entries up to index by other means than storing them: a snapshot was
// installed, or the process started with them in its log. It must be called before the state that contains them can be
// read. Whatever was noted for these entries no longer counts, since it may belong to entries that the snapshot replaced.
func (a *Appends) Learn(index uint64, at clock.Reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.floor = learnt{index: max(index, a.floor.index), at: at}
	for inc, k := range a.known {
		if k.index <= index {
			delete(a.known, inc)
		}
	}
}

// LearnTick returns the time since which the entry at index, the last that named the incarnation, is known to be in this
// server's log, and keeps it until the incarnation is asked about with another index. An entry of which nothing is known
// counts from now. The index must be that of an applied entry.
func (a *Appends) LearnTick(incarnation, index uint64, now clock.Reading) clock.Reading {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.known[incarnation]; ok && k.index == index {
		return k.at
	}
	at := a.time(index, now)
	a.known[incarnation] = knownAppend{index: index, at: at}
	return at
}

// time looks an entry up. Below the oldest retained entry its time stands in: it was received after the entry asked for
// had been written. Above the newest nothing is known.
func (a *Appends) time(index uint64, now clock.Reading) clock.Reading {
	switch {
	case index == 0:
		return now // no entry has this index
	case index <= a.floor.index:
		return a.floor.at
	case a.first == 0 || index > a.last:
		return now
	case index < a.first:
		return a.ring[a.first%uint64(len(a.ring))]
	default:
		return a.ring[index%uint64(len(a.ring))]
	}
}

// Forget drops what is remembered for incarnations that live does not contain.
func (a *Appends) Forget(live func(incarnation uint64) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for inc := range a.known {
		if !live(inc) {
			delete(a.known, inc)
		}
	}
}
