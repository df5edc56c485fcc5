package bubble

import (
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// audit looks at the state of each server between every two entries.
type audit struct {
	mu     sync.Mutex
	hashes map[uint64]fsm.Digest
	looks  int
	wrong  []string
}

func newAudit() *audit { return &audit{hashes: map[uint64]fsm.Digest{}} }

// look checks the state that the next entry will be applied to.
func (a *audit) look(id string, n *raftnode.Node) {
	view, _, ok := n.Local()
	if !ok {
		return
	}
	err := view.CheckInvariants()
	index := view.Meta().Index
	hash := view.Hash()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	if err != nil {
		a.wrong = append(a.wrong, fmt.Sprintf("%s at index %d: %v", id, index, err))
	}
	known, seen := a.hashes[index]
	if seen && known != hash {
		a.wrong = append(a.wrong, fmt.Sprintf("%s has another state at index %d than another server", id, index))
	}
	a.hashes[index] = hash
}

// findings is what was wrong, and how often was looked.
func (a *audit) findings() (wrong []string, looks int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wrong, a.looks
}

// ownership is what the ledger of the sink says about who wrote when.
type ownership struct {
	accepted, refused int
	handovers         int
	smallest          time.Duration // gap between the last effect of an owner and the first of the next
	wrong             []string
}

// judgeLedger checks that no key had two owners at one instant: what an owner did lies before all that the next one did.
func judgeLedger(calls []effect) ownership {
	o := ownership{smallest: time.Hour}
	last := map[place]map[fsm.Span]effect{}
	for _, e := range calls {
		if !e.accepted {
			o.refused++
			continue
		}
		o.accepted++
		spans := last[e.place.whole()]
		if spans == nil {
			spans = map[fsm.Span]effect{}
			last[e.place.whole()] = spans
		}
		own, again := spans[e.place.span]
		again = again && own.token.Epoch == e.token.Epoch
		handover := false
		for span, before := range spans {
			if span.Overlaps(e.place.span) {
				handover = o.follows(before, e, again) || handover
			}
		}
		if handover {
			o.handovers++
		}
		spans[e.place.span] = e
	}
	return o
}

// follows looks at two calls of one range, the later of an owner that has been seen there again or for the first time; it
// says whether the earlier was of another owner.
func (o *ownership) follows(before, e effect, again bool) bool {
	switch {
	case before.token.Epoch > e.token.Epoch:
		o.wrong = append(o.wrong, fmt.Sprintf("an old owner wrote after the new one: %+v, then %+v", before, e))
		return false
	case before.token.Epoch < e.token.Epoch && again:
		return false
	case before.token.Epoch < e.token.Epoch:
		gap := e.at.Sub(before.at)
		o.smallest = min(o.smallest, gap)
		if gap <= 0 {
			o.wrong = append(o.wrong, fmt.Sprintf("two owners at one instant: %+v and %+v", before, e))
		}
		return true
	case before.place != e.place:
		o.wrong = append(o.wrong, fmt.Sprintf("two ranges under one epoch: %+v, then %+v", before, e))
	case before.token.Compare(e.token) > 0:
		o.wrong = append(o.wrong, fmt.Sprintf("tokens decrease: %+v, then %+v", before, e))
	case before.node != e.node:
		o.wrong = append(o.wrong, fmt.Sprintf("two nodes under one epoch: %+v, then %+v", before, e))
	}
	return false
}
