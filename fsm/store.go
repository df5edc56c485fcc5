package fsm

import (
	"cmp"
	"iter"

	"github.com/google/btree"

	"github.com/weir-project/weir/fsm/internal/trie"
	"github.com/weir-project/weir/fsm/internal/wire"
)

// Section numbers the kinds of rows in snapshots; the numbers are part of the snapshot format.
type Section uint8

// The sections of a snapshot, in their order.
const (
	SectionMeta Section = iota + 1
	SectionServers
	SectionNodes
	SectionChangefeeds
	SectionTables
	SectionDispatchers
	SectionOperators
	SectionFinished
	SectionRequests
	SectionHistory
	SectionBarriers
	SectionBarrierRecords
)

// String is the section's word.
func (s Section) String() string {
	return wordOf([]string{
		SectionMeta: "meta", SectionServers: "servers", SectionNodes: "nodes", SectionChangefeeds: "changefeeds",
		SectionTables: "tables", SectionDispatchers: "dispatchers", SectionOperators: "operators",
		SectionFinished: "finished", SectionRequests: "requests", SectionHistory: "history", SectionBarriers: "barriers",
		SectionBarrierRecords: "barrier-records",
	}, s)
}

// degree of the B-trees: up to 31 rows a node.
const degree = 16

// rowset is one kind of row, ordered by its key. Writing keeps the state hash.
type rowset[R any] struct {
	section Section
	tree    *btree.BTreeG[R]
	code    func(*R, *wire.Coder)
	scratch *R // keeps rows off the heap while they are encoded
}

func newRowset[R any](section Section, less func(a, b R) bool, code func(*R, *wire.Coder)) rowset[R] {
	return rowset[R]{section: section, tree: btree.NewG(degree, less), code: code, scratch: new(R)}
}

func (t *rowset[R]) clone() rowset[R] {
	c := *t
	c.tree = t.tree.Clone()
	return c
}

func (t *rowset[R]) get(probe R) (R, bool) { return t.tree.Get(probe) }
func (t *rowset[R]) len() int              { return t.tree.Len() }

// all yields the rows in key order; the set must not change meanwhile.
func (t *rowset[R]) all() iter.Seq[R] {
	return func(yield func(R) bool) { t.tree.Ascend(func(r R) bool { return yield(r) }) }
}

func (t *rowset[R]) digest(h *hasher, r R) Digest {
	*t.scratch = r
	h.coder.Reset()
	t.code(t.scratch, &h.coder)
	return digestOf(uint8(t.section), h.coder.Bytes())
}

// put stores r, keeps the hash, and returns the row that it replaced.
func (t *rowset[R]) put(h *hasher, r R) (old R, had bool) {
	if old, had = t.tree.ReplaceOrInsert(r); had {
		h.sum.sub(t.digest(h, old))
	}
	h.sum.add(t.digest(h, r))
	return old, had
}

// drop removes the row with probe's key and keeps the hash.
func (t *rowset[R]) drop(h *hasher, probe R) (old R, had bool) {
	if old, had = t.tree.Delete(probe); had {
		h.sum.sub(t.digest(h, old))
	}
	return old, had
}

// hasher is the state hash and a buffer to keep it with.
type hasher struct {
	sum   Digest
	coder wire.Coder
}

// dispatcherSet holds the dispatchers: the only rows of which there are a million.
type dispatcherSet struct {
	trie    trie.Trie[Dispatcher]
	scratch *Dispatcher
}

func (t *dispatcherSet) clone() dispatcherSet {
	return dispatcherSet{trie: t.trie.Clone(), scratch: t.scratch}
}

func (t *dispatcherSet) get(id DispatcherID) (Dispatcher, bool) { return t.trie.Get(uint64(id)) }
func (t *dispatcherSet) len() int                               { return t.trie.Len() }

func (t *dispatcherSet) digest(h *hasher, d Dispatcher) Digest {
	*t.scratch = d
	h.coder.Reset()
	t.scratch.code(&h.coder)
	return digestOf(uint8(SectionDispatchers), h.coder.Bytes())
}

func (t *dispatcherSet) put(h *hasher, d Dispatcher) (old Dispatcher, had bool) {
	if old, had = t.trie.Set(uint64(d.ID), d); had {
		h.sum.sub(t.digest(h, old))
	}
	h.sum.add(t.digest(h, d))
	return old, had
}

