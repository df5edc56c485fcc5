package client

import (
	"slices"
	"sync"
)

// maxKnown bounds the addresses that are remembered.
const maxKnown = 64

// finder remembers where servers are, the most promising first. It is safe for concurrent use.
type finder struct {
	mu    sync.Mutex // guards order
	order []string
}

func newFinder(addresses []string) *finder {
	f := &finder{}
	for _, a := range addresses {
		if !slices.Contains(f.order, a) {
			f.order = append(f.order, a)
		}
	}
	return f
}

// answered puts a server first: it leads, or knows the way.
func (f *finder) answered(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.order[0] == address {
		return
	}
	f.forget(address)
	f.order = slices.Insert(f.order, 0, address)
	if len(f.order) > maxKnown {
		f.order = f.order[:maxKnown]
	}
}

// failed puts a server last.
func (f *finder) failed(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.order, address) {
		f.forget(address)
		f.order = append(f.order, address)
	}
}

func (f *finder) forget(address string) {
	if i := slices.Index(f.order, address); i >= 0 {
		f.order = slices.Delete(f.order, i, i+1)
	}
}

// search begins to look for a server that answers.
func (f *finder) search() *search {
	s := &search{finder: f}
	s.restart()
	return s
}

// search asks each server at most once a round, whatever the others say about who leads: two servers that name each
// other are two tries, not a loop.
type search struct {
	finder *finder
	queue  []string
	asked  map[string]bool
}

func (s *search) restart() {
	s.finder.mu.Lock()
	defer s.finder.mu.Unlock()
	s.queue, s.asked = slices.Clone(s.finder.order), map[string]bool{}
}

// next is the next server to ask; ok is false when the round is over.
func (s *search) next() (address string, ok bool) {
	for len(s.queue) > 0 {
		address, s.queue = s.queue[0], s.queue[1:]
		if !s.asked[address] && len(s.asked) < maxKnown {
			s.asked[address] = true
			return address, true
		}
	}
	return "", false
}

// hint says that the address is where to ask next.
func (s *search) hint(address string) {
	if address != "" && !s.asked[address] {
		s.queue = slices.Insert(s.queue, 0, address)
	}
}
