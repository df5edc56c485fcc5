package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Why a dispatcher's contexts end.
var (
	errStopped = errors.New("a stop was ordered")
	errDropped = errors.New("the incarnation has ended")
	errOver    = errors.New("the dispatcher is over")
)

// worker runs one placement, once: sink, claim, source, then batch after batch, until it is stopped, dropped, or fails.
// One goroutine does all that; a second one closes the writer when the first must not be waited for.
type worker struct {
	life   *life
	pair   session.Pair
	order  fsm.Order
	log    hclog.Logger
	margin time.Duration // w of a sink that cannot check tokens, 0 otherwise

	stop     func() // soft: what is in flight may finish within the grace
	drop     func() // hard: everything is cancelled
	contexts func() (hard, soft context.Context)

	closed chan struct{} // the writer's Close has returned, or there never was one
	idle   chan struct{} // work has returned: no call to the sink is being made
	gone   chan struct{} // nothing of it can reach the sink any more

	// Of the working goroutine alone.
	feed     *feed
	pending  []Transaction  // read and not known to be downstream; nothing beyond the stop
	held     *Transaction   // read, and beyond the stop
	event    *stop          // an event that has been read up to and not passed
	sunk     fsm.Position   // what the sink has
	met      fsm.Position   // the ordered start, or the newest event that was passed: none up to it is met again
	rows     int            // in pending
	claimed  uint64         // claims made, the number of the newest
	opening  uint64         // of the gate at the newest claim; 0: claim before writing
	failures int            // in a row
	unsure   *clock.Reading // when a call returned that may still take effect, on a sink that cannot check tokens
	ran      bool           // "running" has been said

	over atomic.Bool // no write may start any more

	mu       sync.Mutex
	writer   SpanWriter
	shutting bool // a writer that comes from now on is closed at once
	closeErr error
	told     WorkerStatus
}

func newWorker(l *life, p session.Pair, o fsm.Order) *worker {
	w := &worker{
		life: l, pair: p, order: o,
		log:    l.log.With("dispatcher", uint64(p.Dispatcher), "epoch", p.Epoch.String()),
		closed: make(chan struct{}), idle: make(chan struct{}), gone: make(chan struct{}),
		told: WorkerStatus{
			Dispatcher: p.Dispatcher, Epoch: p.Epoch, Changefeed: o.Work.Changefeed,
			Table: TableName{o.Work.Schema, o.Work.Table}, Span: o.Work.Span, Trigger: o.Work.Trigger,
			Phase: PhaseStarting, Position: o.Work.Start, LagMS: -1,
		},
		met: o.Work.Start,
	}
	if !o.Work.SinkFenced {
		w.margin = time.Duration(o.Work.SinkMaxWriteMS) * time.Millisecond
	}
	hard, drop := context.WithCancelCause(context.Background())
	soft, stop := context.WithCancelCause(hard)
	w.stop = func() { stop(errStopped) }
	w.drop = func() { drop(errDropped) }
	w.contexts = func() (context.Context, context.Context) { return hard, soft }
	return w
}

func (w *worker) table() sinkTable { return sinkTableOf(&w.order.Work) }

// ending is how a placement ends. A stop that was ordered has no reason.
type ending struct {
	reason, detail string
	// fatal: placing the dispatcher anew does not help.
	fatal bool
}

func stopped() *ending { return &ending{} }

func failed(reason, detail string) *ending { return &ending{reason: reason, detail: detail} }

// run is the life of the placement. What it reports is the proof that nothing can write under the epoch any more.
func (w *worker) run() {
	hard, soft := w.contexts()
	var parts sync.WaitGroup
	parts.Go(func() { w.supervise(hard, soft) })
	end := w.work(hard, soft)
	close(w.idle)
	w.over.Store(true)
	w.phase(PhaseClosing)
	w.drop()
	w.shut()
	if w.feed != nil {
		w.feed.close()
	}
	close(w.gone)
	parts.Wait()
	w.settle(end)
	if end.reason != "" {
		w.log.Warn("dispatcher ended", "reason", end.reason, "detail", end.detail)
	} else {
		w.log.Debug("dispatcher stopped")
	}
	w.life.lastWord(w.pair)
	w.life.gone(w, w.report(end))
}

