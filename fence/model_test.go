package fence_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
)

// The model: one node, three servers with logs, real leases and trackers, everything else reduced to what matters for
// the order of events. Time is real time in nanoseconds; each process reads two clocks of its own that drift.

const (
	modelLease     = time.Second
	modelHeartbeat = 250 * time.Millisecond
	modelTick      = 100 * time.Millisecond
	modelEnd       = 6 * time.Second
	modelNode      = uint64(7)
)

// variant selects the rules; the zero value is the protocol. Each field is one way to get it wrong.
type variant struct {
	fromReceipt      bool // the deadline counts from the receipt of the ack
	ackBeforeCommit  bool // acks leave when the tick is proposed
	waitFromElection bool // leader soft state: acks at once, wait from election or last heard
	ackByIndex       bool // whatever entry is applied at a tick's index releases its acks
	noCompare        bool // expiry does not compare the last tick
	ackAllHeard      bool // an applied tick releases acks of heartbeats that came after its capture
	ignoreVerdict    bool // an applied tick releases acks although it refused the node
	keepFirstAppend  bool // append times of overwritten entries stay
	misdeclared      bool // the clocks are slewed and were registered as better than they are

	slewed bool // not an error: all clocks are of the worse class
}

// truth is the class of the clocks, declared the class that the protocol is told.
func (v variant) truth() clock.Class {
	if v.slewed || v.misdeclared {
		return clock.Monotonic
	}
	return clock.BootRaw
}

func (v variant) declared() clock.Class {
	if v.slewed {
		return clock.Monotonic
	}
	return clock.BootRaw
}

type entryKind uint8

const (
	entryRegister entryKind = iota + 1
	entryBegin
	entryTick
	entryExpire
)

type entry struct {
	term   uint64
	kind   entryKind
	names  bool   // a tick that names the node
	expect uint64 // of an expiry
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

// drifting is one process's pair of clocks.
type drifting struct {
	offset    time.Duration
	boot, raw int64 // rates, ppm off
}

func (d drifting) at(t time.Duration) clock.Reading {
	return clock.Reading{
		Boot: d.offset + t + time.Duration(int64(t)*d.boot/1_000_000),
		Raw:  2*d.offset + t + time.Duration(int64(t)*d.raw/1_000_000),
	}
}

type server struct {
	w     *world
	id    int
	clock drifting

	appends *fence.Appends
	noted   uint64 // for keepFirstAppend

	term    uint64
	log     []entry // index i is at i-1
	commit  int
	applied int

	lastTick uint64
	fenced   bool

	leads    bool // believes so
	ready    bool // its own BeginTerm is applied
	readyAt  time.Duration
	match    [3]int
	tracker  *fence.Tracker
	batches  map[int]*fence.Batch
	ledTerm  uint64 // of tracker and batches
	proposed uint64 // the tick of the last expiry proposed
	heardAt  time.Duration
	newest   uint64
}

type world struct {
	rng     *rand.Rand
	v       variant
	now     time.Duration
	queue   []event
	seq     int
	servers [3]*server
	leader  int // the newest
	// isolated is a server whose messages to and from other servers are lost; -1 for none.
	isolated int

	node      *fence.Lease
	nodeClock drifting
	target    int           // the leader the node knows
	cutFrom   time.Duration // from here to cutUntil the node's heartbeats are lost
	cutUntil  time.Duration
	oneWay    bool // acks still arrive during the cut

	openUntil time.Duration // real time at which the last write may start
	expired   bool
	expiredAt time.Duration
	stalls    int
	changes   int
	acks      int
}

// outcome of one schedule.
type outcome struct {
	expired bool
	margin  time.Duration // from the last possible write to the expiry; negative is an overlap
	stalls  int
	changes int
	acks    int
}

func runSchedule(seed uint64, v variant) outcome {
	w := newWorld(seed, v)
	for len(w.queue) > 0 {
		e := w.pop()
		if e.at > modelEnd || w.expired && e.at > w.expiredAt+modelLease {
			break
		}
		w.now = e.at
		e.do()
	}
	return outcome{w.expired, w.expiredAt - w.openUntil, w.stalls, w.changes, w.acks}
}

func newWorld(seed uint64, v variant) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x5eed)), v: v, isolated: -1, queue: make([]event, 0, 64)}
	w.nodeClock = w.drift()
	lease, err := fence.NewLease(fence.LeaseConfig{Incarnation: modelNode, Lease: modelLease, Class: v.declared()})
	if err != nil {
		panic(err)
	}
	w.node = lease
	for i := range w.servers {
		w.servers[i] = &server{w: w, id: i, clock: w.drift(), appends: fence.NewAppendsKeeping(128), log: make([]entry, 0, 96)}
		w.servers[i].store([]entry{{term: 1, kind: entryRegister}})
	}
	w.lead(0, 1)
	w.heartbeat()
	w.plan()
	return w
}

