package raftnode

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

func TestHashRing_remembers_the_newest_and_answers_for_gaps(t *testing.T) {
	r := newHashRing()
	_, ok := r.at(5)
	require.False(t, ok)
	const entries = 2*HashesKept + 17
	index := func(i int) uint64 { return uint64(3*i + 1) } // two of three indexes are Raft's own
	for i := range entries {
		r.put(index(i), fsm.Digest{A: uint64(i)})
		if i%17 != 0 {
			continue
		}
		for _, back := range []int{0, 1, HashesKept - 1, HashesKept, HashesKept + 1} {
			j := i - back
			if j < 0 {
				continue
			}
			for gap := range uint64(3) {
				got, ok := r.at(index(j) + gap)
				require.Equal(t, back < HashesKept, ok, "entry %d, %d back", i, back)
				if ok {
					require.Equal(t, uint64(j), got.A)
				}
			}
		}
	}
}
