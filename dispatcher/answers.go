package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

const (
	// maxPairs bounds the placements that a message names, maxBarrierBytes its size, so that it fits into one entry of
	// the log.
	maxPairs        = 500
	maxBarrierBytes = 32 << 10
	// A report about all is worth it from allFrom placements on, if no more than one in allShare is excepted.
	allFrom  = 8
	allShare = 4
	// maxUnanswered bounds the messages whose answers are waited for; older ones are repeated by then.
	maxUnanswered = 1024
)

// sentReport is what a message said, so that its answer can be understood.
type sentReport struct {
	what       fsm.BarrierSaid
	permission uint64
	key        fsm.BarrierKey
	pairs      []session.Pair
	all        bool
}

// saying is a group of words that one report can carry.
type saying struct {
	key        fsm.BarrierKey
	what       fsm.BarrierSaid
	permission uint64
	alone      session.Pair // of a holder or a trigger, whose reports are their own
	variant    int          // tells different accounts of one event apart: the state machine shows that they differ
}

func compareSayings(x, y saying) int {
	return cmp.Or(
		cmp.Compare(x.key.Changefeed, y.key.Changefeed), cmp.Compare(x.key.Run, y.key.Run), x.key.At.Compare(y.key.At),
		cmp.Compare(y.what, x.what), cmp.Compare(x.permission, y.permission), comparePairs(x.alone, y.alone),
		cmp.Compare(x.variant, y.variant),
	)
}

// due returns one message of words that are due and takes them as sent; more says that others are left.
func (r *roll) due(now, repeat time.Duration, b *book) (m *session.BarrierReport, more bool) {
	if now < r.next {
		return nil, false
	}
	groups := r.gather(now, b)
	var (
		said    []sentReport
		reports []fsm.BarrierReport
	)
	pairs, size := 0, 0
	for _, g := range slices.SortedFunc(maps.Keys(groups), compareSayings) {
		words := groups[g]
		if pairs >= maxPairs || size >= maxBarrierBytes {
			more = true
			break
		}
		report := r.report(g, words[0])
		if r.forAll(&report, g, words, b) {
			pairs++
		} else {
			words = words[:min(len(words), maxPairs-pairs)]
			more = more || len(words) < len(groups[g])
			for _, w := range words {
				report.Pairs = append(report.Pairs, w.pair)
			}
			pairs += len(words)
		}
		said = append(said, sent(&report, words))
		reports = append(reports, report)
		size += sizeOf(&report)
		for _, w := range words {
			w.due = now + repeat
		}
	}
	r.rest(b)
	if len(reports) == 0 {
		return nil, false
	}
	r.seq++
	r.sent[r.seq] = said
	for ; r.seq-r.oldest >= maxUnanswered; r.oldest++ {
		delete(r.sent, r.oldest)
	}
	return &session.BarrierReport{Seq: r.seq, Reports: reports}, more
}

func sent(report *fsm.BarrierReport, words []*word) sentReport {
	s := sentReport{what: report.What, permission: report.Permission, key: report.Key, all: report.All}
	for _, w := range words {
		s.pairs = append(s.pairs, w.pair)
	}
	return s
}

// speakable: a word counts from the acknowledgement of "running" on; a holder has been running for certain.
func (w *word) speakable(b *book) bool { return w.holder || b.inSet(w.pair) }

// gather groups the words that are due, or will be so soon that they go along, each group in the order of its pairs.
func (r *roll) gather(now time.Duration, b *book) map[saying][]*word {
	groups := make(map[saying][]*word)
	accounts := make(map[fsm.BarrierKey][]*fsm.BarrierSpec)
	for w := range r.all() {
		if now+gatherFor < w.due || !w.speakable(b) {
			continue
		}
		g := saying{key: w.key, what: w.what, permission: w.permission}
		st := r.stands[w.pair]
		switch {
		case w.holder || st == nil || st.trigger:
			g.alone = w.pair
		case w.what == fsm.SaidWaiting:
			known := accounts[w.key]
			g.variant = slices.IndexFunc(known, st.spec.Equal)
			if g.variant < 0 {
				g.variant, accounts[w.key] = len(known), append(known, &st.spec)
			}
		}
		groups[g] = append(groups[g], w)
	}
	for _, words := range groups {
		slices.SortFunc(words, func(x, y *word) int { return comparePairs(x.pair, y.pair) })
	}
	return groups
}

// rest notes when the next word is due.
func (r *roll) rest(b *book) {
	r.next = never
	for w := range r.all() {
		if w.speakable(b) {
			r.next = min(r.next, w.due)
		}
	}
}

// report is the beginning of a group's report.
func (r *roll) report(g saying, first *word) fsm.BarrierReport {
	report := fsm.BarrierReport{Key: g.key, What: g.what, Permission: g.permission}
	if st := r.stands[first.pair]; g.what == fsm.SaidWaiting && st != nil {
		report.Spec = st.spec
		if st.trigger {
			report.Earlier = st.earlier
		}
	}
	return report
}

