package tree

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// check fails unless m's nodes are what the package promises.
func check(t require.TestingT, m *Map[int, string]) {
	if m.root == nil {
		require.Zero(t, m.n)
		return
	}
	n := 0
	var walk func(nd *node[int, string], low, high *int) (height int)
	walk = func(nd *node[int, string], low, high *int) int {
		require.NotEmpty(t, nd.keys)
		require.LessOrEqual(t, len(nd.keys), cap(nd.keys))
		for i, k := range nd.keys {
			if (low != nil && k < *low) || (high != nil && k >= *high) || (i > 0 && nd.keys[i-1] >= k) {
				require.Failf(t, "a key stands wrong", "%d among %v", k, nd.keys)
			}
		}
		if nd.isLeaf() {
			require.Len(t, nd.vals, len(nd.keys))
			n += len(nd.keys)
			return 0
		}
		require.Len(t, nd.kids, len(nd.keys))
		height := -1
		for i, kid := range nd.kids {
			next := high
			if i+1 < len(nd.kids) {
				next = &nd.keys[i+1]
			}
			h := walk(kid, &nd.keys[i], next)
			require.False(t, height >= 0 && h != height, "leaves stand on one level")
			height = h
		}
		return height + 1
	}
	walk(m.root, nil, nil)
	require.Equal(t, m.n, n)
	require.False(t, !m.root.isLeaf() && len(m.root.kids) < 2, "a root above leaves has two kids")
}

// equal compares all that can be read of m with a Go map.
func equal(t require.TestingT, m *Map[int, string], want map[int]string, probe int) {
	check(t, m)
	require.Equal(t, len(want), m.Len())
	keys := slices.Sorted(maps.Keys(want))
	var got []int
	for k, v := range m.All() {
		if want[k] != v {
			require.Equal(t, want[k], v, "at %d", k)
		}
		got = append(got, k)
	}
	require.True(t, slices.Equal(keys, got), "%v, want %v", got, keys)
	got = nil
	for k := range m.Backward() {
		got = append(got, k)
	}
	slices.Reverse(got)
	require.True(t, slices.Equal(keys, got), "backward: %v, want %v", got, keys)
	at, found := slices.BinarySearch(keys, probe)
	v, ok := m.Get(probe)
	require.Equal(t, found, ok)
	require.Equal(t, want[probe], v)
	require.Equal(t, found, m.Has(probe))
	got = nil
	for k := range m.From(probe) {
		got = append(got, k)
	}
	require.True(t, slices.Equal(keys[at:], got), "from %d: %v, want %v", probe, got, keys[at:])
	k, v, ok := m.Ceiling(probe)
	require.Equal(t, at < len(keys), ok)
	if ok {
		require.Equal(t, keys[at], k)
		require.Equal(t, want[k], v)
	}
	if found {
		at++
	}
	k, v, ok = m.Floor(probe)
	require.Equal(t, at > 0, ok)
	if ok {
		require.Equal(t, keys[at-1], k)
		require.Equal(t, want[k], v)
	}
	k, _, ok = m.Min()
	require.Equal(t, len(keys) > 0, ok)
	if ok {
		require.Equal(t, keys[0], k)
	}
}

// version is a map and what it must hold.
type version struct {
	tree Map[int, string]
	want map[int]string
}

