package control

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

var errBroken = errors.New("stream broken")

// pipe is a stream without buffers.
type pipe struct {
	up     chan session.FromNode
	down   chan session.FromLeader
	broken chan struct{}
	once   sync.Once
}

func newPipe() *pipe {
	return &pipe{up: make(chan session.FromNode), down: make(chan session.FromLeader), broken: make(chan struct{})}
}

func (p *pipe) cut() { p.once.Do(func() { close(p.broken) }) }

func (p *pipe) Send(m session.FromLeader) error {
	select {
	case p.down <- m:
		return nil
	case <-p.broken:
		return errBroken
	}
}

func (p *pipe) Recv() (session.FromNode, error) {
	select {
	case m := <-p.up:
		return m, nil
	case <-p.broken:
		return session.FromNode{}, errBroken
	}
}

// received is a message with the time since the start of the test.
type received struct {
	at time.Duration
	session.FromLeader
}

// fakeNode speaks the node's side as a test wants it. By default it is sound: it beats, obeys orders and answers.
type fakeNode struct {
	h     *harness
	name  fsm.NodeName
	inc   fsm.Incarnation
	lease time.Duration
	p     *pipe
	done  chan error // of Serve
	quit  chan struct{}

	mu       sync.Mutex
	seq      uint64
	log      []received
	held     map[session.Pair]bool
	set      map[session.Pair]bool
	index    uint64 // of the newest orders
	acked    uint64
	mute     bool // no heartbeats
	deaf     bool // orders are not obeyed
	hung     bool // and not even taken note of
	shut     bool // the gate stays closed
	stuck    bool // nothing is received
	dumb     bool // no list is given
	claims   fsm.Generation
	progress []session.Progress
	extraSet uint64 // added to the set hash
	feeds    map[session.Pair]fsm.ChangefeedID
	at       map[session.Pair]fsm.Position // the last checkpoint of what stands still or has stopped
	ending   map[session.Pair]bool         // stopped, and that has not been acknowledged
	flows    bool                          // what runs writes, up to the present
	stands   *fsm.BarrierKey               // what runs waits at this event
}

// register registers a node without opening a session.
func (h *harness) register(name fsm.NodeName) *fakeNode {
	h.t.Helper()
	v := h.log.do(&fsm.RegisterNode{
		Node: name, LeaseMS: uint32(h.timing.Lease.Milliseconds()), ClockClass: fsm.ClockBootRaw, Protocol: 1,
	})
	require.Equal(h.t, fsm.Accepted, v.Reason)
	return &fakeNode{
		h: h, name: name, inc: v.Facts.Incarnation, lease: h.timing.Lease, quit: make(chan struct{}),
		held: map[session.Pair]bool{}, set: map[session.Pair]bool{}, feeds: map[session.Pair]fsm.ChangefeedID{},
		at: map[session.Pair]fsm.Position{}, ending: map[session.Pair]bool{},
	}
}

// join registers a node and opens its session.
func (h *harness) join(name fsm.NodeName) *fakeNode {
	n := h.register(name)
	n.open()
	return n
}

func (n *fakeNode) hello() session.Hello {
	return session.Hello{Cluster: "test", Node: n.name, Incarnation: n.inc, Protocol: session.Protocol}
}

// open opens a session and beats.
func (n *fakeNode) open() {
	n.p = newPipe()
	p := n.p
	n.done = make(chan error, 1)
	done := n.done
	n.h.running.Go(func() {
		err := n.h.leader.Serve(n.h.ctx, p, n.hello())
		p.cut() // as gRPC does when the handler returns
		done <- err
	})
	n.h.running.Go(func() { n.receive(p) })
	n.h.running.Go(func() { n.beat(p) })
}

func (n *fakeNode) with(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// holds is how many placements the node holds.
func (n *fakeNode) holds() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.held)
}

func (n *fakeNode) send(p *pipe, m session.FromNode) bool {
	select {
	case p.up <- m:
		return true
	case <-p.broken:
		return false
	}
}

