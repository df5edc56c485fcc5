package raftnode

import (
	"sort"

	"github.com/weir-project/weir/fsm"
)

// HashesKept is how many of the newest applied entries have their state hash remembered.
const HashesKept = 4096

// hashRing remembers the state hashes after the newest entries. Indexes grow, with gaps: entries that are Raft's own do
// not change the state.
type hashRing struct {
	index  []uint64 // ring, parallel to hash
	hash   []fsm.Digest
	newest int // slot of the newest; the oldest follows it once the ring is full
}

func newHashRing() hashRing { return hashRing{newest: -1} }

func (r *hashRing) put(index uint64, h fsm.Digest) {
	if len(r.index) < HashesKept {
		r.index = append(r.index, index)
		r.hash = append(r.hash, h)
		r.newest = len(r.index) - 1
		return
	}
	r.newest = (r.newest + 1) % HashesKept
	r.index[r.newest], r.hash[r.newest] = index, h
}

// at returns the hash after the last remembered entry at or below index. The caller makes sure that everything up to
// index has been applied.
func (r *hashRing) at(index uint64) (fsm.Digest, bool) {
	n := len(r.index)
	slot := func(i int) int { return (r.newest + 1 + i) % n } // i-th oldest
	i := sort.Search(n, func(i int) bool { return r.index[slot(i)] > index })
	if i == 0 {
		return fsm.Digest{}, false
	}
	return r.hash[slot(i-1)], true
}