func (t *dispatcherSet) drop(h *hasher, id DispatcherID) (old Dispatcher, had bool) {
	if old, had = t.trie.Delete(uint64(id)); had {
		h.sum.sub(t.digest(h, old))
	}
	return old, had
}

// pairs is a derived index: an ordered set of pairs of numbers.
type pairs struct{ tree *btree.BTreeG[pair] }

type pair struct{ a, b uint64 }

func lessPair(x, y pair) bool { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) < 0 }

func newPairs() pairs            { return pairs{tree: btree.NewG(degree, lessPair)} }
func (p *pairs) clone() pairs    { return pairs{tree: p.tree.Clone()} }
func (p *pairs) add(a, b uint64) { p.tree.ReplaceOrInsert(pair{a, b}) }
func (p *pairs) del(a, b uint64) { p.tree.Delete(pair{a, b}) }

// all yields the pairs in order; the set must not change meanwhile.
func (p *pairs) all() iter.Seq[pair] {
	return func(yield func(pair) bool) { p.tree.Ascend(func(x pair) bool { return yield(x) }) }
}

// some says whether a has a second number.
func (p *pairs) some(a uint64) bool {
	for range p.of(a) {
		return true
	}
	return false
}

// of yields the second numbers of a, ascending; the set must not change meanwhile.
func (p *pairs) of(a uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		p.tree.AscendGreaterOrEqual(pair{a, 0}, func(x pair) bool { return x.a == a && yield(x.b) })
	}
}

// lookup is a derived index from a key to one value.
type lookup[K cmp.Ordered, V any] struct{ tree *btree.BTreeG[binding[K, V]] }

type binding[K cmp.Ordered, V any] struct {
	key   K
	value V
}

func newLookup[K cmp.Ordered, V any]() lookup[K, V] {
	return lookup[K, V]{tree: btree.NewG(degree, func(x, y binding[K, V]) bool { return x.key < y.key })}
}

func (l *lookup[K, V]) clone() lookup[K, V] { return lookup[K, V]{tree: l.tree.Clone()} }
func (l *lookup[K, V]) set(k K, v V)        { l.tree.ReplaceOrInsert(binding[K, V]{k, v}) }
func (l *lookup[K, V]) del(k K)             { l.tree.Delete(binding[K, V]{key: k}) }

func (l *lookup[K, V]) get(k K) (v V, ok bool) {
	b, ok := l.tree.Get(binding[K, V]{key: k})
	return b.value, ok
}

// oldest returns the binding with the lowest key.
func (l *lookup[K, V]) oldest() (k K, v V, ok bool) {
	b, ok := l.tree.Min()
	return b.key, b.value, ok
}

// rangeIndex orders key ranges of downstream tables by table and start. Ranges of one table do not overlap.
type rangeIndex struct{ tree *btree.BTreeG[heldRange] }

type heldRange struct {
	target string
	span   Span
	id     DispatcherID
}

func lessRange(x, y heldRange) bool {
	return cmp.Or(cmp.Compare(x.target, y.target), cmp.Compare(x.span.Start, y.span.Start)) < 0
}

func newRangeIndex() rangeIndex         { return rangeIndex{tree: btree.NewG(degree, lessRange)} }
func (r *rangeIndex) clone() rangeIndex { return rangeIndex{tree: r.tree.Clone()} }
func (r *rangeIndex) add(h heldRange)   { r.tree.ReplaceOrInsert(h) }

// del removes the range if it is h's.
func (r *rangeIndex) del(h heldRange) {
	if found, ok := r.tree.Get(h); ok && found.id == h.id {
		r.tree.Delete(h)
	}
}

// overlapping returns a range of target that shares a key with span.
func (r *rangeIndex) overlapping(target string, span Span) (id DispatcherID, ok bool) {
	see := func(h heldRange) bool {
		if h.target == target && h.span.Overlaps(span) {
			id, ok = h.id, true
		}
		return false
	}
	probe := heldRange{target: target, span: span}
	r.tree.DescendLessOrEqual(probe, see)
	if !ok {
		r.tree.AscendGreaterOrEqual(probe, see)
	}
	return id, ok
}

// spanIndex orders the dispatchers of a table by the start of their spans.
type spanIndex struct{ tree *btree.BTreeG[spanKey] }

type spanKey struct {
	table TableID
	start string
	id    DispatcherID
}

func lessSpan(x, y spanKey) bool {
	return cmp.Or(cmp.Compare(x.table, y.table), cmp.Compare(x.start, y.start), cmp.Compare(x.id, y.id)) < 0
}