func (n *fakeNode) beat(p *pipe) {
	t := time.NewTicker(n.h.timing.Heartbeat)
	defer t.Stop()
	for {
		if m, ok := n.heartbeat(); ok && !n.send(p, session.FromNode{Heartbeat: &m}) {
			return
		}
		select {
		case <-t.C:
		case <-p.broken:
			return
		}
	}
}

func (n *fakeNode) heartbeat() (session.Heartbeat, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mute {
		return session.Heartbeat{}, false
	}
	n.seq++
	sum := n.extraSet
	for p := range n.set {
		sum += fsm.PairHash(p.Dispatcher, p.Epoch)
	}
	return session.Heartbeat{
		Seq: n.seq, GateOpen: n.acked > 0 && !n.shut, NewestAck: n.acked, OrdersIndex: n.index, SetHash: sum,
		Dispatchers: uint32(len(n.set)), HighestGeneration: n.claims, Progress: slices.Clone(n.progress),
		OrdersTerm: n.h.leads.Load(), Crews: n.crews(),
	}, true
}

// crews says how far what is in the set has come.
func (n *fakeNode) crews() (out []session.Crew) {
	all := map[fsm.ChangefeedID]session.Crew{}
	for p := range n.set {
		c, known := all[n.feeds[p]]
		at := n.checkpoint(p)
		if !known || at.Less(c.Minimum) {
			c.Minimum = at
		}
		c.Changefeed, c.SetHash = n.feeds[p], c.SetHash+fsm.PairHash(p.Dispatcher, p.Epoch)
		all[c.Changefeed] = c
	}
	for _, c := range all {
		out = append(out, c)
	}
	return out
}

func (n *fakeNode) checkpoint(p session.Pair) fsm.Position {
	if !n.flows || !n.held[p] {
		return n.at[p]
	}
	now := n.h.position()
	if n.stands != nil && n.stands.Before().Less(now) {
		now = n.stands.Before()
	}
	return now.Max(n.at[p])
}

// position is how far a source has come: a unit of ts is a millisecond.
func (h *harness) position() fsm.Position { return fsm.At(uint64(h.now().Milliseconds()) + 1) }

func (n *fakeNode) receive(p *pipe) {
	for {
		n.mu.Lock()
		stuck := n.stuck
		n.mu.Unlock()
		if stuck {
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-p.broken:
				return
			}
		}
		select {
		case m := <-p.down:
			n.handle(p, m)
		case <-p.broken:
			return
		}
	}
}

func (n *fakeNode) handle(p *pipe, m session.FromLeader) {
	n.mu.Lock()
	n.log = append(n.log, received{n.h.now(), m})
	var answers []session.FromNode
	switch {
	case m.Ack != nil:
		n.acked = max(n.acked, m.Ack.Seq)
	case m.Orders != nil && !n.hung:
		n.index = max(n.index, m.Orders.Index)
		if !n.deaf && len(m.Orders.Orders) > 0 {
			answers = append(answers, session.FromNode{Report: n.obey(m.Orders.Orders)})
		}
	case m.ReportAck != nil:
		for _, r := range m.ReportAck.Pairs {
			if r.What == fsm.ReportRunning {
				n.set[r.Pair] = n.held[r.Pair] || n.ending[r.Pair]
			}
			if !n.set[r.Pair] || r.What != fsm.ReportRunning {
				delete(n.set, r.Pair)
				delete(n.ending, r.Pair)
			}
		}
	case m.AskList != nil && !n.dumb:
		answers = append(answers, session.FromNode{List: n.list()})
	}
	n.mu.Unlock()
	for _, a := range answers {
		n.send(p, a)
	}
}

