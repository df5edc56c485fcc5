package dispatcher

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// mark is where a leader's state stood.
type mark struct{ term, index uint64 }

// within says whether m is from a state at least as new as floor. Terms and indexes of committed states grow together,
// so both are compared: whatever falls behind in either is old.
func (m mark) within(floor mark) bool { return m.term >= floor.term && m.index >= floor.index }

func (m mark) max(n mark) mark { return mark{max(m.term, n.term), max(m.index, n.index)} }

// entry is what an incarnation remembers of one placement, from the order that named it to the acknowledgement of its
// end.
type entry struct {
	pair session.Pair
	// feed is the changefeed that it works for, trigger whether it is the one that reads the events; zero for a placement
	// that was stopped before it was known.
	feed    fsm.ChangefeedID
	trigger bool
	// at is the last position of one that has ended.
	at fsm.Position
	// ended: nothing of it can write any more; the report says how.
	ended bool
	// counted: its "running" has been acknowledged, so it is in the set hash.
	counted bool
	// report is what has not been acknowledged yet; nil for nothing.
	report *fsm.PlacementReport
	sent   bool
	sentAt time.Duration
}

// book is the memory of one incarnation by which each placement starts at most once: pure, and used under one lock.
//
// A placement that ended, or that was never there when its stop was ordered, stays in the book until its report is
// acknowledged; orders from before the acknowledgement's index are refused from then on. So a repeated, delayed or
// replayed start finds either the entry or the floor.
type book struct {
	floor   mark // orders from before it are refused
	carried mark // the newest orders that have been carried out completely
	pairs   map[session.Pair]*entry
	outbox  []*entry // entries that may have something to report, in order of their first report
	setHash uint64
	counted uint32
	crews   map[fsm.ChangefeedID]*crew
}

// crew is the part of the set that works for one changefeed.
type crew struct {
	hash    uint64
	members map[session.Pair]*entry
}

func newBook() *book {
	return &book{pairs: make(map[session.Pair]*entry), crews: make(map[fsm.ChangefeedID]*crew)}
}

// crew returns the crew of a changefeed; it must not be changed.
func (b *book) crew(feed fsm.ChangefeedID) *crew {
	if c := b.crews[feed]; c != nil {
		return c
	}
	return &crew{}
}

// inSet says whether the placement is in the set: from the acknowledgement of its "running" to that of its end.
func (b *book) inSet(p session.Pair) bool {
	e := b.pairs[p]
	return e != nil && e.counted
}

// over says whether the placement has ended and its end has not been acknowledged.
func (b *book) over(p session.Pair) bool {
	e := b.pairs[p]
	return e != nil && e.ended
}

// admit says whether orders from m may be obeyed, and refuses all older ones from then on.
func (b *book) admit(m mark) bool {
	if !m.within(b.floor) {
		return false
	}
	b.floor = m
	return true
}

// start says whether a placement is new; if so, it is in the book from now on.
func (b *book) start(p session.Pair, work *fsm.Work) bool {
	if _, known := b.pairs[p]; known {
		return false
	}
	b.pairs[p] = &entry{pair: p, feed: work.ChangefeedID, trigger: work.Trigger, at: work.Start}
	return true
}

// stop says whether the placement is there to be stopped. One that is not is remembered as stopped, without a position;
// one that has ended is reported again.
func (b *book) stop(p session.Pair) (held bool) {
	e := b.pairs[p]
	switch {
	case e == nil:
		b.pairs[p] = &entry{pair: p}
		b.end(p, fsm.PlacementReport{
			PlacementPosition: fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch}, What: fsm.ReportStopped,
		})
		return false
	case e.ended:
		e.sent = false
		return false
	default:
		return true
	}
}

// running notes that a placement runs.
func (b *book) running(p session.Pair) {
	e := b.pairs[p]
	if e == nil || e.ended {
		return
	}
	b.post(e, fsm.PlacementReport{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch}, What: fsm.ReportRunning,
	})
}

// end notes how a placement ended.
func (b *book) end(p session.Pair, r fsm.PlacementReport) {
	e := b.pairs[p]
	if e == nil || e.ended {
		return
	}
	e.ended = true
	if r.HasPosition {
		e.at = r.Position
	}
	b.post(e, r)
}

func (b *book) post(e *entry, r fsm.PlacementReport) {
	if e.report == nil {
		b.outbox = append(b.outbox, e)
	}
	e.report, e.sent = &r, false
}

// acked takes the acknowledgement of reports, applied or without effect at m.
func (b *book) acked(m mark, pairs []session.ReportedPair) {
	for _, p := range pairs {
		e := b.pairs[p.Pair]
		if e == nil {
			continue
		}
		if p.What == fsm.ReportRunning {
			b.count(e)
		}
		if e.report == nil || e.report.What != p.What {
			continue
		}
		e.report = nil
		if e.ended {
			b.forget(e, m)
		}
	}
	b.outbox = slices.DeleteFunc(b.outbox, func(e *entry) bool { return e.report == nil })
}

func (b *book) count(e *entry) {
	if e.counted {
		return
	}
	e.counted = true
	b.counted++
	share := fsm.PairHash(e.pair.Dispatcher, e.pair.Epoch)
	b.setHash += share
	c := b.crews[e.feed]
	if c == nil {
		c = &crew{members: make(map[session.Pair]*entry)}
		b.crews[e.feed] = c
	}
	c.hash += share
	c.members[e.pair] = e
}

// forget drops a placement whose end is known, and with it every order that might still name it.
func (b *book) forget(e *entry, m mark) {
	if e.counted {
		share := fsm.PairHash(e.pair.Dispatcher, e.pair.Epoch)
		b.counted--
		b.setHash -= share
		c := b.crews[e.feed]
		c.hash -= share
		if delete(c.members, e.pair); len(c.members) == 0 {
			delete(b.crews, e.feed)
		}
	}
	delete(b.pairs, e.pair)
	b.floor = b.floor.max(m)
}

// due returns up to limit reports that were not sent yet, or longer than repeat before now, and takes them as sent.
func (b *book) due(now, repeat time.Duration, limit int) []fsm.PlacementReport {
	var out []fsm.PlacementReport
	for _, e := range b.outbox {
		if len(out) == limit {
			break
		}
		if e.sent && now-e.sentAt < repeat {
			continue
		}
		e.sent, e.sentAt = true, now
		out = append(out, *e.report)
	}
	return out
}

// resend makes every report due: what was sent in an earlier session may be lost.
func (b *book) resend() {
	for _, e := range b.outbox {
		e.sent = false
	}
}

// list names everything in the book, in order.
func (b *book) list() []session.Pair {
	out := make([]session.Pair, 0, len(b.pairs))
	for p := range b.pairs {
		out = append(out, p)
	}
	slices.SortFunc(out, comparePairs)
	return out
}

// positions is what a goodbye says: all that the book holds, as stopped, in order.
func (b *book) positions() []fsm.PlacementPosition {
	out := make([]fsm.PlacementPosition, 0, len(b.pairs))
	for _, p := range b.list() {
		at := fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch}
		if e := b.pairs[p]; e.ended && e.report != nil {
			at = e.report.PlacementPosition
		}
		out = append(out, at)
	}
	return out
}

func comparePairs(x, y session.Pair) int {
	return cmp.Or(cmp.Compare(x.Dispatcher, y.Dispatcher), cmp.Compare(x.Epoch, y.Epoch))
}
