package dispatcher

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// result says what to do after a call to the sink.
type result uint8

const (
	resultDone   result = iota + 1
	resultPaused        // the gate is closed: wait for it, then claim anew
	resultMargin        // too little of the lease is left for this sink: ask again soon
	resultRetry         // an error that may heal: wait, then claim anew
	resultEnd           // the placement ends with the error
	resultHalted        // stopped or dropped
)

// attempt is one call to the sink as its allow function sees it.
type attempt struct {
	gate  *fence.Gate
	clock clock.Clock
	work  *worker

	mu      sync.Mutex
	over    bool // the call has returned: whatever asks later is refused
	call    SinkCall
	refused error // the newest refusal
}

// allow is what the sink asks as the last thing before each effect. Whether the dispatcher is over is asked first, so
// that the test of the clocks is the last thing.
func (a *attempt) allow() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.work.over.Load() {
		a.refused = errOver
		return errOver
	}
	at := a.clock.Now()
	if err := a.gate.AllowIn(a.call.Opening, a.work.margin); err != nil {
		a.refused = err
		return err
	}
	a.call.Allowed = at
	return nil
}

// resume notes what a claim returned.
func (a *attempt) resume(at fsm.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.call.Resume = at
}

// close ends the attempt and says how it went.
func (a *attempt) close(err error) (call SinkCall, refused error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.call.Returned = a.clock.Now()
	a.call.Err = err
	var fenced *FencedError
	switch allowed := a.call.Allowed != (clock.Reading{}); {
	case err == nil:
		a.call.Outcome = CallAccepted
	case errors.As(err, &fenced):
		a.call.Outcome = CallFenced
	case allowed:
		a.call.Outcome = CallUnknown
	case a.refused != nil:
		a.call.Outcome = CallRefused
	default:
		a.call.Outcome = CallFailed
	}
	return a.call, a.refused
}

// called is how a call to the sink went.
type called struct {
	result  result
	outcome CallOutcome
	err     error
}

// call makes one call to the sink under the present opening of the gate. Its context ends when the gate closes. A write
// needs a claim that was made under the same opening.
func (w *worker) call(hard context.Context, c SinkCall, do func(ctx context.Context, a *attempt) error) called {
	n := w.life.node
	ctx, opening, release, err := w.life.gate.Bind(hard)
	if err != nil {
		return called{resultPaused, CallRefused, err}
	}
	defer release()
	if c.Kind != CallClaim && opening != w.opening {
		return called{resultPaused, CallRefused, fence.ErrReopened}
	}
	c.Node, c.Incarnation, c.Dispatcher = n.cfg.Node, w.life.inc, w.pair.Dispatcher
	c.Sink, c.Table, c.Span = w.order.Work.Sink, w.table().table, w.order.Work.Span
	c.Token, c.Opening, c.Begun = Token{w.pair.Epoch, w.claimed}, opening, n.cfg.Clock.Now()
	if n.cfg.Ledger != nil {
		n.cfg.Ledger.Attempt(c)
	}
	a := &attempt{gate: w.life.gate, clock: n.cfg.Clock, work: w, call: c}
	unguard := w.guardCall(ctx)
	err = do(ctx, a)
	unguard()
	c, refused := a.close(err)
	if c.Kind == CallClaim && err == nil {
		w.opening = opening
	}
	if n.cfg.Ledger != nil {
		n.cfg.Ledger.Outcome(c)
	}
	w.tally(c)
	return called{w.judge(hard, ctx, err, refused), c.Outcome, err}
}

// guardCall calls for the end of the process when a call does not return although the gate has long been closed.
func (w *worker) guardCall(ctx context.Context) (unguard func()) {
	n := w.life.node
	returned, watched := make(chan struct{}), make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(watched)
		if !errors.Is(context.Cause(ctx), fence.ErrLapsed) {
			return // the end of the incarnation and ordered stops have their own bounds
		}
		timer := n.cfg.Timers.NewTimer(n.cfg.Limits.CloseBound)
		defer timer.Stop()
		select {
		case <-returned:
		case <-timer.C():
			n.abort(w.overdue("the closing of the gate"))
			<-returned
		}
	})
	return func() {
		close(returned)
		if !cancel() {
			<-watched
		}
	}
}

// tally counts the call, and notes when it may still take effect although it has returned.
func (w *worker) tally(c SinkCall) {
	w.life.node.count(func(s *Counters) { s.add(c) })
	if fenced, ok := errors.AsType[*FencedError](c.Err); ok {
		w.life.node.seen(fenced.Found.Epoch.Generation())
	}
	if c.Outcome == CallUnknown && w.margin > 0 {
		w.unsure = &c.Returned
	}
}

// judge decides what follows from how a call ended.
func (w *worker) judge(hard, bound context.Context, err, refused error) result {
	var (
		stop    *StopError
		fenced  *FencedError
		claimed *ClaimedByOtherError
	)
	switch {
	case err == nil:
		return resultDone
	case errors.As(err, &fenced), errors.As(err, &claimed), errors.As(err, &stop):
		return resultEnd
	case hard.Err() != nil, w.over.Load():
		return resultHalted
	case errors.Is(refused, fence.ErrMargin):
		return resultMargin
	case refused != nil, bound.Err() != nil:
		return resultPaused
	default:
		return resultRetry
	}
}

func (c *Counters) add(call SinkCall) {
	switch call.Kind {
	case CallClaim:
		c.Claims++
	case CallWrite:
		c.Writes++
	case CallEvent:
		c.Events++
	}
	switch call.Outcome {
	case CallAccepted:
		c.Rows += uint64(call.Rows)
	case CallRefused:
		c.Refused++
	case CallFenced:
		c.Fenced++
	case CallUnknown:
		c.Unknown++
	case CallFailed:
		c.Failed++
	}
}

// claim writes the next token over the span, under an open gate, and takes over from the resume point that the sink
// returns: only what the sink does not have yet stays pending.
func (w *worker) claim(hard, soft context.Context) *ending {
	for {
		if _, err := w.life.gate.WaitOpen(soft); err != nil {
			return stopped()
		}
		if err := w.awaitEffect(soft); err != nil {
			return stopped()
		}
		w.claimed++
		w.opening = 0
		w.note(func(s *WorkerStatus) { s.Claim = w.claimed })
		var resume fsm.Position
		c := w.call(hard, SinkCall{Kind: CallClaim}, func(ctx context.Context, a *attempt) error {
			var err error
			resume, err = w.writer.Claim(ctx, Token{w.pair.Epoch, w.claimed}, w.order.Work.Start, a.allow)
			a.resume(resume)
			return err
		})
		if c.result == resultDone {
			return w.resumeAt(soft, resume)
		}
		if end := w.after(soft, CallClaim, c); end != nil {
			return end
		}
	}
}

// after does what follows from a call that did not succeed; nil: make it again.
func (w *worker) after(soft context.Context, kind CallKind, c called) *ending {
	switch c.result {
	case resultPaused:
		w.opening = 0
		if _, err := w.life.gate.WaitOpen(soft); err != nil {
			return stopped()
		}
		return nil
	case resultMargin:
		return w.rest(soft)
	case resultRetry:
		w.opening = 0
		return w.failedOnce(soft, kind, c.err)
	case resultEnd:
		return endingOf(c.err, ReasonSink)
	case resultDone:
		return nil
	case resultHalted:
		return stopped()
	default:
		return stopped()
	}
}
