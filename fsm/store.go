package fsm

import (
	"cmp"
	"iter"

	"github.com/weir-project/weir/fsm/internal/tree"
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

// rowset is one kind of row, ordered by its key. Writing keeps the state hash.
type rowset[K, R any] struct {
	section Section
	tree    tree.Map[K, R]
	key     func(R) K
	code    func(*R, *wire.Coder)
	scratch *R // keeps rows off the heap while they are encoded
}

func newRowset[K, R any](section Section, compare func(a, b K) int, key func(R) K, code func(*R, *wire.Coder)) rowset[K, R] {
	return rowset[K, R]{section: section, tree: tree.NewWide[K, R](compare), key: key, code: code, scratch: new(R)}
}

func (t *rowset[K, R]) clone() rowset[K, R] {
	c := *t
	c.tree = t.tree.Clone()
	return c
}

func (t *rowset[K, R]) get(probe R) (R, bool) { return t.tree.Get(t.key(probe)) }
func (t *rowset[K, R]) len() int              { return t.tree.Len() }

// all yields the rows in key order; the set must not change meanwhile.
func (t *rowset[K, R]) all() iter.Seq[R] {
	return func(yield func(R) bool) { t.tree.All()(func(_ K, r R) bool { return yield(r) }) }
}

// from yields the rows that are not before probe, in key order; the set must not change meanwhile.
func (t *rowset[K, R]) from(probe R) iter.Seq[R] {
	return func(yield func(R) bool) { t.tree.From(t.key(probe))(func(_ K, r R) bool { return yield(r) }) }
}

func (t *rowset[K, R]) digest(h *hasher, r R) Digest {
	*t.scratch = r
	h.coder.Reset()
	t.code(t.scratch, &h.coder)
	return digestOf(uint8(t.section), h.coder.Bytes())
}

// put stores r, keeps the hash, and returns the row that it replaced.
func (t *rowset[K, R]) put(h *hasher, r R) (old R, had bool) {
	if old, had = t.tree.Set(t.key(r), r); had {
		h.sum.sub(t.digest(h, old))
	}
	h.sum.add(t.digest(h, r))
	return old, had
}

// drop removes the row with probe's key and keeps the hash.
func (t *rowset[K, R]) drop(h *hasher, probe R) (old R, had bool) {
	if old, had = t.tree.Delete(t.key(probe)); had {
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
type pairs struct{ tree tree.Map[pair, struct{}] }

type pair struct{ a, b uint64 }

func comparePairs(x, y pair) int {
	if x.a != y.a {
		return cmp.Compare(x.a, y.a)
	}
	return cmp.Compare(x.b, y.b)
}

func newPairs() pairs            { return pairs{tree: tree.New[pair, struct{}](comparePairs)} }
func (p *pairs) clone() pairs    { return pairs{tree: p.tree.Clone()} }
func (p *pairs) add(a, b uint64) { p.tree.Set(pair{a, b}, struct{}{}) }
func (p *pairs) del(a, b uint64) { p.tree.Delete(pair{a, b}) }

// all yields the pairs in order; the set must not change meanwhile.
func (p *pairs) all() iter.Seq[pair] {
	return func(yield func(pair) bool) { p.tree.All()(func(x pair, _ struct{}) bool { return yield(x) }) }
}

// move takes out one pair and puts in another, if they differ; the zero pair stands for none.
func (p *pairs) move(from, to pair) {
	if from == to {
		return
	}
	if from != (pair{}) {
		p.tree.Delete(from)
	}
	if to != (pair{}) {
		p.tree.Set(to, struct{}{})
	}
}

// least returns the lowest pair.
func (p *pairs) least() (x pair, ok bool) {
	x, _, ok = p.tree.Min()
	return x, ok
}

// some says whether a has a second number.
func (p *pairs) some(a uint64) bool {
	x, _, ok := p.tree.Ceiling(pair{a, 0})
	return ok && x.a == a
}

// of yields the second numbers of a, ascending; the set must not change meanwhile.
func (p *pairs) of(a uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		p.tree.From(pair{a, 0})(func(x pair, _ struct{}) bool { return x.a == a && yield(x.b) })
	}
}

// lookup is a derived index from a key to one value.
type lookup[K, V any] struct{ tree tree.Map[K, V] }

func newLookup[K, V any](compare func(a, b K) int) lookup[K, V] {
	return lookup[K, V]{tree: tree.New[K, V](compare)}
}

func (l *lookup[K, V]) clone() lookup[K, V] { return lookup[K, V]{tree: l.tree.Clone()} }
func (l *lookup[K, V]) set(k K, v V)        { l.tree.Set(k, v) }
func (l *lookup[K, V]) del(k K)             { l.tree.Delete(k) }

func (l *lookup[K, V]) get(k K) (v V, ok bool) { return l.tree.Get(k) }

// oldest returns the binding with the lowest key.
func (l *lookup[K, V]) oldest() (k K, v V, ok bool) { return l.tree.Min() }

// rangeIndex orders key ranges of downstream tables by table and start. Ranges of one table do not overlap.
type rangeIndex struct{ tree tree.Map[rangeKey, heldRange] }

type rangeKey struct {
	target target
	start  string
}

type heldRange struct {
	target target
	span   Span
	id     DispatcherID
}

func (h *heldRange) key() rangeKey { return rangeKey{h.target, h.span.Start} }

func compareRanges(x, y rangeKey) int {
	return cmp.Or(compareTargets(x.target, y.target), cmp.Compare(x.start, y.start))
}

func newRangeIndex() rangeIndex {
	return rangeIndex{tree: tree.New[rangeKey, heldRange](compareRanges)}
}
func (r *rangeIndex) clone() rangeIndex { return rangeIndex{tree: r.tree.Clone()} }
func (r *rangeIndex) add(h heldRange)   { r.tree.Set(h.key(), h) }

// del removes the range if it is h's.
func (r *rangeIndex) del(h heldRange) {
	if found, ok := r.tree.Get(h.key()); ok && found.id == h.id {
		r.tree.Delete(h.key())
	}
}

// overlapping returns a range of target that shares a key with span.
func (r *rangeIndex) overlapping(target target, span Span) (id DispatcherID, ok bool) {
	start := rangeKey{target, span.Start}
	if _, h, found := r.tree.Floor(start); found && h.target == target && h.span.Overlaps(span) {
		return h.id, true
	}
	_, h, found := r.tree.Ceiling(start)
	return h.id, found && h.target == target && h.span.Overlaps(span)
}

// spanIndex orders the dispatchers of a table by the start of their spans.
type spanIndex struct{ tree tree.Map[spanKey, struct{}] }

type spanKey struct {
	table TableID
	start string
	id    DispatcherID
}

func compareSpans(x, y spanKey) int {
	if x.table != y.table {
		return cmp.Compare(x.table, y.table)
	}
	return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.id, y.id))
}

