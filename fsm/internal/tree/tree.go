// Package tree is a persistent ordered map: a B+tree whose copy costs O(1).
//
// Rows stand in the leaves, and keys beside them, so that a search compares keys and never copies a row. Inner nodes
// hold, for each of their kids, a lower bound of its keys. Every node is one allocation.
//
//	inner   bounds [  1  |  40  |  77 ]        bounds[i] <= each key below kids[i] < bounds[i+1]
//	                 /      |      \
//	leaf     keys [1 7 9] [40 52] [77 80 93]
//
// Nodes belong to the map that made them; a map copies a node that it does not own before it writes to it. A node that
// is less than a quarter full joins a neighbour if both fit into one.
//
// It knows nothing of what it holds. It must not be written to while one of its sequences is being consumed.
package tree

import (
	"iter"
	"slices"
)

const (
	// capacity of inner nodes and of leaves, wideCapacity of leaves with wide rows: those are copied when they are
	// shared, and shifted when something is inserted.
	capacity     = 32
	wideCapacity = 8
	// tallest is the most levels that 2^64 insertions can make: an inner node is split after 16 at least.
	tallest = 17
)

// owner is an identity; its address is compared.
type owner struct{ _ byte }

// node is a leaf, with a value for each key, or an inner node, with a kid for each key, which is the kid's lower bound.
type node[K, V any] struct {
	owner *owner
	keys  []K
	vals  []V           // leaves
	kids  []*node[K, V] // inner nodes
}

// leaf, wideLeaf and inner are nodes with the room for their slices, in one allocation.
type leaf[K, V any] struct {
	node[K, V]
	valRoom [capacity]V // not last: Go pads what has no size there
	keyRoom [capacity]K
}

type wideLeaf[K, V any] struct {
	node[K, V]
	valRoom [wideCapacity]V
	keyRoom [wideCapacity]K
}

type inner[K, V any] struct {
	node[K, V]
	keyRoom [capacity]K
	kidRoom [capacity]*node[K, V]
}

func (n *node[K, V]) isLeaf() bool { return n.kids == nil }
func (n *node[K, V]) isFull() bool { return len(n.keys) == cap(n.keys) }

// isPoor: a node with so few keys looks for a neighbour to join.
func (n *node[K, V]) isPoor() bool { return len(n.keys) < cap(n.keys)/4 || len(n.keys) == 0 }

// Map maps keys to values, in the order of a comparison. It is not safe for concurrent use, but a clone and its original
// may be used by different goroutines, and any number of goroutines may read and clone a map that is not written to.
type Map[K, V any] struct {
	compare func(a, b K) int
	wide    bool
	root    *node[K, V] // nil when empty
	owner   *owner      // nil when all nodes may be shared
	n       int
}

// New is an empty map in the order of compare, which returns less than 0, 0 or more than 0 as cmp.Compare does.
func New[K, V any](compare func(a, b K) int) Map[K, V] { return Map[K, V]{compare: compare} }

// NewWide is New for values of hundreds of bytes.
func NewWide[K, V any](compare func(a, b K) int) Map[K, V] {
	return Map[K, V]{compare: compare, wide: true}
}

// Len is the number of keys.
func (m *Map[K, V]) Len() int { return m.n }

// Clone returns a copy that shares every node until one of the two writes to it.
func (m *Map[K, V]) Clone() Map[K, V] {
	if m.owner != nil { // a map that is not written to is only read here
		m.owner = nil
	}
	return *m
}

