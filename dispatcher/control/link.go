package control

import (
	"fmt"
	"slices"
	"sync"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// link is one session of a node: what waits to be sent to it and what it has reported. Whoever has something to send
// leaves it here and goes on; one goroutine sends. Of everything only the newest is kept.
type link struct {
	stream  session.LeaderStream
	hello   session.Hello
	inc     fsm.Incarnation
	contact *contact
	wake    chan struct{} // something to send
	told    chan struct{} // something was reported
	closing chan struct{} // closed with the first close
	gone    chan struct{} // closed when the session has ended

	mu       sync.Mutex
	last     *session.Close
	ack      *session.Ack
	acks     []session.ReportAck
	ackedN   int // pairs in acks
	answers  []session.BarrierAnswer
	ask      bool
	events   []fsm.BarrierKey // to ask about
	orders   outgoing
	reports  inbox
	barriers barrierInbox
	// asked is the view at which the node was asked for its list; nil while no question is open.
	asked *fsm.View
}

func newLink(stream session.LeaderStream, hello session.Hello) *link {
	return &link{
		stream: stream, hello: hello, inc: hello.Incarnation,
		wake: make(chan struct{}, 1), told: make(chan struct{}, 1),
		closing: make(chan struct{}), gone: make(chan struct{}),
		orders:  newOutgoing(),
		reports: inbox{queued: make(map[session.ReportedPair]struct{})},
	}
}

// close makes c the last message of the session: whatever waits is dropped. The first close counts.
func (k *link) close(c session.Close) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		return
	}
	k.last = &c
	k.ack, k.acks, k.answers, k.ask, k.events, k.orders.batch = nil, nil, nil, false, nil, nil
	close(k.closing)
	signal(k.wake)
}

// write sends what waits until the session is closed or breaks.
func (k *link) write() error {
	for {
		msg, any := k.next()
		if !any {
			select {
			case <-k.wake:
			case <-k.gone:
				return nil
			}
			continue
		}
		if err := k.stream.Send(msg); err != nil {
			return fmt.Errorf("send to node %s: %w", k.hello.Node, err)
		}
		if msg.Close != nil {
			return nil
		}
	}
}

// next takes the most urgent message: leases hang on acks.
func (k *link) next() (session.FromLeader, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var m session.FromLeader
	switch {
	case k.last != nil:
		m.Close = k.last
	case k.ack != nil:
		m.Ack, k.ack = k.ack, nil
	case len(k.acks) > 0:
		first := k.acks[0]
		m.ReportAck, k.acks = &first, k.acks[1:]
		k.ackedN -= len(first.Pairs)
	case len(k.answers) > 0:
		first := k.answers[0]
		m.Barrier, k.answers = &first, k.answers[1:]
	case k.ask:
		m.AskList, k.ask = &session.AskList{}, false
	case len(k.events) > 0:
		m.AskBarriers, k.events = &session.AskBarriers{Key: k.events[0]}, k.events[1:]
	case len(k.orders.batch) > 0:
		m.Orders = k.orders.take()
	default:
		return m, false
	}
	return m, true
}

// acknowledge leaves an ack to be sent. One that has not been sent yet gives way; its time since the one before it is the
// new one's as well.
func (k *link) acknowledge(a session.Ack) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.last != nil:
		return
	case k.ack != nil && k.ack.Seq >= a.Seq:
		return
	case k.ack != nil:
		a.ElapsedNS += k.ack.ElapsedNS
	}
	k.ack = &a
	signal(k.wake)
}

func (k *link) acknowledgeReports(a session.ReportAck) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil || len(a.Pairs) == 0 || k.ackedN+len(a.Pairs) > acksWaiting {
		return
	}
	k.acks = append(k.acks, a)
	k.ackedN += len(a.Pairs)
	signal(k.wake)
}

// answerBarrier leaves an answer to what the node has said of events; one that does not fit is made again when the node
// repeats its words.
func (k *link) answerBarrier(a session.BarrierAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil || len(k.answers) >= barrierMessagesWaiting {
		return
	}
	k.answers = append(k.answers, a)
	signal(k.wake)
}

// askBarriers asks for what the node has to say about an event, unless that question waits to be sent or too many do.
func (k *link) askBarriers(key fsm.BarrierKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil || len(k.events) >= barrierMessagesWaiting || slices.Contains(k.events, key) {
		return false
	}
	k.events = append(k.events, key)
	signal(k.wake)
	return true
}

// askList asks for the node's list, unless a question is open.
func (k *link) askList(view *fsm.View) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil || k.asked != nil {
		return false
	}
	k.ask, k.asked = true, view
	signal(k.wake)
	return true
}

// listed ends the open question and returns the view at which it was asked.
func (k *link) listed() *fsm.View {
	k.mu.Lock()
	defer k.mu.Unlock()
	asked := k.asked
	k.asked = nil
	return asked
}

// order derives what must be sent now from the view; see outgoing.
func (k *link) order(view *fsm.View, now clock.Reading) (orders int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		return 0
	}
	orders = k.orders.derive(view, k.inc, now)
	if orders > 0 {
		signal(k.wake)
	}
	return orders
}

// stop adds pairs that the node must stop although the state orders nothing of them; it returns how many are new.
func (k *link) stop(pairs ...session.Pair) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orders.stray(pairs)
}

func (k *link) hasStrays() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.orders.strays) > 0
}

// stopped takes out pairs that the node has answered.
func (k *link) stopped(p session.Pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.orders.strays, p)
}

// due is the index of the newest orders that wait to be carried out; 0 for none.
func (k *link) due() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orders.due
}

// carriedOut says whether a node that has carried out the orders of an index has carried out all that it was sent here.
func (k *link) carriedOut(index uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.orders.batch) == 0 && len(k.orders.strays) == 0 && index >= k.orders.newest
}

// leave puts reports in the inbox.
func (k *link) leave(reports []fsm.PlacementReport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.reports.put(reports)
		signal(k.told)
	}
}

// leaveBarriers puts words about events in their inbox.
func (k *link) leaveBarriers(m session.BarrierReport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.barriers.put(m)
		signal(k.told)
	}
}

// collectBarriers takes the words about events for one entry.
func (k *link) collectBarriers() []session.BarrierReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.barriers.take()
}

// collect takes the reports for one entry.
func (k *link) collect() []fsm.PlacementReport {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reports.take()
}

func (k *link) hasReports() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.reports.queue) > 0
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
