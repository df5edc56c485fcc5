package explore

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrTooLarge ends an exploration that has reached the limit of its configuration: it is not complete.
var ErrTooLarge = errors.New("the world has more states than the limit")

// origin says how a state was first reached.
type origin struct {
	from uint32
	by   action
}

const (
	segmentBits = 16
	segmentSize = 1 << segmentBits
	maxSegments = 1 << 13
)

// origins holds the origin of every state, by number. Safe for concurrent use as long as no number is set twice.
type origins struct {
	mu       sync.Mutex
	segments [maxSegments]atomic.Pointer[[segmentSize]origin]
}

func (o *origins) set(number uint32, from origin) {
	p := &o.segments[number>>segmentBits]
	segment := p.Load()
	if segment == nil {
		o.mu.Lock()
		if segment = p.Load(); segment == nil {
			segment = new([segmentSize]origin)
			p.Store(segment)
		}
		o.mu.Unlock()
	}
	segment[number%segmentSize] = from
}

func (o *origins) get(number uint32) origin {
	return o.segments[number>>segmentBits].Load()[number%segmentSize]
}

// path lists the actions that lead from the first state to a state.
func (o *origins) path(number uint32) []action {
	var back []action
	for number != 0 {
		from := o.get(number)
		back = append(back, from.by)
		number = from.from
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}
