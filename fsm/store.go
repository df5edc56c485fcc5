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
)

// String is the section's word.
func (s Section) String() string {
	switch s {
	case SectionMeta:
		return "meta"
	case SectionServers:
		return "servers"
	case SectionNodes:
		return "nodes"
	case SectionChangefeeds:
		return "changefeeds"
	case SectionTables:
		return "tables"
	case SectionDispatchers:
		return "dispatchers"
	case SectionOperators:
		return "operators"
	case SectionFinished:
		return "finished"
	case SectionRequests:
		return "requests"
	case SectionHistory:
		return "history"
	default:
		return "unknown"
	}
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
