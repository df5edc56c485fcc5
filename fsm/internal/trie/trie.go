// Package trie is a persistent array for dense ids: a radix tree of 32-way nodes that hold their values inline, so that
// a million rows are some thirty thousand allocations without a pointer each, and that a copy costs O(1).
//
// Nodes belong to the trie that made them; a trie copies a node that it does not own before it writes to it.
package trie

import "iter"

const (
	width = 32
	shift = 5
	mask  = width - 1
)

// owner is an identity; its address is compared.
type owner struct{ _ byte }

type node[T any] struct {
	owner   *owner
	present uint32
	kids    []*node[T] // inner nodes
	vals    []T        // leaves
}

// Trie maps keys to values. The zero Trie is empty and ready. It is not safe for concurrent use, but a clone and its
// original may be used by different goroutines.
type Trie[T any] struct {
	root   *node[T]
	height uint // inner levels above the leaves
	owner  *owner
	n      int
}

// Len is the number of values.
func (t *Trie[T]) Len() int { return t.n }

// Clone returns a copy that shares every node until one of the two writes to it.
func (t *Trie[T]) Clone() Trie[T] {
	t.owner = &owner{}
	c := *t
	c.owner = &owner{}
	return c
}

func (t *Trie[T]) covers(key uint64) bool {
	bits := (t.height + 1) * shift
	return bits >= 64 || key>>bits == 0
}

// Get returns the value at key.
func (t *Trie[T]) Get(key uint64) (v T, ok bool) {
	if t.root == nil || !t.covers(key) {
		return v, false
	}
	n := t.root
	for level := t.height; level > 0; level-- {
		if n = n.kids[key>>(level*shift)&mask]; n == nil {
			return v, false
		}
	}
	i := key & mask
	if n.present>>i&1 == 0 {
		return v, false
	}
	return n.vals[i], true
}

func (t *Trie[T]) newNode(leaf bool) *node[T] {
	n := &node[T]{owner: t.owner}
	if leaf {
		n.vals = make([]T, width)
	} else {
		n.kids = make([]*node[T], width)
	}
	return n
}

// own returns n, or a copy of it that t may write to.
func (t *Trie[T]) own(n *node[T]) *node[T] {
	if n.owner == t.owner {
		return n
	}
	c := &node[T]{owner: t.owner, present: n.present}
	if n.vals != nil {
		c.vals = append(make([]T, 0, width), n.vals...)
	} else {
		c.kids = append(make([]*node[T], 0, width), n.kids...)
	}
	return c
}

func (t *Trie[T]) grow(key uint64) {
	if t.owner == nil {
		t.owner = &owner{}
	}
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

// Set stores v at key and returns what was there.
func (t *Trie[T]) Set(key uint64, v T) (old T, had bool) {
	t.grow(key)
	n := t.root
	for level := t.height; level > 0; level-- {
		i := key >> (level * shift) & mask
		if n.kids[i] == nil {
			n.kids[i] = t.newNode(level == 1)
			n.present |= 1 << i
		} else {
			n.kids[i] = t.own(n.kids[i])
		}
		n = n.kids[i]
	}
	i := key & mask
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
	t.root = t.own(t.root)
	if t.remove(t.root, t.height, key) {
		t.root = nil
	}
	t.n--
	return old, true
}

// remove clears key below n, which t owns, and says whether n is empty now.
func (t *Trie[T]) remove(n *node[T], level uint, key uint64) bool {
	i := key >> (level * shift) & mask
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
		key := base | i<<(level*shift)
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