// TestAgainstAMap compares maps and their clones, each written to independently, with Go maps.
func TestAgainstAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		room := rapid.SampledFrom([]int{20, 300, 1_000}).Draw(rt, "keys")
		newMap := rapid.SampledFrom([]func(func(int, int) int) Map[int, string]{New[int, string], NewWide[int, string]}).Draw(rt, "map")
		versions := []version{{newMap(cmp.Compare[int]), map[int]string{}}}
		pick := func() *version { return &versions[rapid.IntRange(0, len(versions)-1).Draw(rt, "version")] }
		write := func(v *version, k int, remove bool) {
			want, had := v.want[k]
			if remove {
				delete(v.want, k)
				got, ok := v.tree.Delete(k)
				require.Equal(rt, had, ok)
				require.Equal(rt, want, got)
				return
			}
			value := fmt.Sprint(k, len(v.want), v.tree.Len())
			v.want[k] = value
			got, ok := v.tree.Set(k, value)
			require.Equal(rt, had, ok)
			require.Equal(rt, want, got)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write one": func(rt *rapid.T) {
				write(pick(), rapid.IntRange(0, room).Draw(rt, "key"), rapid.Bool().Draw(rt, "remove"))
			},
			"write a run": func(rt *rapid.T) {
				v, remove := pick(), rapid.Bool().Draw(rt, "remove")
				first, step := rapid.IntRange(0, room).Draw(rt, "first"), rapid.SampledFrom([]int{1, -1, 7, -7}).Draw(rt, "step")
				for i := range rapid.IntRange(1, 200).Draw(rt, "length") {
					write(v, first+i*step, remove)
				}
			},
			"clone": func(rt *rapid.T) {
				if len(versions) < 4 {
					v := pick()
					versions = append(versions, version{v.tree.Clone(), maps.Clone(v.want)})
				}
			},
			"": func(rt *rapid.T) {
				v := pick()
				equal(rt, &v.tree, v.want, rapid.IntRange(-1, room+1).Draw(rt, "probe"))
			},
		})
		for i := range versions {
			equal(rt, &versions[i].tree, versions[i].want, room/2)
		}
	})
}

func TestOrderedKeysFillTheirNodes(t *testing.T) {
	m := New[int, string](cmp.Compare[int])
	for k := range 10_000 {
		m.Set(k, "")
	}
	leaves := 0
	var count func(n *node[int, string])
	count = func(n *node[int, string]) {
		if n.isLeaf() {
			leaves++
		}
		for _, kid := range n.kids {
			count(kid)
		}
	}
	count(m.root)
	require.LessOrEqual(t, leaves, 10_000/capacity+1)
}

func TestAQueueNeedsAnAllocationALeaf(t *testing.T) {
	m := New[int, string](cmp.Compare[int])
	for k := range 10_000 {
		m.Set(k, "")
	}
	next := 10_000
	allocations := testing.AllocsPerRun(100, func() {
		for range 10 * capacity {
			m.Set(next, "")
			k, _, _ := m.Min()
			m.Delete(k)
			next++
		}
	})
	require.LessOrEqual(t, allocations, 12.0)
	check(t, &m)
}

func TestManyDeletionsLeaveFewNodes(t *testing.T) {
	const n = 20_000
	m := New[int, string](cmp.Compare[int])
	keys := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for _, k := range keys {
		m.Set(k, "")
	}
	for _, k := range keys[n/20:] {
		m.Delete(k)
	}
	check(t, &m)
	leaves := 0
	var count func(nd *node[int, string])
	count = func(nd *node[int, string]) {
		if nd.isLeaf() {
			leaves++
		}
		for _, kid := range nd.kids {
			count(kid)
		}
	}
	count(m.root)
	require.LessOrEqual(t, leaves, 4*(n/20)/capacity, "a quarter full on average or better")
}

func TestCloningOfWhatIsNotWrittenOnlyReads(t *testing.T) {
	m := New[int, string](cmp.Compare[int])
	m.Set(1, "one")
	view := m.Clone()
	done := make(chan struct{})
	for i := range 2 { // the race detector looks
		go func() {
			c := view.Clone()
			c.Set(1, fmt.Sprint(i))
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	v, _ := view.Get(1)
	require.Equal(t, "one", v)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = view.Clone() }))
}

func TestReadingNeedsNoAllocation(t *testing.T) {
	m := New[int, string](cmp.Compare[int])
	for k := range 5_000 {
		m.Set(k, "")
	}
	sum := 0
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for k := range m.From(4_000) {
			sum += k
		}
		k, _, _ := m.Floor(77)
		sum += k
		k, _, _ = m.Ceiling(78)
		sum += k
	}))
}
