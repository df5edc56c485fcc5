package fence

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// TrackerConfig describes a server's view of the leases during one term.
type TrackerConfig struct {
	// Term is the leader's own; acks carry it.
	Term uint64
	// Class is the server's clock class: its drift lengthens every wait.
	Class clock.Class
	// Appends is the process's record of append times, shared by all terms.
	Appends *Appends
}

// Tracker is the server's half of the protocol for one term of leadership, pure: every method takes the reading it decides
// by. It dies with its term, and all its timers with it; only append times outlive it. Make it after the term's first own
// entry has been applied. All methods are safe for concurrent use.
type Tracker struct {
	cfg TrackerConfig

	mu       sync.Mutex
	contacts map[uint64]*contact
}

// contact is what this term knows of one incarnation.
type contact struct {
	newest  uint64 // the newest heartbeat heard
	heardAt clock.Reading
	pending bool   // heard since the last capture
	refused bool   // a tick's verdict refused it: it is fenced for good
	acked   uint64 // the newest heartbeat acknowledged
	ackedAt clock.Reading
	standing
}

// standing is since when a node is heard without being of use.
type standing struct {
	closedSince, stillSince clock.Reading
	closed, still           bool
	done                    uint64 // the orders carried out when stillSince was set
	limit                   time.Duration
}

// Heartbeat is one that arrived.
type Heartbeat struct {
	Incarnation, Seq uint64
	// Open says that the node's gate was open when it sent this.
	Open bool
	// Done is the index of the orders that the node has carried out, Due the index of the newest orders that concern it.
	Done, Due uint64
	// Lease is the one recorded for the incarnation.
	Lease time.Duration
}

// HeardResult says what became of a heartbeat.
type HeardResult uint8

const (
	// HeardCounted: the next tick will name the incarnation.
	HeardCounted HeardResult = iota + 1
	// HeardOld: a newer heartbeat was heard before; it changes nothing.
	HeardOld
	// HeardSilenced: the node has been closed or has stood still too long, no tick names it until that ends.
	HeardSilenced
	// HeardRefused: the incarnation is fenced; the node has to register anew.
	HeardRefused
)

// String names the result.
func (h HeardResult) String() string {
	switch h {
	case HeardCounted:
		return "counted"
	case HeardOld:
		return "old"
	case HeardSilenced:
		return "silenced"
	case HeardRefused:
		return "refused"
	default:
		return fmt.Sprintf("heard(%d)", uint8(h))
	}
}

// NewTracker returns a tracker that has heard nobody. An error is a *SettingError.
func NewTracker(cfg TrackerConfig) (*Tracker, error) {
	switch {
	case cfg.Term == 0:
		return nil, &SettingError{CodeNoTerm, "Term", "term 0 has no leader; make the tracker when the own term has begun"}
	case cfg.Appends == nil:
		return nil, &SettingError{CodeNoAppends, "Appends", "a tracker needs the process's record of append times; pass it"}
	case !cfg.Class.Valid():
		return nil, &SettingError{CodeUnknownClass, "Class", "clock class " + cfg.Class.String() + " is unknown; use boot+raw or monotonic"}
	}
	return &Tracker{cfg: cfg, contacts: make(map[uint64]*contact)}, nil
}

// Heard takes a heartbeat that arrived at at.
func (t *Tracker) Heard(hb Heartbeat, at clock.Reading) HeardResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.contacts[hb.Incarnation]
	if c == nil {
		c = &contact{}
		t.contacts[hb.Incarnation] = c
	}
	switch {
	case c.refused:
		return HeardRefused
	case hb.Seq <= c.newest:
		return HeardOld
	}
	c.newest, c.heardAt = hb.Seq, at
	c.note(hb, at)
	if c.silenced(at) {
		c.pending = false
		return HeardSilenced
	}
	c.pending = true
	return HeardCounted
}

func (s *standing) note(hb Heartbeat, at clock.Reading) {
	s.limit = silenceAfter(hb.Lease)
	if closed := !hb.Open; closed != s.closed {
		s.closed, s.closedSince = closed, at
	}
	still := hb.Done < hb.Due
	if still != s.still || hb.Done != s.done {
		s.still, s.done, s.stillSince = still, hb.Done, at
	}
}

func (s *standing) silenced(now clock.Reading) bool {
	return s.closed && clock.MinElapsed(s.closedSince, now) > s.limit ||
		s.still && clock.MinElapsed(s.stillSince, now) > s.limit
}

// Batch is what one tick names: exactly the heartbeats whose acks it may release.
type Batch struct {
	heartbeats []captured
}

type captured struct {
	incarnation, seq uint64
	heardAt          clock.Reading
}

// Incarnations are the ones to name in the tick, ascending.
func (b *Batch) Incarnations() []uint64 {
	out := make([]uint64, len(b.heartbeats))
	for i, h := range b.heartbeats {
		out[i] = h.incarnation
	}
	return out
}

