package explore

import (
	"sync"
	"sync/atomic"
)

// visited is the set of digests that have been seen, each with a number in the order of discovery. Safe for concurrent
// use.
type visited struct {
	count  atomic.Uint32
	shards [shards]shard
}

const (
	shards     = 256
	firstSlots = 64
)

type shard struct {
	mu    sync.Mutex
	used  int
	slots []slot
}

// slot is empty when number is zero: numbers start at 1 here.
type slot struct {
	key    digest
	number uint32
}

func newVisited() *visited {
	v := &visited{}
	for i := range v.shards {
		v.shards[i].slots = make([]slot, firstSlots)
	}
	return v
}

// add returns the number of d, from 0, and whether it is new.
func (v *visited) add(d digest) (number uint32, fresh bool) {
	s := &v.shards[d.a%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(d)
	if s.slots[at].number != 0 {
		return s.slots[at].number - 1, false
	}
	number = v.count.Add(1)
	s.slots[at] = slot{key: d, number: number}
	if s.used++; s.used*4 > len(s.slots)*3 {
		s.grow()
	}
	return number - 1, true
}

// find returns where d is, or the empty slot where it belongs.
func (s *shard) find(d digest) int {
	mask := len(s.slots) - 1
	at := int(d.b) & mask
	for s.slots[at].number != 0 && s.slots[at].key != d {
		at = (at + 1) & mask
	}
	return at
}

func (s *shard) grow() {
	old := s.slots
	s.slots = make([]slot, 2*len(old))
	for _, e := range old {
		if e.number != 0 {
			s.slots[s.find(e.key)] = e
		}
	}
}

// len is the number of digests.
func (v *visited) len() int { return int(v.count.Load()) }
