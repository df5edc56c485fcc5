package dispatcher

import (
	"slices"
	"strings"
	"sync"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// sinkTable names a downstream table in the whole process.
type sinkTable struct {
	sink  string
	table TableName
}

// sinkTableOf is what a placement writes. The events of a changefeed are no table, and have a range of their own.
func sinkTableOf(work *fsm.Work) sinkTable {
	if work.Trigger {
		return sinkTable{work.Sink, TableName{Name: "events of " + work.Changefeed}}
	}
	return sinkTable{work.Sink, TableName{work.Schema, work.Table}}
}

// ranges holds the key ranges that dispatchers of this process may still write, across incarnations: from the order to
// the return of the closer. Two of them never overlap, so a range is not started while an older owner of any part of it
// has not returned.
type ranges struct {
	mu    sync.Mutex
	held  map[sinkTable][]heldRange // by span start
	count int
}

type heldRange struct {
	span fsm.Span
	pair session.Pair
}

func newRanges() *ranges { return &ranges{held: make(map[sinkTable][]heldRange)} }

// take holds the range for p, or says who holds part of it.
func (r *ranges) take(t sinkTable, span fsm.Span, p session.Pair) (holder session.Pair, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.held[t]
	i, _ := slices.BinarySearchFunc(list, span.Start, byStart)
	for _, near := range []int{i - 1, i} {
		if near >= 0 && near < len(list) && list[near].span.Overlaps(span) {
			return list[near].pair, false
		}
	}
	r.held[t] = slices.Insert(list, i, heldRange{span, p})
	r.count++
	return session.Pair{}, true
}

// release gives the range back that p took.
func (r *ranges) release(t sinkTable, span fsm.Span, p session.Pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.held[t]
	i, found := slices.BinarySearchFunc(list, span.Start, byStart)
	if !found || list[i].pair != p {
		return
	}
	r.count--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(r.held, t)
		return
	}
	r.held[t] = list
}

// len counts the ranges that are held.
func (r *ranges) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

func byStart(h heldRange, start string) int {
	return strings.Compare(h.span.Start, start)
}
