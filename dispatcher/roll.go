package dispatcher

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// StandState says how far a dispatcher that stands at an event has come with it.
type StandState uint8

// The states. A dispatcher that stands writes nothing beyond the event.
const (
	StandWaiting   StandState = iota + 1 // everything before the event is downstream; the others are awaited
	StandWriting                         // it has the permission to write the event
	StandWritten                         // it has written; the acknowledgement is awaited
	StandPassing                         // the event is written; the acknowledgement of "passed" is awaited
	StandPast                            // acknowledged: it goes on
	StandForgotten                       // the state machine knows no such event
)

// String is the state's word.
func (s StandState) String() string {
	switch s {
	case StandWaiting:
		return "waiting"
	case StandWriting:
		return "writing"
	case StandWritten:
		return "written"
	case StandPassing:
		return "passing"
	case StandPast:
		return "past"
	case StandForgotten:
		return "forgotten"
	default:
		return "unset"
	}
}

// stand is one dispatcher at one event.
type stand struct {
	pair    session.Pair
	key     fsm.BarrierKey
	spec    fsm.BarrierSpec
	trigger bool
	earlier fsm.Position  // of a trigger: the event before, or where it started
	news    chan struct{} // gets a value when something below has changed

	state      StandState
	permission permission // the newest one
	begun      bool       // the dispatcher has taken it
	closed     bool       // the dispatcher is ending: nothing is begun any more
	trouble    fsm.Reason // why the report is not taken, if a person has to look
}

// permission allows one dispatcher to write one event, once.
type permission struct {
	number uint64
	tables []fsm.TableRef // that the event is about and the changefeed replicates
}

// roll is what the dispatchers of one incarnation say of events, and what they have been told: pure, and used under one
// lock. A word is repeated until it has been answered, and a dispatcher stands until its "written" or "passed" has been
// acknowledged: only then is it in the log.
type roll struct {
	stands map[session.Pair]*stand
	words  map[session.Pair][]*word
	// at counts the stands at an event, singly marks events about which a report for all was not taken.
	at     map[fsm.BarrierKey]int
	singly map[fsm.BarrierKey]bool
	// sent are the messages that may still be answered, from the oldest of the session to seq.
	sent   map[uint64][]sentReport
	oldest uint64
	seq    uint64
	next   time.Duration // no word is due before
}

// Of one event a dispatcher has at most one word as somebody who stands there, and one as holder of a permission.
type wordKey struct {
	pair   session.Pair
	key    fsm.BarrierKey
	holder bool
}

// word is something that has not been answered.
type word struct {
	wordKey
	what       fsm.BarrierSaid
	permission uint64
	due        time.Duration
}

const (
	// never is when nothing is due.
	never = time.Duration(math.MaxInt64)
	// gatherFor is how long a word waits for others about the same event.
	gatherFor = 20 * time.Millisecond
	// retrySoon is when a word is repeated that came a moment too early, slowly how many times longer than usual one
	// waits that a person has to look at.
	retrySoon = 100 * time.Millisecond
	slowly    = 10
)

func newRoll() *roll {
	return &roll{
		stands: make(map[session.Pair]*stand), words: make(map[session.Pair][]*word), at: make(map[fsm.BarrierKey]int),
		singly: make(map[fsm.BarrierKey]bool), sent: make(map[uint64][]sentReport), oldest: 1, next: never,
	}
}

// join notes that a dispatcher stands at an event, and that it has to say so.
func (r *roll) join(st *stand, now time.Duration) {
	st.state = StandWaiting
	r.stands[st.pair] = st
	r.at[st.key]++
	r.say(st.pair, st.key, fsm.SaidWaiting, 0, now+gatherFor)
}

// leave takes a dispatcher away from its event. What it said as holder of a permission stays until it is answered.
func (r *roll) leave(st *stand) {
	if r.stands[st.pair] != st {
		return
	}
	delete(r.stands, st.pair)
	r.unsay(wordKey{st.pair, st.key, false})
	if r.at[st.key]--; r.at[st.key] == 0 {
		delete(r.at, st.key)
		delete(r.singly, st.key)
	}
}

// forget drops everything of a placement that has ended.
func (r *roll) forget(p session.Pair) {
	if st := r.stands[p]; st != nil {
		r.leave(st)
	}
	delete(r.words, p)
}

func isHolders(what fsm.BarrierSaid) bool {
	return what == fsm.SaidWritten || what == fsm.SaidNotBegun || what == fsm.SaidUnknown
}

// say has a word repeated until it is answered; it takes the place of the one before of its kind.
func (r *roll) say(p session.Pair, key fsm.BarrierKey, what fsm.BarrierSaid, permission uint64, due time.Duration) {
	k := wordKey{p, key, isHolders(what)}
	r.unsay(k)
	r.words[p] = append(r.words[p], &word{wordKey: k, what: what, permission: permission, due: due})
	r.next = min(r.next, due)
}