// search returns where k stands among keys, or would stand.
func (m *Map[K, V]) search(keys []K, k K) (at int, found bool) {
	low, high := 0, len(keys)
	for low < high {
		middle := int(uint(low+high) >> 1)
		switch c := m.compare(keys[middle], k); {
		case c == 0:
			return middle, true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false
}

// kidFor returns which kid of an inner node holds k, if one does.
func (m *Map[K, V]) kidFor(n *node[K, V], k K) int {
	at, found := m.search(n.keys, k)
	if !found && at > 0 {
		at--
	}
	return at
}

// Get returns the value at k.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	n := m.root
	if n == nil {
		return v, false
	}
	for !n.isLeaf() {
		n = n.kids[m.kidFor(n, k)]
	}
	if at, found := m.search(n.keys, k); found {
		return n.vals[at], true
	}
	return v, false
}

// Has says whether there is a value at k.
func (m *Map[K, V]) Has(k K) bool {
	n := m.root
	if n == nil {
		return false
	}
	for !n.isLeaf() {
		n = n.kids[m.kidFor(n, k)]
	}
	_, found := m.search(n.keys, k)
	return found
}

// step is where a way from the root to a leaf goes on.
type step[K, V any] struct {
	node *node[K, V]
	at   int
}

// Set stores v at k and returns what was there.
func (m *Map[K, V]) Set(k K, v V) (old V, had bool) {
	m.prepare()
	var way [tallest]step[K, V]
	depth, n := 0, m.root
	for ; !n.isLeaf(); depth++ {
		at := m.kidFor(n, k)
		if at == 0 && m.compare(k, n.keys[0]) < 0 {
			n.keys[0] = k
		}
		n.kids[at] = m.own(n.kids[at])
		way[depth] = step[K, V]{n, at}
		n = n.kids[at]
	}
	at, found := m.search(n.keys, k)
	if found {
		old, n.vals[at] = n.vals[at], v
		return old, true
	}
	m.n++
	right := m.insert(n, at, k, v)
	for right != nil && depth > 0 {
		depth--
		right = m.adopt(way[depth].node, way[depth].at+1, right)
	}
	if right != nil {
		top := m.newInner()
		top.keys = append(top.keys, m.root.keys[0], right.keys[0])
		top.kids = append(top.kids, m.root, right)
		m.root = top
	}
	return old, false
}

// prepare makes the root one that may be written to.
func (m *Map[K, V]) prepare() {
	if m.owner == nil {
		m.owner = &owner{}
	}
	if m.root == nil {
		m.root = m.newLeaf()
	}
	m.root = m.own(m.root)
}

func (m *Map[K, V]) newLeaf() *node[K, V] {
	if m.wide {
		l := &wideLeaf[K, V]{}
		l.owner, l.keys, l.vals = m.owner, l.keyRoom[:0], l.valRoom[:0]
		return &l.node
	}
	l := &leaf[K, V]{}
	l.owner, l.keys, l.vals = m.owner, l.keyRoom[:0], l.valRoom[:0]
	return &l.node
}

func (m *Map[K, V]) newInner() *node[K, V] {
	i := &inner[K, V]{}
	i.owner, i.keys, i.kids = m.owner, i.keyRoom[:0], i.kidRoom[:0]
	return &i.node
}

// own returns n, or a copy of it that m may write to.
func (m *Map[K, V]) own(n *node[K, V]) *node[K, V] {
	if n.owner == m.owner {
		return n
	}
	c := m.like(n)
	c.take(n, 0)
	return c
}

func (m *Map[K, V]) like(n *node[K, V]) *node[K, V] {
	if n.isLeaf() {
		return m.newLeaf()
	}
	return m.newInner()
}

// take appends what stands in from at and after it.
func (n *node[K, V]) take(from *node[K, V], at int) {
	n.keys = append(n.keys, from.keys[at:]...)
	if n.isLeaf() {
		n.vals = append(n.vals, from.vals[at:]...)
	} else {
		n.kids = append(n.kids, from.kids[at:]...)
	}
}

// cut drops what stands at and after at.
func (n *node[K, V]) cut(at int) {
	clear(n.keys[at:])
	n.keys = n.keys[:at]
	if n.isLeaf() {
		clear(n.vals[at:])
		n.vals = n.vals[:at]
	} else {
		clear(n.kids[at:])
		n.kids = n.kids[:at]
	}
}

// split moves a part of a full node to a new right neighbour, to make room at at. Half of it; but at the end of the node
// nothing, since keys that come in order would leave every node half empty.
func (m *Map[K, V]) split(n *node[K, V], at int) (right *node[K, V]) {
	right = m.like(n)
	if half := cap(n.keys) / 2; at < cap(n.keys) {
		right.take(n, half)
		n.cut(half)
	}
	return right
}

// insert puts a value into a leaf and returns the new right neighbour if the leaf had to be split.
func (m *Map[K, V]) insert(n *node[K, V], at int, k K, v V) (right *node[K, V]) {
	if n.isFull() {
		right = m.split(n, at)
		if at > len(n.keys) || len(right.keys) == 0 {
			n, at = right, at-len(n.keys)
		}
	}
	n.keys, n.vals = insertAt(n.keys, at, k), insertAt(n.vals, at, v)
	return right
}

// adopt puts a kid into an inner node and returns the new right neighbour if the node had to be split.
func (m *Map[K, V]) adopt(n *node[K, V], at int, kid *node[K, V]) (right *node[K, V]) {
	if n.isFull() {
		right = m.split(n, at)
		if at > len(n.keys) || len(right.keys) == 0 {
			n, at = right, at-len(n.keys)
		}
	}
	n.keys, n.kids = insertAt(n.keys, at, kid.keys[0]), insertAt(n.kids, at, kid)
	return right
}

// insertAt inserts in place; there is room.
func insertAt[T any](s []T, at int, v T) []T {
	s = s[:len(s)+1]
	copy(s[at+1:], s[at:])
	s[at] = v
	return s
}

// Delete removes the value at k and returns it.
func (m *Map[K, V]) Delete(k K) (old V, had bool) {
	if !m.Has(k) { // or nodes would be copied for nothing
		return old, false
	}
	m.prepare()
	var way [tallest]step[K, V]
	depth, n := 0, m.root
	for ; !n.isLeaf(); depth++ {
		at := m.kidFor(n, k)
		n.kids[at] = m.own(n.kids[at])
		way[depth] = step[K, V]{n, at}
		n = n.kids[at]
	}
	at, _ := m.search(n.keys, k)
	old = n.vals[at]
	n.remove(at)
	m.n--
	for depth--; depth >= 0 && n.isPoor(); depth-- {
		n = way[depth].node
		m.join(n, way[depth].at)
	}
	m.lower()
	return old, true
}

// remove takes one key out of a node.
func (n *node[K, V]) remove(at int) {
	copy(n.keys[at:], n.keys[at+1:])
	if n.isLeaf() {
		copy(n.vals[at:], n.vals[at+1:])
	} else {
		copy(n.kids[at:], n.kids[at+1:])
	}
	n.cut(len(n.keys) - 1)
}

// join merges a kid that has few keys with a neighbour, if both fit into one node, and drops a kid that has none.
func (m *Map[K, V]) join(n *node[K, V], at int) {
	kid := n.kids[at]
	fits := func(other int) bool {
		return other >= 0 && other < len(n.kids) && len(n.kids[other].keys)+len(kid.keys) <= cap(kid.keys)
	}
	switch {
	case len(kid.keys) == 0:
		n.remove(at)
	case fits(at - 1):
		left := m.own(n.kids[at-1])
		left.take(kid, 0)
		n.kids[at-1] = left
		n.remove(at)
	case fits(at + 1):
		kid.take(n.kids[at+1], 0)
		n.remove(at + 1)
	}
}

// lower takes off roots that have one kid, or nothing.
func (m *Map[K, V]) lower() {
	for !m.root.isLeaf() && len(m.root.kids) == 1 {
		m.root = m.root.kids[0]
	}
	if len(m.root.keys) == 0 {
		m.root = nil
	}
}

// first is the lowest key below n; the bounds of inner nodes may be lower.
func (n *node[K, V]) first() K {
	for !n.isLeaf() {
		n = n.kids[0]
	}
	return n.keys[0]
}

// Min returns the lowest key and its value.
func (m *Map[K, V]) Min() (k K, v V, ok bool) {
	n := m.root
	if n == nil {
		return k, v, false
	}
	for !n.isLeaf() {
		n = n.kids[0]
	}
	return n.keys[0], n.vals[0], true
}

// Ceiling returns the lowest key that is not below bound, and its value.
func (m *Map[K, V]) Ceiling(bound K) (k K, v V, ok bool) {
	for k, v := range m.From(bound) {
		return k, v, true
	}
	return k, v, false
}

// Floor returns the highest key that is not above bound, and its value.
func (m *Map[K, V]) Floor(bound K) (k K, v V, ok bool) {
	n := m.root
	if n == nil || m.compare(n.first(), bound) > 0 {
		return k, v, false
	}
	for !n.isLeaf() {
		at := m.kidFor(n, bound)
		if at > 0 && m.compare(n.kids[at].first(), bound) > 0 {
			at--
		}
		n = n.kids[at]
	}
	at, found := m.search(n.keys, bound)
	if !found {
		at--
	}
	return n.keys[at], n.vals[at], true
}

// All yields every key and value, in order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.ascend(yield)
		}
	}
}

