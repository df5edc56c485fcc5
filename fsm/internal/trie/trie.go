// Package trie is a persistent array for dense ids: a radix tree whose leaves hold 16 values inline, so that a million
// rows are some sixty thousand allocations, and that a copy costs O(1).
//
// Nodes belong to the trie that made them; a trie copies a node that it does not own before it writes to it.
package trie

import "iter"

const (
	leafWidth = 16 // what is copied when a leaf is shared
	leafShift = 4
	width     = 32 // of inner nodes
	shift     = 5
)

// owner is an identity; its address is compared.
type owner struct{ _ byte }

type node[T any] struct {
	owner   *owner
	present uint32
	kids    []*node[T] // inner nodes
	vals    []T        // leaves
}

// leaf and inner are nodes with the room for their slice, in one allocation.
type leaf[T any] struct {
	node[T]
	room [leafWidth]T
}

type inner[T any] struct {
	node[T]
	room [width]*node[T]
}

// slot is where the way to key goes on in a node of the level; leaves are level 0.
func slot(key uint64, level uint) uint64 {
	if level == 0 {
		return key % leafWidth
	}
	return key >> below(level) % width
}

// below is the number of low bits of a key that the levels below the level take.
func below(level uint) uint {
	if level == 0 {
		return 0
	}
	return leafShift + (level-1)*shift
}

// Trie maps keys to values. The zero Trie is empty and ready. It is not safe for concurrent use, but a clone and its
// original may be used by different goroutines, and any number of goroutines may read and clone a trie that is not
// written to.
type Trie[T any] struct {
	root   *node[T]
	height uint   // inner levels above the leaves
	owner  *owner // nil when all nodes may be shared
	n      int
}

// Len is the number of values.
func (t *Trie[T]) Len() int { return t.n }

// Clone returns a copy that shares every node until one of the two writes to it.
func (t *Trie[T]) Clone() Trie[T] {
	if t.owner != nil { // a trie that is not written to is only read here
		t.owner = nil
	}
	return *t
}

func (t *Trie[T]) covers(key uint64) bool {
	bits := below(t.height + 1)
	return bits >= 64 || key>>bits == 0
}

// Get returns the value at key.
func (t *Trie[T]) Get(key uint64) (v T, ok bool) {
	if t.root == nil || !t.covers(key) {
		return v, false
	}
	n := t.root
	for level := t.height; level > 0; level-- {
		if n = n.kids[slot(key, level)]; n == nil {
			return v, false
		}
	}
	i := slot(key, 0)
	if n.present>>i&1 == 0 {
		return v, false
	}
	return n.vals[i], true
}

func (t *Trie[T]) newNode(isLeaf bool) *node[T] {
	if isLeaf {
		l := &leaf[T]{}
		l.owner, l.vals = t.owner, l.room[:]
		return &l.node
	}
	i := &inner[T]{}
	i.owner, i.kids = t.owner, i.room[:]
	return &i.node
}

// own returns n, or a copy of it that t may write to.
func (t *Trie[T]) own(n *node[T]) *node[T] {
	if n.owner == t.owner {
		return n
	}
	c := t.newNode(n.vals != nil)
	c.present = n.present
	copy(c.vals, n.vals)
	copy(c.kids, n.kids)
	return c
}

func (t *Trie[T]) grow(key uint64) {
	t.claim()
	if t.root == nil {
		t.height = 0
		t.root = t.newNode(true)
	}
	for !t.covers(key) {
		up := t.newNode(false)
		up.kids[0], up.present = t.root, 1
		t.root = up
		t.height++
	}
	t.root = t.own(t.root)
}

// claim makes t able to own nodes.
func (t *Trie[T]) claim() {
	if t.owner == nil {
		t.owner = &owner{}
	}
}

// Set stores v at key and returns what was there.
func (t *Trie[T]) Set(key uint64, v T) (old T, had bool) {
	t.grow(key)
	n := t.root
	for level := t.height; level > 0; level-- {
		i := slot(key, level)
		if n.kids[i] == nil {
			n.kids[i] = t.newNode(level == 1)
			n.present |= 1 << i
		} else {
			n.kids[i] = t.own(n.kids[i])
		}
		n = n.kids[i]
	}
	i := slot(key, 0)
	old, had = n.vals[i], n.present>>i&1 == 1
	n.vals[i] = v
	n.present |= 1 << i
	if !had {
		t.n++
	}
	return old, had
}

// Delete removes the value at key and returns it.
func (t *Trie[T]) Delete(key uint64) (old T, had bool) {
	if old, had = t.Get(key); !had {
		return old, false
	}
	t.claim()
	t.root = t.own(t.root)
	if t.remove(t.root, t.height, key) {
		t.root = nil
	}
	t.n--
	return old, true
}

// remove clears key below n, which t owns, and says whether n is empty now.
func (t *Trie[T]) remove(n *node[T], level uint, key uint64) bool {
	i := slot(key, level)
	if level == 0 {
		var zero T
		n.vals[i] = zero
		n.present &^= 1 << i
		return n.present == 0
	}
	n.kids[i] = t.own(n.kids[i])
	if t.remove(n.kids[i], level-1, key) {
		n.kids[i] = nil
		n.present &^= 1 << i
	}
	return n.present == 0
}

// All yields the values in key order. The trie must not change meanwhile; iterate over a clone to change it.
func (t *Trie[T]) All() iter.Seq2[uint64, T] {
	return func(yield func(uint64, T) bool) {
		if t.root != nil {
			t.root.walk(t.height, 0, yield)
		}
	}
}

func (n *node[T]) walk(level uint, base uint64, yield func(uint64, T) bool) bool {
	for i := range uint64(width) {
		if n.present>>i&1 == 0 {
			continue
		}
		key := base | i<<below(level)
		if level == 0 {
			if !yield(key, n.vals[i]) {
				return false
			}
		} else if !n.kids[i].walk(level-1, key, yield) {
			return false
		}
	}
	return true
}