// supervise sees to it that a call to the sink that must not go on does not: after an ordered stop when the grace is
// over, after a drop at once.
func (w *worker) supervise(hard, soft context.Context) {
	cfg := &w.life.node.cfg
	select {
	case <-w.idle:
		return
	case <-soft.Done():
	}
	w.phase(PhaseClosing)
	grace := cfg.Timers.NewTimer(cfg.Limits.StopGrace)
	defer grace.Stop()
	select {
	case <-w.idle:
		return
	case <-grace.C():
		w.over.Store(true)
		w.drop()
	case <-hard.Done():
		w.over.Store(true)
	}
	w.shut()
}

// hangs reports whether a writer is there that has not returned.
func (w *worker) hangs() bool {
	select {
	case <-w.gone:
		return false
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writer != nil
}

func (w *worker) overdue(since string) string {
	return fmt.Sprintf("CLOSE_OVERDUE: the sink %s of dispatcher %d under epoch %v has not returned %v after %s; only the end "+
		"of the process stops it", w.order.Work.Sink, w.pair.Dispatcher, w.pair.Epoch, w.life.node.cfg.Limits.CloseBound, since)
}

// adopt makes a writer the worker's own, or closes it if the worker is over: a sink that comes late is never used.
func (w *worker) adopt(sw SpanWriter) bool {
	w.mu.Lock()
	late := w.shutting
	if !late {
		w.writer = sw
	}
	w.mu.Unlock()
	if late {
		err := sw.Close()
		w.mu.Lock()
		w.closeErr = err
		w.mu.Unlock()
	}
	return !late
}

// shut closes the writer, once, and returns when that is done, whoever began it.
func (w *worker) shut() {
	w.mu.Lock()
	first, sw := !w.shutting, w.writer
	w.shutting = true
	w.mu.Unlock()
	if !first {
		<-w.closed
		return
	}
	if sw != nil {
		err := sw.Close()
		w.mu.Lock()
		w.closeErr = err
		w.mu.Unlock()
	}
	close(w.closed)
}

// settle waits out w where the sink cannot check tokens and something may still be on its way.
func (w *worker) settle(end *ending) {
	w.mu.Lock()
	err := w.closeErr
	w.mu.Unlock()
	if err != nil {
		w.log.Warn("closing the sink", "error", err)
		if end.detail == "" {
			end.detail = "closing the sink: " + err.Error()
		}
		if w.margin > 0 {
			now := w.life.node.cfg.Clock.Now()
			w.unsure = &now
		}
	}
	_ = w.awaitEffect(context.Background())
}

// awaitEffect returns when w has passed, by any clock, since a call returned that may still take effect.
func (w *worker) awaitEffect(ctx context.Context) error {
	if w.unsure == nil {
		return nil
	}
	cfg := &w.life.node.cfg
	whole := clock.ScaleUp(w.margin, clock.Million+clock.ClassOf(cfg.Clock).Drift(), clock.Million)
	for {
		left := whole - clock.MinElapsed(*w.unsure, cfg.Clock.Now())
		if left <= 0 {
			w.unsure = nil
			return nil
		}
		if err := clock.Sleep(ctx, cfg.Timers, left); err != nil {
			return err
		}
	}
}

// report says how the placement ended: a start failed if it never ran and nobody asked it to stop.
func (w *worker) report(end *ending) fsm.PlacementReport {
	r := fsm.PlacementReport{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: w.pair.Dispatcher, Epoch: w.pair.Epoch},
		What:              fsm.ReportStopped, Reason: end.reason, Detail: shorten(end.detail), Fatal: end.fatal,
	}
	if !w.ran && end.reason != "" {
		r.What = fsm.ReportStartFailed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told.Positioned {
		r.HasPosition, r.Position = true, w.told.Position
	}
	return r
}

func (w *worker) phase(p WorkerPhase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told.Phase = p
}

// note changes what is told about the worker.
func (w *worker) note(change func(s *WorkerStatus)) {
	w.mu.Lock()
	change(&w.told)
	w.mu.Unlock()
	w.life.progressed(w.pair)
}

func (w *worker) status() WorkerStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told
}

func (w *worker) progress() session.Progress {
	s := w.status()
	return session.Progress{
		Dispatcher: s.Dispatcher, Epoch: s.Epoch, Position: s.Position, LagMS: s.LagMS, Rows: s.Rows, Idle: s.Idle,
	}
}

// sessionName tells people at the sink who writes.
func (w *worker) sessionName() string {
	return string(w.life.node.cfg.Node) + "/" + strconv.FormatUint(uint64(w.life.inc), 10)
}