func (n *fakeNode) obey(orders []fsm.Order) *session.Report {
	r := &session.Report{}
	for _, o := range orders {
		p := session.Pair{Dispatcher: o.Dispatcher, Epoch: o.Epoch}
		rep := report(p, fsm.ReportRunning)
		switch {
		case o.Kind == fsm.OrderStart:
			n.held[p], n.feeds[p], n.at[p] = true, o.Work.ChangefeedID, o.Work.Start
		case n.held[p]:
			rep.HasPosition, rep.Position = n.flows, n.checkpoint(p)
			n.at[p], n.ending[p] = n.checkpoint(p), true
			delete(n.held, p)
			rep.What = fsm.ReportStopped
		default:
			rep.What = fsm.ReportStopped
		}
		r.Reports = append(r.Reports, rep)
	}
	return r
}

func (n *fakeNode) list() *session.List {
	l := &session.List{}
	for p := range n.held {
		l.Pairs = append(l.Pairs, p)
	}
	return l
}

func report(p session.Pair, what fsm.ReportKind) fsm.PlacementReport {
	return fsm.PlacementReport{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch}, What: what,
	}
}

// say sends a report of the node.
func (n *fakeNode) say(what fsm.ReportKind, pairs ...session.Pair) {
	r := &session.Report{}
	for _, p := range pairs {
		r.Reports = append(r.Reports, report(p, what))
	}
	n.send(n.p, session.FromNode{Report: r})
}

// got returns the messages that pick accepts.
func (n *fakeNode) got(pick func(received) bool) []received {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []received
	for _, m := range n.log {
		if pick(m) {
			out = append(out, m)
		}
	}
	return out
}

func isAck(m received) bool       { return m.Ack != nil }
func isOrders(m received) bool    { return m.Orders != nil }
func isReportAck(m received) bool { return m.ReportAck != nil }
func isAsk(m received) bool       { return m.AskList != nil }
func isAnswer(m received) bool    { return m.Barrier != nil }

func isQuestion(m received) bool { return m.AskBarriers != nil }

// tell sends words about events and returns their number.
func (n *fakeNode) tell(reports ...fsm.BarrierReport) uint64 {
	n.mu.Lock()
	n.seq++ // any number will do
	seq := n.seq
	n.mu.Unlock()
	n.send(n.p, session.FromNode{Barrier: &session.BarrierReport{Seq: seq, Reports: reports}})
	return seq
}

// answered returns the answers to a message; nil for none yet.
func (n *fakeNode) answered(seq uint64) []fsm.Reason {
	for _, m := range n.got(isAnswer) {
		if m.Barrier.Seq == seq {
			return m.Barrier.Answers
		}
	}
	return nil
}

// told returns the orders about events, in the order in which they came.
func (n *fakeNode) told() (out []fsm.BarrierOrder) {
	for _, m := range n.got(isOrders) {
		out = append(out, m.Orders.Barriers...)
	}
	return out
}

// closed returns why the session was closed, empty if it was not.
func (n *fakeNode) closed() string {
	for _, m := range n.got(func(m received) bool { return m.Close != nil }) {
		return m.Close.Reason
	}
	return ""
}

// ordered returns how often each order was received.
func (n *fakeNode) ordered() map[orderKey]int {
	out := map[orderKey]int{}
	for _, m := range n.got(isOrders) {
		for _, o := range m.Orders.Orders {
			out[keyOf(o)]++
		}
	}
	return out
}

func (n *fakeNode) forget() { n.with(func() { n.log = nil }) }

func (n *fakeNode) row() fsm.Node {
	row, _ := n.h.log.View().Node(n.name)
	return row
}

var _ session.LeaderStream = (*pipe)(nil)

// serveOnce opens a session that the leader is expected to refuse, and returns why it did.
func (h *harness) serveOnce(hello session.Hello) session.Close {
	p := newPipe()
	defer p.cut()
	got := make(chan session.Close, 1)
	h.running.Go(func() {
		select {
		case m := <-p.down:
			if m.Close != nil {
				got <- *m.Close
				return
			}
		case <-p.broken:
		}
		got <- session.Close{}
	})
	require.NoError(h.t, h.leader.Serve(context.Background(), p, hello))
	return <-got
}