// drift picks rates up to the bound, the extremes most often.
func (w *world) drift() drifting {
	bound := int64(w.v.truth().Drift())
	rate := func() int64 {
		switch w.rng.IntN(3) {
		case 0:
			return -bound
		case 1:
			return bound
		default:
			return w.rng.Int64N(2*bound+1) - bound
		}
	}
	d := drifting{offset: time.Duration(w.rng.Int64N(int64(time.Hour))), boot: rate(), raw: rate()}
	if w.rng.IntN(2) == 0 {
		d.raw = d.boot
	}
	return d
}

// plan draws the cut of the node and the leader changes.
func (w *world) plan() {
	w.cutFrom = time.Second + w.upTo(1500*time.Millisecond)
	w.cutUntil = modelEnd
	if w.rng.IntN(3) == 0 { // heals about when the wait is over
		w.cutUntil = w.cutFrom + modelLease - 300*time.Millisecond + w.upTo(600*time.Millisecond)
	}
	w.oneWay = w.rng.IntN(2) == 0
	if w.rng.IntN(10) >= 7 {
		return
	}
	first := 700*time.Millisecond + w.upTo(2*time.Second)
	if w.rng.IntN(2) == 0 { // about when the node is cut off
		first = w.cutFrom - 500*time.Millisecond + w.upTo(time.Second)
	}
	w.after(first, w.changeLeader)
	if w.rng.IntN(2) == 0 {
		if w.rng.IntN(2) == 0 { // the last tick may lie where the old leader's log is overwritten
			w.cutFrom = first + w.upTo(700*time.Millisecond)
			w.cutUntil = modelEnd
		}
		w.after(first+400*time.Millisecond+w.upTo(time.Second), w.changeLeader)
	}
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// delay is heavy-tailed, 0.2 ms to 1.5 s.
func (w *world) delay() time.Duration {
	switch w.rng.IntN(20) {
	case 0:
		return 100*time.Millisecond + w.upTo(1400*time.Millisecond)
	case 1, 2, 3:
		return 5*time.Millisecond + w.upTo(95*time.Millisecond)
	default:
		return 200*time.Microsecond + w.upTo(5*time.Millisecond)
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	e := event{w.now + d, w.seq, do}
	w.queue = append(w.queue, e)
	for i := len(w.queue) - 1; i > 0; {
		p := (i - 1) / 2
		if !w.queue[i].before(w.queue[p]) {
			break
		}
		w.queue[i], w.queue[p] = w.queue[p], w.queue[i]
		i = p
	}
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (w *world) pop() event {
	top, last := w.queue[0], len(w.queue)-1
	w.queue[0] = w.queue[last]
	w.queue[last] = event{}
	w.queue = w.queue[:last]
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return top
		}
		if c+1 < last && w.queue[c+1].before(w.queue[c]) {
			c++
		}
		if !w.queue[c].before(w.queue[i]) {
			return top
		}
		w.queue[i], w.queue[c] = w.queue[c], w.queue[i]
		i = c
	}
}

// changeLeader cuts the leader off, lets the others elect the one with the better log a little later, lets the old one
// go on believing and answering for up to 300 ms, and then takes it back as a follower.
func (w *world) changeLeader() {
	old := w.leader
	if !w.servers[old].ready || w.isolated >= 0 {
		return
	}
	w.changes++
	w.isolated = old
	w.after(w.upTo(300*time.Millisecond), func() {
		a, b := w.servers[(old+1)%3], w.servers[(old+2)%3]
		winner := a
		if better := cmp.Or(cmp.Compare(b.lastTerm(), a.lastTerm()), cmp.Compare(len(b.log), len(a.log))); better > 0 ||
			better == 0 && w.rng.IntN(2) == 0 {
			winner = b
		}
		term := max(a.term, b.term) + 1
		a.term, b.term = term, term
		w.lead(winner.id, term)
		w.after(w.upTo(400*time.Millisecond), func() { w.target = winner.id })
		w.after(w.upTo(300*time.Millisecond), func() {
			w.servers[old].leads = false
			w.isolated = -1
		})
	})
}

func (w *world) lead(id int, term uint64) {
	s := w.servers[id]
	w.leader = id
	s.term, s.leads, s.ready, s.proposed = term, true, false, 0
	s.match, s.batches = [3]int{}, make(map[int]*fence.Batch)
	s.heardAt, s.ledTerm = 0, term
	tracker, err := fence.NewTracker(fence.TrackerConfig{Term: term, Class: w.v.declared(), Appends: s.appends})
	if err != nil {
		panic(err)
	}
	s.tracker = tracker
	s.propose(entry{term: term, kind: entryBegin})
	w.after(w.upTo(modelTick), func() { s.tick(term) })
}

func (s *server) lastTerm() uint64 { return s.log[len(s.log)-1].term }

func (s *server) now() clock.Reading { return s.clock.at(s.w.now) }

// store appends received entries and notes when, as a log store does.
func (s *server) store(entries []entry) {
	first := uint64(len(s.log) + 1)
	s.log = append(s.log, entries...)
	last := uint64(len(s.log))
	if s.w.v.keepFirstAppend {
		first = max(first, s.noted+1)
		s.noted = max(s.noted, last)
	}
	s.appends.NoteAppends(first, last, s.now())
}

func (s *server) propose(e entry) {
	s.store([]entry{e})
	s.match[s.id] = len(s.log)
	s.replicate()
}

func (s *server) replicate() {
	w, term, commit := s.w, s.term, s.commit
	entries := slices.Clip(s.log)
	for _, f := range w.servers {
		if f == s || w.isolated == s.id || w.isolated == f.id {
			continue
		}
		w.after(w.delay(), func() { f.append(s, term, entries, commit) })
	}
}

// append is a follower's handling of a message that carries the leader's whole log.
func (s *server) append(from *server, term uint64, entries []entry, commit int) {
	if term < s.term {
		return
	}
	s.term = term
	if s.leads && s != from {
		s.leads = false
	}
	i := min(s.commit, len(entries)) // committed entries are the same everywhere
	for i < len(entries) && i < len(s.log) && s.log[i].term == entries[i].term {
		i++
	}
	if i < len(entries) {
		if i < len(s.log) {
			s.log = append(make([]entry, 0, 2*len(entries)), s.log[:i]...) // messages on their way alias the old one
		}
		s.store(entries[i:])
	}
	s.advance(min(commit, len(entries)))
	n, w := len(entries), s.w
	if w.isolated == s.id || w.isolated == from.id {
		return
	}
	w.after(w.delay(), func() { from.matched(term, s.id, n) })
}

func (s *server) matched(term uint64, id, n int) {
	if s.term != term || !s.leads {
		return
	}
	s.match[id] = max(s.match[id], n)
	m := s.match
	slices.Sort(m[:])
	if c := m[1]; c > s.commit && s.log[c-1].term == s.term {
		s.advance(c)
	}
}

func (s *server) advance(commit int) {
	s.commit = max(s.commit, commit)
	for s.applied < s.commit {
		s.applied++
		s.apply(s.applied, s.log[s.applied-1])
	}
}

func (s *server) apply(index int, e entry) {
	switch e.kind {
	case entryRegister:
		s.lastTick = uint64(index)
	case entryBegin:
		if s.leads && e.term == s.term {
			s.ready, s.readyAt = true, s.w.now
		}
	case entryTick:
		if e.names && !s.fenced {
			s.lastTick = uint64(index)
		}
		s.released(index, e)
	case entryExpire:
		if !s.fenced && (s.w.v.noCompare || s.lastTick == e.expect) {
			s.fenced = true
			s.w.expire()
		}
	}
}

// released sends the acks of a tick of this server's own term that has just been applied.
func (s *server) released(index int, e entry) {
	b := s.batches[index]
	if b == nil {
		return
	}
	delete(s.batches, index)
	var refused []uint64
	if e.names && s.fenced && !s.w.v.ignoreVerdict {
		refused = []uint64{modelNode}
	}
	term := e.term
	if s.w.v.ackByIndex {
		term = s.ledTerm
	}
	s.answer(s.tracker.Release(b, term, refused, s.now()))
}

func (s *server) answer(acks []fence.Ack) {
	for _, ack := range acks {
		if s.w.v.ackAllHeard {
			ack.Seq = s.newest
		}
		s.w.sendAck(ack)
	}
}

func (s *server) tick(term uint64) {
	if !s.leads || s.term != term {
		return
	}
	s.w.after(modelTick, func() { s.tick(term) })
	if !s.ready {
		s.replicate()
		return
	}
	if s.w.rng.IntN(2) == 0 {
		s.expireDue()
	} else {
		defer s.expireDue() // with the tick on its way
	}
	b := s.tracker.Capture()
	e := entry{term: term, kind: entryTick, names: len(b.Incarnations()) > 0}
	if s.w.v.ackBeforeCommit {
		s.answer(s.tracker.Release(b, term, nil, s.now()))
	}
	lag := time.Duration(0)
	if s.w.rng.IntN(4) == 0 { // the proposal waits in a queue
		lag = s.w.delay() / 4
	}
	propose := func() {
		if s.leads && s.term == term {
			s.batches[len(s.log)+1] = b // before propose: nothing commits on the way
			s.propose(e)
		}
	}
	if lag == 0 {
		propose()
		return
	}
	s.w.after(lag, propose)
}

func (s *server) expireDue() {
	if s.fenced || s.proposed == s.lastTick {
		return
	}
	due := len(s.tracker.Due(s.now(), []fence.Node{{
		Incarnation: modelNode, LastTick: s.lastTick, Lease: modelLease, Class: s.w.v.declared(),
	}})) > 0
	if s.w.v.waitFromElection {
		since := max(s.readyAt, s.heardAt)
		due = clock.MinElapsed(s.clock.at(since), s.now()) >= fence.Wait(modelLease, clock.BootRaw, clock.BootRaw)
	}
	if due {
		s.proposed = s.lastTick
		s.propose(entry{term: s.term, kind: entryExpire, expect: s.lastTick})
	}
}

func (s *server) heard(seq uint64) {
	if !s.leads {
		return
	}
	s.heardAt = s.w.now
	s.newest = max(s.newest, seq)
	s.tracker.Heard(fence.Heartbeat{Incarnation: modelNode, Seq: seq, Open: true, Lease: modelLease}, s.now())
	if s.w.v.waitFromElection && !s.fenced {
		s.w.sendAck(fence.Ack{Incarnation: modelNode, Seq: seq, Term: s.term})
	}
}

func (w *world) heartbeat() {
	w.after(modelHeartbeat, w.heartbeat)
	seq, err := w.node.Send(w.nodeClock.at(w.now))
	if err != nil || w.now >= w.cutFrom && w.now < w.cutUntil {
		return
	}
	to := w.servers[w.target]
	w.after(w.delay(), func() { to.heard(seq) })
}

func (w *world) sendAck(ack fence.Ack) {
	if !w.oneWay && w.now >= w.cutFrom && w.now < w.cutUntil {
		return
	}
	w.after(w.delay(), func() { w.receive(ack) })
}

func (w *world) receive(ack fence.Ack) {
	now := w.nodeClock.at(w.now)
	if w.v.fromReceipt { // as if the acknowledged heartbeat had been sent just now
		seq, err := w.node.Send(now)
		if err != nil {
			return
		}
		ack.Seq = seq
	}
	switch w.node.Acked(ack, now) {
	case fence.AckStalled:
		w.stalls++
	case fence.AckExtended, fence.AckOpened:
		w.acks++
		w.openUntil = max(w.openUntil, w.closing())
	case fence.AckLate, fence.AckOld, fence.AckOldTerm, fence.AckForeign, fence.AckFenced:
	}
}

// closing is the real time at which the node's own test begins to refuse.
func (w *world) closing() time.Duration {
	open := func(t time.Duration) bool { return w.node.Check(w.nodeClock.at(t), 0) == nil }
	lo, hi := w.now, w.now+2*modelLease
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; open(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

func (w *world) expire() {
	if !w.expired {
		w.expired, w.expiredAt = true, w.now
	}
}