func newSpanIndex() spanIndex         { return spanIndex{tree: tree.New[spanKey, struct{}](compareSpans)} }
func (s *spanIndex) clone() spanIndex { return spanIndex{tree: s.tree.Clone()} }
func (s *spanIndex) add(d Dispatcher) { s.tree.Set(spanKey{d.Table, d.Span.Start, d.ID}, struct{}{}) }
func (s *spanIndex) del(d Dispatcher) { s.tree.Delete(spanKey{d.Table, d.Span.Start, d.ID}) }

// of yields the table's dispatchers in key order; the index must not change meanwhile.
func (s *spanIndex) of(t TableID) iter.Seq[DispatcherID] {
	return func(yield func(DispatcherID) bool) {
		s.tree.From(spanKey{table: t})(func(k spanKey, _ struct{}) bool { return k.table == t && yield(k.id) })
	}
}

// some says whether the table has a dispatcher.
func (s *spanIndex) some(t TableID) bool {
	k, _, ok := s.tree.Ceiling(spanKey{table: t})
	return ok && k.table == t
}

// crews is a derived index: what one incarnation runs of one changefeed.
type crews struct{ tree tree.Map[crewKey, crew] }

type crewKey struct {
	feed ChangefeedID
	inc  Incarnation
}

type crew struct {
	feed ChangefeedID
	inc  Incarnation
	// set counts the dispatchers that have been running, hash is the sum of their PairHash.
	set  uint32
	hash uint64
}

