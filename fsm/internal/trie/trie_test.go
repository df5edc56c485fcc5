package trie

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestBehavesLikeAMapAndClonesNeverChange drives a trie and a map with the same calls, keeping clones on the way.
func TestBehavesLikeAMapAndClonesNeverChange(t *testing.T) {
	type kept struct {
		trie Trie[int]
		want map[uint64]int
	}
	rapid.Check(t, func(t *rapid.T) {
		var tr Trie[int]
		model := map[uint64]int{}
		var clones []kept
		key := rapid.OneOf(rapid.Uint64Range(0, 70), rapid.Uint64Range(1000, 1100), rapid.Uint64())
		for step := range rapid.IntRange(1, 120).Draw(t, "steps") {
			k := key.Draw(t, "key")
			switch rapid.SampledFrom([]string{"set", "set", "delete", "get", "clone"}).Draw(t, "op") {
			case "set":
				old, had := tr.Set(k, step)
				want, wantHad := model[k]
				require.Equal(t, wantHad, had)
				require.Equal(t, want, old)
				model[k] = step
			case "delete":
				old, had := tr.Delete(k)
				want, wantHad := model[k]
				require.Equal(t, wantHad, had)
				require.Equal(t, want, old)
				delete(model, k)
			case "get":
				got, ok := tr.Get(k)
				want, wantOK := model[k]
				require.Equal(t, wantOK, ok)
				require.Equal(t, want, got)
			case "clone":
				clones = append(clones, kept{tr.Clone(), maps.Clone(model)})
			}
		}
		clones = append(clones, kept{tr, model})
		for _, c := range clones {
			require.Equal(t, len(c.want), c.trie.Len())
			var keys []uint64
			for k, v := range c.trie.All() {
				require.Equal(t, c.want[k], v)
				keys = append(keys, k)
			}
			require.Equal(t, slices.Sorted(maps.Keys(c.want)), keys)
		}
	})
}

func TestAnEmptiedTrieHoldsNoNodes(t *testing.T) {
	var tr Trie[string]
	for k := range uint64(5000) {
		tr.Set(k, "x")
	}
	for k := range uint64(5000) {
		tr.Delete(k)
	}
	require.Nil(t, tr.root)
	require.Zero(t, tr.Len())
}

func TestCloningOfWhatIsNotWrittenOnlyReads(t *testing.T) {
	var tr Trie[string]
	tr.Set(1, "one")
	view := tr.Clone()
	done := make(chan Trie[string])
	for _, word := range []string{"a", "b"} { // the race detector looks
		go func() {
			c := view.Clone()
			c.Set(1, word)
			c.Delete(2)
			done <- c
		}()
	}
	words := map[string]bool{}
	for range 2 {
		c := <-done
		v, _ := c.Get(1)
		words[v] = true
	}
	require.Len(t, words, 2, "each clone keeps its own")
	for _, unchanged := range []*Trie[string]{&tr, &view} {
		v, _ := unchanged.Get(1)
		require.Equal(t, "one", v)
	}
}
