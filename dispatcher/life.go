package dispatcher

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// life is one incarnation of a node: its gate, its memory of orders, its dispatchers. It ends for good when its gate is
// fenced; what its dispatchers leave behind closes by itself.
type life struct {
	node    *Node
	inc     fsm.Incarnation
	cluster string
	lease   time.Duration
	beat    time.Duration
	gate    *fence.Gate
	log     hclog.Logger

	fenced  chan struct{} // gets one value when the gate is fenced
	wake    chan struct{} // there is something to send besides heartbeats
	drained chan struct{} // closed when no dispatcher is left after a planned stop or the end
	ended   chan struct{} // closed when nothing is said any more

	mu       sync.Mutex
	over     bool // nothing is accepted or registered any more
	stopping bool // planned stop: no order is accepted any more
	book     *book
	roll     *roll
	workers  map[session.Pair]*worker
	moved    map[session.Pair]int // dispatchers with untold progress, and since how many heartbeats
	asked    bool                 // the leader wants the list
	session  SessionStatus
}

func newLife(n *Node, reg session.Registered) (*life, error) {
	l := &life{
		node: n, inc: reg.Incarnation, cluster: cmp.Or(reg.Cluster, n.cfg.Cluster),
		lease:  time.Duration(reg.LeaseMS) * time.Millisecond,
		beat:   time.Duration(reg.HeartbeatMS) * time.Millisecond,
		log:    n.log.With("incarnation", reg.Incarnation.String()),
		fenced: make(chan struct{}, 1), wake: make(chan struct{}, 1), drained: make(chan struct{}),
		ended: make(chan struct{}), book: newBook(), roll: newRoll(), workers: make(map[session.Pair]*worker), moved: make(map[session.Pair]int),
	}
	if l.beat <= 0 {
		l.beat = n.cfg.Timing.Heartbeat
	}
	gate, err := fence.NewGate(fence.GateConfig{
		Lease:  fence.LeaseConfig{Incarnation: uint64(reg.Incarnation), Lease: l.lease, Class: clock.ClassOf(n.cfg.Clock)},
		Clock:  n.cfg.Clock,
		Timers: n.cfg.Timers,
		OnEdge: l.edge,
	})
	if err != nil {
		return nil, err
	}
	l.gate = gate
	l.gate.SawTerm(reg.Term)
	return l, nil
}

// edge is called with the gate's lock held.
func (l *life) edge(e fence.Edge) {
	if l.node.cfg.Ledger != nil {
		l.node.cfg.Ledger.Gate(e)
	}
	if e.Kind == fence.EdgeFenced {
		signal(l.fenced)
	}
}

// run lives until the gate is fenced, or until ctx ends and the planned stop is over, which it reports. When it returns
// the gate is fenced, no order is accepted, and the session is closed.
func (l *life) run(ctx context.Context) (planned bool) {
	steady := context.WithoutCancel(ctx) // the gate and the session outlast the beginning of a planned stop
	gateCtx, stopGate := context.WithCancel(steady)
	linkCtx, stopLink := context.WithCancel(steady)
	var parts sync.WaitGroup
	parts.Go(func() { _ = l.gate.Run(gateCtx) })
	parts.Go(func() { l.keepSession(linkCtx) })

	select {
	case <-l.fenced:
	case <-ctx.Done():
		planned = l.stopAll()
	}
	if planned {
		l.gate.Fence(fence.ReasonShutdown)
	}
	l.dropAll()
	stopLink()
	stopGate()
	parts.Wait()
	if planned {
		l.awaitDrained(l.node.cfg.Limits.StopGrace)
	}
	return planned
}

// awaitDrained gives what was let go of a last moment to return.
func (l *life) awaitDrained(most time.Duration) {
	timer := l.node.cfg.Timers.NewTimer(most)
	defer timer.Stop()
	select {
	case <-l.drained:
	case <-timer.C():
	}
}

// fence ends the incarnation; the first reason stays.
func (l *life) fence(r fence.Reason) { l.gate.Fence(r) }

// stopAll orders every dispatcher to stop and waits for them, in time. It reports whether the incarnation was still good
// at its end.
func (l *life) stopAll() bool {
	l.mu.Lock()
	l.stopping = true
	workers := l.sorted()
	if len(workers) == 0 {
		l.closeDrained()
	}
	l.mu.Unlock()
	l.log.Info("stopping as planned", "dispatchers", len(workers))
	for _, w := range workers {
		w.stop()
	}
	timer := l.node.cfg.Timers.NewTimer(l.node.cfg.Limits.StopDeadline)
	defer timer.Stop()
	select {
	case <-l.drained:
		return true
	case <-timer.C():
		return true
	case <-l.fenced:
		return false
	}
}

func (l *life) closeDrained() {
	select {
	case <-l.drained:
	default:
		close(l.drained)
	}
}

// dropAll lets go of everything: from here on nothing is registered, and each dispatcher closes by itself.
func (l *life) dropAll() {
	l.mu.Lock()
	l.over = true
	close(l.ended)
	workers := l.sorted()
	if len(workers) == 0 {
		l.closeDrained()
	}
	l.mu.Unlock()
	for _, w := range workers {
		w.drop()
	}
	if len(workers) > 0 {
		l.node.work.Go(l.guardClose)
	}
}