func compareCrews(x, y crewKey) int {
	return cmp.Or(cmp.Compare(x.feed, y.feed), cmp.Compare(x.inc, y.inc))
}

func newCrews() crews         { return crews{tree: tree.New[crewKey, crew](compareCrews)} }
func (c *crews) clone() crews { return crews{tree: c.tree.Clone()} }

func (c *crews) get(feed ChangefeedID, inc Incarnation) crew {
	found, _ := c.tree.Get(crewKey{feed, inc})
	found.feed, found.inc = feed, inc
	return found
}

func (c *crews) set(x crew) {
	if x.set == 0 {
		c.tree.Delete(crewKey{x.feed, x.inc})
		return
	}
	c.tree.Set(crewKey{x.feed, x.inc}, x)
}

// of yields the crews of a changefeed by incarnation; the index must not change meanwhile.
func (c *crews) of(feed ChangefeedID) iter.Seq[crew] {
	return func(yield func(crew) bool) {
		c.tree.From(crewKey{feed: feed})(func(k crewKey, x crew) bool { return k.feed == feed && yield(x) })
	}
}

// quiet is a derived index: the dispatchers of a changefeed that no node's minimum covers, by stored position.
type quiet struct{ tree tree.Map[quietKey, struct{}] }

type quietKey struct {
	feed uint64
	at   Position
	id   DispatcherID
}

func compareQuiet(x, y quietKey) int {
	return cmp.Or(cmp.Compare(x.feed, y.feed), x.at.Compare(y.at), cmp.Compare(x.id, y.id))
}

func newQuiet() quiet         { return quiet{tree: tree.New[quietKey, struct{}](compareQuiet)} }
func (q *quiet) clone() quiet { return quiet{tree: q.tree.Clone()} }

// move takes out one key and puts in another, if they differ; the zero key stands for none.
func (q *quiet) move(from, to quietKey) {
	if from == to {
		return
	}
	if from != (quietKey{}) {
		q.tree.Delete(from)
	}
	if to != (quietKey{}) {
		q.tree.Set(to, struct{}{})
	}
}

// first returns the dispatcher of the changefeed with the lowest stored position.
func (q *quiet) first(feed ChangefeedID) (k quietKey, ok bool) {
	k, _, ok = q.tree.Ceiling(quietKey{feed: uint64(feed)})
	return k, ok && k.feed == uint64(feed)
}

// tallies is a derived index: how far the dispatchers that an open barrier concerns have come.
type tallies struct{ tree tree.Map[BarrierKey, tally] }

type tally struct {
	key BarrierKey
	// members are concerned, behind have not reached the key, unpassed have not passed it.
	members, behind, unpassed uint32
}

func compareKeys(x, y BarrierKey) int {
	return cmp.Or(cmp.Compare(x.Changefeed, y.Changefeed), cmp.Compare(x.Run, y.Run), x.At.Compare(y.At))
}

func newTallies() tallies { return tallies{tree: tree.New[BarrierKey, tally](compareKeys)} }

func (t *tallies) clone() tallies   { return tallies{tree: t.tree.Clone()} }
func (t *tallies) set(x tally)      { t.tree.Set(x.key, x) }
func (t *tallies) del(k BarrierKey) { t.tree.Delete(k) }

func (t *tallies) get(k BarrierKey) tally {
	found, _ := t.tree.Get(k)
	found.key = k
	return found
}