// Capture takes what was heard since the last capture into a batch. Call it before the tick's entry is proposed: every
// heartbeat in the batch has arrived before the entry is appended anywhere, and one that arrives later waits for the next.
// A batch whose tick is not applied here is dropped; the nodes' next heartbeats count.
func (t *Tracker) Capture() *Batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &Batch{}
	for inc, c := range t.contacts {
		if c.pending {
			c.pending = false
			b.heartbeats = append(b.heartbeats, captured{inc, c.newest, c.heardAt})
		}
	}
	slices.SortFunc(b.heartbeats, func(x, y captured) int { return cmp.Compare(x.incarnation, y.incarnation) })
	return b
}

// Release returns the acks that may go out at now. Call it when the tick that was built from the batch has been applied
// on this server, with the term of the applied entry and the incarnations that its verdict refused: a commit alone
// releases nothing, and an entry of another term is not the one that was proposed, even if it has its index. Acks go out
// in the order of the calls, each heartbeat's once; refused incarnations are refused from now on.
//
// The time between acks that they carry is measured between the values of now, but never from before the acknowledged
// heartbeat arrived: a node takes more leader's time than passed on its own clock for a stall, so a leader that was
// stopped between reading its clock and capturing must not count the pause.
func (t *Tracker) Release(b *Batch, term uint64, refused []uint64, now clock.Reading) []Ack {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term != t.cfg.Term {
		return nil
	}
	for _, inc := range refused {
		if c := t.contacts[inc]; c != nil {
			c.refused, c.pending = true, false
		}
	}
	acks := make([]Ack, 0, len(b.heartbeats))
	for _, h := range b.heartbeats {
		c := t.contacts[h.incarnation]
		if c == nil || c.refused || h.seq <= c.acked {
			continue
		}
		ack := Ack{Incarnation: h.incarnation, Seq: h.seq, Term: t.cfg.Term, LeaderClass: t.cfg.Class}
		if c.acked > 0 {
			ack.Elapsed = max(0, clock.MaxElapsed(c.ackedAt, now))
		}
		c.acked, c.ackedAt = h.seq, clock.Later(h.heardAt, now)
		acks = append(acks, ack)
	}
	return acks
}

// Node is what the applied state says of a live incarnation.
type Node struct {
	Incarnation uint64
	// LastTick is the index of the last applied entry that named it and was accepted for it; registration is the first.
	LastTick uint64
	// Lease and Class are those recorded at registration.
	Lease time.Duration
	Class clock.Class
	// Fenced says that it has been fenced by command: no tick names it, and the guard does not hold its expiry back.
	Fenced bool
}

// Expirable is an incarnation whose lease is over whatever its clock says.
type Expirable struct {
	Incarnation uint64
	// ExpectTick goes into the expiry, a compare-and-set: a tick that names the incarnation in between defeats it.
	ExpectTick uint64
	// Silent is how long ago this server received that tick.
	Silent time.Duration
	Fenced bool
}

// Due returns the incarnations that may be expired at now, longest silent first, given all live ones of the applied
// state. An incarnation is due when W has passed on this server's clock since its own log received the last applied
// entry that named it; see [Wait]. One that has been heard and waits for the next tick is left to that tick.
//
// Due also forgets all that it knows of incarnations that are not among nodes.
func (t *Tracker) Due(now clock.Reading, nodes []Node) []Expirable {
	t.mu.Lock()
	defer t.mu.Unlock()
	live := make(map[uint64]struct{}, len(nodes))
	var due []Expirable
	for _, n := range nodes {
		live[n.Incarnation] = struct{}{}
		silent := clock.MinElapsed(t.cfg.Appends.LearnTick(n.Incarnation, n.LastTick, now), now)
		if silent < Wait(n.Lease, n.Class, t.cfg.Class) {
			continue
		}
		if c := t.contacts[n.Incarnation]; c != nil && c.pending && !n.Fenced {
			continue
		}
		due = append(due, Expirable{n.Incarnation, n.LastTick, silent, n.Fenced})
	}
	t.forget(live)
	slices.SortFunc(due, func(x, y Expirable) int {
		return cmp.Or(cmp.Compare(y.Silent, x.Silent), cmp.Compare(x.Incarnation, y.Incarnation))
	})
	return due
}

// forget keeps an incarnation that has just been heard: its registration may be newer than the state that was read.
func (t *Tracker) forget(live map[uint64]struct{}) {
	alive := func(inc uint64) bool { _, ok := live[inc]; return ok }
	for inc, c := range t.contacts {
		if !c.pending && !alive(inc) {
			delete(t.contacts, inc)
		}
	}
	t.cfg.Appends.Forget(alive)
}

// Silenced returns the incarnations that are heard but not named any more at now, ascending: closed, or standing still
// with orders due, for longer than twice their lease.
func (t *Tracker) Silenced(now clock.Reading) []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []uint64
	for inc, c := range t.contacts {
		if !c.refused && c.silenced(now) {
			out = append(out, inc)
		}
	}
	slices.Sort(out)
	return out
}