// forAll makes the report one about everything of the changefeed in the node's set but the trigger, if that is true of
// nearly all of it.
func (r *roll) forAll(report *fsm.BarrierReport, g saying, words []*word, b *book) bool {
	if len(words) < allFrom || g.alone != (session.Pair{}) || r.singly[g.key] {
		return false
	}
	state := StandWaiting
	if g.what == fsm.SaidPassed {
		state = StandPassing
	}
	c := b.crew(g.key.Changefeed)
	var except []fsm.DispatcherID
	for p, e := range c.members {
		st := r.stands[p]
		if e.trigger || (st != nil && st.key == g.key && st.state == state && (state == StandPassing || st.spec.Equal(&report.Spec))) {
			continue
		}
		if except = append(except, p.Dispatcher); len(except)*allShare > len(words) {
			return false
		}
	}
	slices.Sort(except)
	report.All, report.SetHash, report.Except = true, c.hash, except
	return true
}

// sizeOf is about how much room a report takes in the log, in bytes.
func sizeOf(report *fsm.BarrierReport) int {
	const fixed, each, table = 128, 24, 64
	spec := &report.Spec
	size := fixed + len(spec.Statement) + each*(len(report.Pairs)+len(report.Except))
	return size + table*(len(spec.Tables)+len(spec.Drop)+len(spec.Add)+2*len(spec.Rename))
}

// answered takes the answers to a message: one for each placement that a report named, or one for a report about all.
func (r *roll) answered(seq uint64, answers []fsm.Reason, now, repeat time.Duration) {
	said := r.sent[seq]
	delete(r.sent, seq)
	want := 0
	for i := range said {
		want += said[i].answers()
	}
	if want != len(answers) {
		return // whatever that is about: the words are repeated
	}
	for i := range said {
		s := &said[i]
		for j, p := range s.pairs {
			answer := answers[min(j, s.answers()-1)]
			if w := r.word(wordKey{p, s.key, isHolders(s.what)}); w != nil && w.what == s.what && w.permission == s.permission {
				r.answer(w, answer, s.all, now, repeat)
			}
		}
		answers = answers[s.answers():]
	}
}

func (s *sentReport) answers() int {
	if s.all {
		return 1
	}
	return len(s.pairs)
}

// answer does what follows from the answer to a word. One about all that is not taken may be about anybody: each of
// them says it again for itself.
func (r *roll) answer(w *word, answer fsm.Reason, all bool, now, repeat time.Duration) {
	taken := answer == fsm.ReportCounted || answer == fsm.ReportInert
	if all && !taken {
		if r.at[w.key] > 0 {
			r.singly[w.key] = true
		}
		r.later(w, now)
		return
	}
	if w.holder {
		r.answerHolder(w, answer, now, repeat)
		return
	}
	st := r.stands[w.pair]
	switch {
	case st == nil || st.key != w.key:
		r.unsay(w.wordKey)
	case answer == fsm.BarrierForget:
		r.over(w, st, StandForgotten)
	case taken && w.what == fsm.SaidPassed:
		r.over(w, st, StandPast)
	case taken:
		st.trouble = 0
		r.unsay(w.wordKey)
	case answer == fsm.BarrierPass && w.what == fsm.SaidWaiting:
		r.unsay(w.wordKey)
		r.pass(st, w.key, now)
	default:
		r.again(w, st, answer, now, repeat)
	}
}

// over ends what the word was about.
func (r *roll) over(w *word, st *stand, state StandState) {
	r.unsay(w.wordKey)
	st.state, st.trouble = state, 0
	signal(st.news)
}

// again has a word repeated that was not taken, the sooner the likelier it is to be taken then. A placement that is not
// current has a stop on its way.
func (r *roll) again(w *word, st *stand, answer fsm.Reason, now, repeat time.Duration) {
	wait := repeat
	if answer == fsm.BarrierRetry {
		wait = retrySoon
	}
	if wrong := answer == fsm.SpecMismatch || answer == fsm.Malformed; wrong || answer == fsm.ReportStale {
		wait = slowly * repeat
		if wrong {
			st.trouble = answer
		}
	}
	r.later(w, now+wait)
}

func (r *roll) later(w *word, due time.Duration) {
	w.due = due
	r.next = min(r.next, due)
}

// answerHolder takes the answer to a word about a permission. That it was not begun, or that nobody knows, needs no more
// than to be heard; "written" is what the dispatcher waits for.
func (r *roll) answerHolder(w *word, answer fsm.Reason, now, repeat time.Duration) {
	st := r.stands[w.pair]
	if w.what != fsm.SaidWritten || st == nil || st.key != w.key {
		r.unsay(w.wordKey)
		if st != nil {
			signal(st.news)
		}
		return
	}
	switch inert := answer == fsm.ReportInert; {
	case inert: // written by the state's account, perhaps by this very word
		r.over(w, st, StandWaiting)
		r.pass(st, w.key, now)
	case answer == fsm.ReportCounted:
		r.over(w, st, StandPast)
		r.unsay(wordKey{w.pair, w.key, false})
	case answer == fsm.BarrierForget:
		r.over(w, st, StandForgotten)
	case answer == fsm.StalePermission: // what it wrote has left its record; the next holder finds it
		r.over(w, st, StandWaiting)
		r.say(st.pair, st.key, fsm.SaidWaiting, 0, now+gatherFor)
	default:
		r.again(w, st, answer, now, repeat)
	}
}
