package control

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

func compare(a, b fsm.Incarnation) int { return cmp.Compare(a, b) }

// contact is what a term knows of one incarnation beside the state: soft, and gone with the term.
type contact struct {
	inc fsm.Incarnation

	mu         sync.Mutex
	link       *link // the newest session, nil between sessions
	heard      bool
	heardAt    clock.Reading
	acked      bool
	ackedAt    clock.Reading // capture of the newest acknowledged heartbeat
	gateOpen   bool
	gateReason string
	setEqual   bool
	differs    difference
	progress   map[fsm.DispatcherID]soft
	rates      rates
	crews      []session.Crew // by changefeed
	dispatches uint32         // in its set
	empty      bool           // it holds nothing, by its word and by the state when it said so

	sets *sets // has a lock of its own
}

// soft is a node's word about a dispatcher under one epoch.
type soft = session.Progress

func newContact(inc fsm.Incarnation) *contact {
	return &contact{inc: inc, progress: make(map[fsm.DispatcherID]soft), rates: newRates(), sets: newSets()}
}

// difference is how long set hashes have differed.
type difference struct {
	lasting bool
	since   clock.Reading
}

// connect makes k the session and returns the one before it, if one is left.
func (c *contact) connect(k *link) (old *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, c.link = c.link, k
	c.differs = difference{}
	return old
}

func (c *contact) disconnect(k *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == k {
		c.link = nil
	}
}

func (c *contact) connected() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// acknowledge hands an ack to the newest session, whichever one the heartbeat came by; it reports whether there is one.
func (c *contact) acknowledge(a fence.Ack, index uint64, captured clock.Reading) bool {
	c.mu.Lock()
	k := c.link
	c.acked, c.ackedAt = true, captured
	c.mu.Unlock()
	if k == nil {
		return false
	}
	k.acknowledge(session.Ack{Seq: a.Seq, Term: a.Term, Index: index, ElapsedNS: uint64(a.Elapsed)})
	return true
}

// note takes a heartbeat's words about the node.
func (c *contact) note(hb *session.Heartbeat, at clock.Reading, setEqual, empty bool) {
	crews := hb.Crews
	if !slices.IsSortedFunc(crews, compareCrews) {
		crews = slices.SortedFunc(slices.Values(crews), compareCrews)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard {
		c.rates.since = at
	}
	c.heard, c.heardAt = true, at
	c.gateOpen, c.gateReason, c.setEqual = hb.GateOpen, hb.GateReason, setEqual
	c.crews, c.dispatches, c.empty = crews, hb.Dispatchers, empty
}

func compareCrews(a, b session.Crew) int { return cmp.Compare(a.Changefeed, b.Changefeed) }

// crew returns the newest word about what the node runs of a changefeed.
func (c *contact) crew(feed fsm.ChangefeedID) (session.Crew, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := slices.BinarySearchFunc(c.crews, feed, func(w session.Crew, id fsm.ChangefeedID) int {
		return cmp.Compare(w.Changefeed, id)
	})
	if !ok {
		return session.Crew{}, false
	}
	return c.crews[i], true
}

// holdsNothing says whether the newest heartbeat came from a draining node that had nothing left, and how many
// dispatchers it named.
func (c *contact) holdsNothing() (empty bool, dispatchers uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty, c.dispatches
}

// differing notes whether the set hashes differ at a heartbeat, and returns for how long they have.
func (c *contact) differing(differs bool, at clock.Reading) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !differs {
		c.differs = difference{}
		return 0
	}
	if !c.differs.lasting {
		c.differs = difference{lasting: true, since: at}
	}
	return clock.MinElapsed(c.differs.since, at)
}

// alive says whether the node has been heard within its lease by a session that still stands.
func (c *contact) alive(now clock.Reading, lease time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil && c.heard && clock.MaxElapsed(c.heardAt, now) < lease
}

// advance keeps progress of placements that the view says the incarnation has; what it has no more is swept out when it
// is more than what it has.
func (c *contact) advance(view *fsm.View, news []session.Progress, at clock.Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range news {
		p := &news[i]
		if isCurrent(view, c.inc, session.Pair{Dispatcher: p.Dispatcher, Epoch: p.Epoch}) {
			c.progress[p.Dispatcher] = *p
			c.rates.note(p, at)
		}
	}
	const slack = 256
	if len(c.progress) <= 2*int(view.Load(c.inc).Placements)+slack {
		return
	}
	for id, p := range c.progress {
		if !isCurrent(view, c.inc, session.Pair{Dispatcher: id, Epoch: p.Epoch}) {
			delete(c.progress, id)
		}
	}
}

func (c *contact) progressOf(row fsm.Dispatcher) (session.Progress, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.progress[row.ID]
	return p, ok && p.Epoch == row.Epoch
}

// isCurrent says whether the pair is the dispatcher's placement and on the incarnation.
func isCurrent(view *fsm.View, inc fsm.Incarnation, p session.Pair) bool {
	row, ok := view.Dispatcher(p.Dispatcher)
	return ok && row.Phase != fsm.Absent && row.Incarnation == inc && row.Epoch == p.Epoch
}