// word returns what has not been answered; nil for nothing.
func (r *roll) word(k wordKey) *word {
	for _, w := range r.words[k.pair] {
		if w.wordKey == k {
			return w
		}
	}
	return nil
}

// unsay drops a word, as one that has been answered.
func (r *roll) unsay(k wordKey) {
	left := slices.DeleteFunc(r.words[k.pair], func(w *word) bool { return w.wordKey == k })
	if len(left) == 0 {
		delete(r.words, k.pair)
		return
	}
	r.words[k.pair] = left
}

// all yields every word that has not been answered.
func (r *roll) all() iter.Seq[*word] {
	return func(yield func(*word) bool) {
		for _, words := range r.words {
			for _, w := range words {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// hurry makes words about an event due, those included that have been answered; the zero key is every event.
func (r *roll) hurry(key fsm.BarrierKey, now time.Duration) {
	for _, st := range r.stands {
		if st.key != key || st.state != StandWaiting {
			continue
		}
		if r.word(wordKey{st.pair, key, false}) == nil {
			r.say(st.pair, key, fsm.SaidWaiting, 0, now)
		}
	}
	for w := range r.all() {
		if w.key == key || key == (fsm.BarrierKey{}) {
			w.due = min(w.due, now)
		}
	}
	r.next = min(r.next, now)
}

// resend makes every word due and forgets what waits for an answer: it was sent in an earlier session.
func (r *roll) resend(now time.Duration) {
	clear(r.sent)
	r.oldest = r.seq + 1
	r.hurry(fsm.BarrierKey{}, now)
}

// order takes what the leader orders about an event. Only placements that are named count, or, for an order about all,
// the set that is named by its hash.
func (r *roll) order(o *fsm.BarrierOrder, b *book, now time.Duration) {
	switch {
	case o.Action == fsm.ActionWrite:
		for _, p := range o.Pairs {
			r.permit(p, o, b, now)
		}
	case o.Action == fsm.ActionPass && o.All:
		if b.crew(o.Key.Changefeed).hash != o.SetHash {
			return
		}
		for _, st := range r.stands {
			r.pass(st, o.Key, now)
		}
	case o.Action == fsm.ActionPass:
		for _, p := range o.Pairs {
			if st := r.stands[p]; st != nil {
				r.pass(st, o.Key, now)
			}
		}
	}
}

// permit gives a permission to write to a dispatcher that stands at the event. The same answer is repeated when it is
// asked again, nothing is said while it writes, and what it cannot write is said to be so.
func (r *roll) permit(p session.Pair, o *fsm.BarrierOrder, b *book, now time.Duration) {
	st := r.stands[p]
	here := st != nil && st.key == o.Key
	switch w := r.word(wordKey{p, o.Key, true}); {
	case w != nil && w.permission == o.Permission:
		w.due, r.next = min(w.due, now), min(r.next, now)
	case here && st.state == StandWaiting && !st.closed && st.permission.number <= o.Permission:
		st.state, st.begun = StandWriting, false
		st.permission = permission{o.Permission, o.Tables}
		r.unsay(wordKey{p, o.Key, false}) // it has been heard, or there would be no permission
		signal(st.news)
	case here && (!st.closed || st.permission.number >= o.Permission), b.over(p):
		// It is under way or has been answered, or the report of the placement's end says the rest.
	default:
		r.say(p, o.Key, fsm.SaidNotBegun, o.Permission, now)
	}
}

// pass lets a dispatcher that waits at the event pass.
func (r *roll) pass(st *stand, key fsm.BarrierKey, now time.Duration) {
	if st.key != key || st.state != StandWaiting || st.closed {
		return
	}
	st.state, st.trouble = StandPassing, 0
	r.say(st.pair, key, fsm.SaidPassed, 0, now+gatherFor)
	signal(st.news)
}

// take gives the dispatcher the permission that it has got, once.
func (r *roll) take(st *stand) (p permission, ok bool) {
	if st.state != StandWriting || st.begun || st.closed {
		return permission{}, false
	}
	st.begun = true
	return st.permission, true
}

// wrote notes how the write of an event ended, and has it said.
func (r *roll) wrote(st *stand, said fsm.BarrierSaid, now time.Duration) {
	st.state = StandWaiting
	if said == fsm.SaidWritten {
		st.state = StandWritten
	}
	r.say(st.pair, st.key, said, st.permission.number, now)
}

// close ends a stand with its dispatcher. A permission that has not been taken is given back.
func (r *roll) close(st *stand, now time.Duration) {
	st.closed = true
	if st.state == StandWriting && !st.begun {
		r.wrote(st, fsm.SaidNotBegun, now)
	}
}

// owes says whether a word of the placement as holder of a permission has not been answered.
func (r *roll) owes(st *stand) bool {
	return r.word(wordKey{st.pair, st.key, true}) != nil
}