// guardClose calls for the end of the process when a write path outlives the incarnation by too much.
func (l *life) guardClose() {
	timer := l.node.cfg.Timers.NewTimer(l.node.cfg.Limits.CloseBound)
	defer timer.Stop()
	select {
	case <-l.drained:
		return
	case <-timer.C():
	}
	l.mu.Lock()
	workers := l.sorted()
	l.mu.Unlock()
	for _, w := range workers {
		if w.hangs() {
			l.node.abort(w.overdue("the end of incarnation " + l.inc.String()))
			return
		}
	}
}

// remains is what a goodbye has to say, and how many dispatchers have not returned.
func (l *life) remains() (held []fsm.PlacementPosition, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.positions(), len(l.workers)
}

// sorted needs l.mu.
func (l *life) sorted() []*worker {
	out := make([]*worker, 0, len(l.workers))
	for _, w := range l.workers {
		out = append(out, w)
	}
	slices.SortFunc(out, func(x, y *worker) int { return comparePairs(x.pair, y.pair) })
	return out
}

// obey carries out orders, unless they are older than what has been obeyed or the incarnation accepts none any more.
func (l *life) obey(o session.Orders) {
	l.gate.SawTerm(o.Term)
	var stops []*worker
	l.mu.Lock()
	accepted := !l.over && !l.stopping && l.gate.State().State != fence.Fenced && l.book.admit(mark{o.Term, o.Index})
	if accepted {
		for i := range o.Orders {
			if w := l.order(&o.Orders[i]); w != nil {
				stops = append(stops, w)
			}
		}
		now := l.node.elapsed()
		for i := range o.Barriers {
			l.roll.order(&o.Barriers[i], l.book, now)
		}
		if !o.More {
			l.book.carried = mark{o.Term, o.Index}
		}
	}
	l.mu.Unlock()
	for _, w := range stops {
		w.stop()
	}
	if !accepted {
		l.node.count(func(c *Counters) { c.OrdersRefused++ })
		l.log.Debug("orders refused", "term", o.Term, "index", o.Index, "orders", len(o.Orders))
	}
	signal(l.wake)
}

// order carries out one order; it returns the dispatcher that has to be stopped, if any. It needs l.mu.
func (l *life) order(o *fsm.Order) *worker {
	p := session.Pair{Dispatcher: o.Dispatcher, Epoch: o.Epoch}
	l.node.seen(o.Epoch.Generation())
	switch o.Kind {
	case fsm.OrderStart:
		l.start(p, o)
	case fsm.OrderStop:
		if l.book.stop(p) {
			return l.workers[p]
		}
	}
	return nil
}

// start registers a placement that has never been heard of. It needs l.mu, under which nothing is registered once the
// incarnation is over.
func (l *life) start(p session.Pair, o *fsm.Order) {
	if !l.book.start(p, &o.Work) {
		return
	}
	table := sinkTableOf(&o.Work)
	if holder, free := l.node.ranges.take(table, o.Work.Span, p); !free {
		l.book.end(p, startFailed(p, ReasonClosing, "range "+o.Work.Span.String()+" of "+table.table.String()+
			" is still held on node "+string(l.node.cfg.Node)+" by dispatcher "+holderName(holder)+
			", whose sink has not returned; place it on another node, or again when that has ended"))
		return
	}
	w := newWorker(l, p, *o)
	l.workers[p] = w
	l.node.work.Go(w.run)
}

// began publishes a dispatcher that has been built.
func (l *life) began(w *worker) {
	l.mu.Lock()
	if !l.over && l.workers[w.pair] == w {
		l.book.running(w.pair)
	}
	l.mu.Unlock()
	signal(l.wake)
}

// gone takes a dispatcher out whose sink has returned and which can start nothing any more.
func (l *life) gone(w *worker, r fsm.PlacementReport) {
	l.node.ranges.release(w.table(), w.order.Work.Span, w.pair)
	l.mu.Lock()
	delete(l.workers, w.pair)
	delete(l.moved, w.pair)
	l.roll.forget(w.pair)
	l.book.end(w.pair, r)
	if (l.stopping || l.over) && len(l.workers) == 0 {
		l.closeDrained()
	}
	l.mu.Unlock()
	signal(l.wake)
}

// progressed notes that a dispatcher has something to tell in the next heartbeat.
func (l *life) progressed(p session.Pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.moved[p]; !known && l.workers[p] != nil {
		l.moved[p] = 0
	}
}

// maxProgress bounds the progress in a heartbeat.
const maxProgress = 256

// progress takes what the next heartbeat tells: those that lag most first, one that had to wait counting as a second
// more for each heartbeat. It needs l.mu.
func (l *life) progress() []session.Progress {
	type told struct {
		session.Progress
		rank int64
	}
	all := make([]told, 0, len(l.moved))
	for p, waited := range l.moved {
		w := l.workers[p]
		if w == nil {
			continue
		}
		s := w.progress()
		all = append(all, told{s, s.LagMS + int64(waited)*time.Second.Milliseconds()})
	}
	slices.SortFunc(all, func(x, y told) int {
		return cmp.Or(cmp.Compare(y.rank, x.rank), cmp.Compare(x.Dispatcher, y.Dispatcher))
	})
	all = all[:min(len(all), maxProgress)]
	out := make([]session.Progress, len(all))
	for i := range all {
		out[i] = all[i].Progress
		delete(l.moved, session.Pair{Dispatcher: out[i].Dispatcher, Epoch: out[i].Epoch})
	}
	for p := range l.moved {
		l.moved[p]++
	}
	return out
}

func holderName(p session.Pair) string {
	return strconv.FormatUint(uint64(p.Dispatcher), 10) + " under epoch " + p.Epoch.String()
}

// signal leaves one value in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