func newSpanIndex() spanIndex         { return spanIndex{tree: btree.NewG(degree, lessSpan)} }
func (s *spanIndex) clone() spanIndex { return spanIndex{tree: s.tree.Clone()} }
func (s *spanIndex) add(d Dispatcher) { s.tree.ReplaceOrInsert(spanKey{d.Table, d.Span.Start, d.ID}) }
func (s *spanIndex) del(d Dispatcher) { s.tree.Delete(spanKey{d.Table, d.Span.Start, d.ID}) }

// of yields the table's dispatchers in key order; the index must not change meanwhile.
func (s *spanIndex) of(t TableID) iter.Seq[DispatcherID] {
	return func(yield func(DispatcherID) bool) {
		s.tree.AscendGreaterOrEqual(spanKey{table: t}, func(k spanKey) bool { return k.table == t && yield(k.id) })
	}
}

// some says whether the table has a dispatcher.
func (s *spanIndex) some(t TableID) bool {
	for range s.of(t) {
		return true
	}
	return false
}

// crews is a derived index: what one incarnation runs of one changefeed.
type crews struct{ tree *btree.BTreeG[crew] }

type crew struct {
	feed ChangefeedID
	inc  Incarnation
	// set counts the dispatchers that have been running, hash is the sum of their PairHash.
	set  uint32
	hash uint64
}

func lessCrew(x, y crew) bool {
	return cmp.Or(cmp.Compare(x.feed, y.feed), cmp.Compare(x.inc, y.inc)) < 0
}

func newCrews() crews         { return crews{tree: btree.NewG(degree, lessCrew)} }
func (c *crews) clone() crews { return crews{tree: c.tree.Clone()} }

func (c *crews) get(feed ChangefeedID, inc Incarnation) crew {
	found, _ := c.tree.Get(crew{feed: feed, inc: inc})
	found.feed, found.inc = feed, inc
	return found
}

func (c *crews) set(x crew) {
	if x.set == 0 {
		c.tree.Delete(x)
		return
	}
	c.tree.ReplaceOrInsert(x)
}

// of yields the crews of a changefeed by incarnation; the index must not change meanwhile.
func (c *crews) of(feed ChangefeedID) iter.Seq[crew] {
	return func(yield func(crew) bool) {
		c.tree.AscendGreaterOrEqual(crew{feed: feed}, func(x crew) bool { return x.feed == feed && yield(x) })
	}
}

// quiet is a derived index: the dispatchers of a changefeed that no node's minimum covers, by stored position.
type quiet struct{ tree *btree.BTreeG[quietKey] }

type quietKey struct {
	feed uint64
	at   Position
	id   DispatcherID
}

func lessQuiet(x, y quietKey) bool {
	return cmp.Or(cmp.Compare(x.feed, y.feed), x.at.Compare(y.at), cmp.Compare(x.id, y.id)) < 0
}

func newQuiet() quiet         { return quiet{tree: btree.NewG(degree, lessQuiet)} }
func (q *quiet) clone() quiet { return quiet{tree: q.tree.Clone()} }

// first returns the dispatcher of the changefeed with the lowest stored position.
func (q *quiet) first(feed ChangefeedID) (k quietKey, ok bool) {
	q.tree.AscendGreaterOrEqual(quietKey{feed: uint64(feed)}, func(x quietKey) bool {
		k, ok = x, x.feed == uint64(feed)
		return false
	})
	return k, ok
}

// tallies is a derived index: how far the dispatchers that an open barrier concerns have come.
type tallies struct{ tree *btree.BTreeG[tally] }

type tally struct {
	key BarrierKey
	// members are concerned, behind have not reached the key, unpassed have not passed it.
	members, behind, unpassed uint32
}

func compareKeys(x, y BarrierKey) int {
	return cmp.Or(cmp.Compare(x.Changefeed, y.Changefeed), cmp.Compare(x.Run, y.Run), x.At.Compare(y.At))
}

func newTallies() tallies {
	return tallies{tree: btree.NewG(degree, func(x, y tally) bool { return compareKeys(x.key, y.key) < 0 })}
}

func (t *tallies) clone() tallies   { return tallies{tree: t.tree.Clone()} }
func (t *tallies) set(x tally)      { t.tree.ReplaceOrInsert(x) }
func (t *tallies) del(k BarrierKey) { t.tree.Delete(tally{key: k}) }

func (t *tallies) get(k BarrierKey) tally {
	found, _ := t.tree.Get(tally{key: k})
	found.key = k
	return found
}