// From yields the keys that are not below bound, and their values, in order.
func (m *Map[K, V]) From(bound K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.ascendFrom(m.root, bound, yield)
		}
	}
}

// Backward yields every key and value in reverse order.
func (m *Map[K, V]) Backward() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.root != nil {
			m.root.descend(yield)
		}
	}
}

func (n *node[K, V]) ascend(yield func(K, V) bool) bool {
	for i, k := range n.keys {
		if n.isLeaf() && !yield(k, n.vals[i]) || !n.isLeaf() && !n.kids[i].ascend(yield) {
			return false
		}
	}
	return true
}

func (n *node[K, V]) descend(yield func(K, V) bool) bool {
	for i, k := range slices.Backward(n.keys) {
		if n.isLeaf() && !yield(k, n.vals[i]) || !n.isLeaf() && !n.kids[i].descend(yield) {
			return false
		}
	}
	return true
}

func (m *Map[K, V]) ascendFrom(n *node[K, V], bound K, yield func(K, V) bool) bool {
	if n.isLeaf() {
		at, _ := m.search(n.keys, bound)
		for ; at < len(n.keys); at++ {
			if !yield(n.keys[at], n.vals[at]) {
				return false
			}
		}
		return true
	}
	at := m.kidFor(n, bound)
	if !m.ascendFrom(n.kids[at], bound, yield) {
		return false
	}
	for _, kid := range n.kids[at+1:] {
		if !kid.ascend(yield) {
			return false
		}
	}
	return true
}
