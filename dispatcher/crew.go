package dispatcher

import (
	"maps"
	"slices"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// What an incarnation says of events and of whole changefeeds: the part of it that has the lock.

// join notes that a dispatcher stands at its stop.
func (l *life) join(w *worker) *stand {
	st := &stand{
		pair: w.pair, key: w.event.key, spec: w.event.spec(), trigger: w.order.Work.Trigger, earlier: w.met,
		news: make(chan struct{}, 1),
	}
	l.mu.Lock()
	l.roll.join(st, l.node.elapsed())
	l.mu.Unlock()
	signal(l.wake)
	return st
}

// standing is how a dispatcher's stand stands; ordered says that it has got the permission, and has it taken now.
func (l *life) standing(st *stand) (s StandState, p permission, ordered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ordered = l.roll.take(st)
	return st.state, p, ordered
}

func (l *life) wrote(st *stand, said fsm.BarrierSaid) {
	l.mu.Lock()
	l.roll.wrote(st, said, l.node.elapsed())
	l.mu.Unlock()
	signal(l.wake)
}

func (l *life) leave(st *stand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roll.leave(st)
}

// lastWord ends the stand of a dispatcher that is over: whether it wrote the event counts only as long as its placement
// is current, so the answer is waited for, in time, before "stopped" is said.
func (l *life) lastWord(p session.Pair) {
	l.mu.Lock()
	st := l.roll.stands[p]
	if st != nil {
		l.roll.close(st, l.node.elapsed())
	}
	l.mu.Unlock()
	if st == nil {
		return
	}
	signal(l.wake)
	timer := l.node.cfg.Timers.NewTimer(l.node.cfg.Limits.LastWord)
	defer timer.Stop()
	for l.owes(st) {
		select {
		case <-st.news:
		case <-timer.C():
			l.log.Warn("no answer about an event in time", "dispatcher", uint64(p.Dispatcher), "event", st.key.At.String())
			return
		case <-l.ended:
			return
		}
	}
}

func (l *life) owes(st *stand) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roll.owes(st)
}

// barrierAnswered takes the answer to what was said of events.
func (l *life) barrierAnswered(a *session.BarrierAnswer) {
	l.mu.Lock()
	l.roll.answered(a.Seq, a.Answers, l.node.elapsed(), l.node.cfg.Limits.ReportRepeat)
	l.mu.Unlock()
	signal(l.wake)
}

// askedFor repeats what there is to say about an event.
func (l *life) askedFor(key fsm.BarrierKey) {
	l.mu.Lock()
	l.roll.hurry(key, l.node.elapsed())
	l.mu.Unlock()
	signal(l.wake)
}

// crews tells how far the slowest dispatcher of each changefeed has come. It needs l.mu.
func (l *life) crews() []session.Crew {
	out := make([]session.Crew, 0, len(l.book.crews))
	for _, feed := range slices.Sorted(maps.Keys(l.book.crews)) {
		c := l.book.crews[feed]
		told := session.Crew{Changefeed: feed, SetHash: c.hash}
		first := true
		for p, e := range c.members {
			at := e.at
			if w := l.workers[p]; w != nil {
				at = w.position()
			}
			if first || at.Less(told.Minimum) {
				told.Minimum, first = at, false
			}
		}
		out = append(out, told)
	}
	return out
}

// position is up to where everything is downstream and every event passed.
func (w *worker) position() fsm.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told.Position
}
