package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// work builds and then moves batches from the source to the sink until something ends it. When it returns, no call to
// the sink is being made and none will be.
func (w *worker) work(hard, soft context.Context) *ending {
	if end := w.build(hard, soft); end != nil {
		return end
	}
	w.ran = true
	w.phase(PhaseRunning)
	w.life.began(w)
	for {
		if end := w.step(hard, soft); end != nil {
			return end
		}
	}
}

// step moves one batch, and stands at the event that ends it.
func (w *worker) step(hard, soft context.Context) *ending {
	from := w.feed
	end, last := w.gather(soft)
	if end == nil && len(w.pending) > 0 {
		end = w.write(hard, soft)
	}
	if end != nil || w.feed != from { // else the source is being read again
		return end
	}
	switch {
	case w.event != nil:
		return w.stand(hard, soft)
	case last != nil:
		return w.sourceEnded(soft, last)
	default:
		return nil
	}
}

// gather reads until a batch is complete: enough rows, an event, the delay over since its first transaction, or the
// source at its end or in error, which it returns.
func (w *worker) gather(soft context.Context) (end *ending, last error) {
	var (
		timer clock.Timer
		full  <-chan time.Time
		rows  bool // the delay is that of rows
	)
	for {
		if w.takeHeld(); w.event != nil || w.rows >= w.life.node.cfg.Limits.BatchRows {
			return nil, nil
		}
		switch {
		case len(w.pending) == 0:
		case timer == nil:
			timer = w.life.node.cfg.Timers.NewTimer(w.delay())
			defer timer.Stop()
			full, rows = timer.C(), w.rows > 0
		case !rows && w.rows > 0:
			timer.Reset(w.delay())
			rows = true
		}
		select {
		case <-soft.Done():
			return stopped(), nil
		case d := <-w.feed.out:
			if d.err != nil {
				return nil, d.err
			}
			w.take(d.tx)
		case <-full:
			return nil, nil
		}
	}
}

// takeHeld goes on with what was read beyond an event that is passed.
func (w *worker) takeHeld() {
	for w.held != nil && w.event == nil {
		tx := *w.held
		w.held = nil
		w.take(tx)
	}
}

// delay is how long what is pending may wait for more.
func (w *worker) delay() time.Duration {
	if w.rows > 0 {
		return w.life.node.cfg.Limits.BatchDelay
	}
	return w.life.node.cfg.Limits.ProgressDelay
}

// take adds a transaction, unless an event comes first or it is downstream already.
func (w *worker) take(tx Transaction) {
	if w.meet(&tx) {
		return
	}
	if !w.sunk.Less(tx.Position) {
		w.walked(tx.Position)
		return
	}
	if n := len(w.pending); n > 0 && len(tx.Changes) == 0 && len(w.pending[n-1].Changes) == 0 {
		w.pending[n-1] = tx // progress alone
		return
	}
	w.pending = append(w.pending, tx)
	w.rows += len(tx.Changes)
}

// write puts what is pending downstream, however often the gate closes meanwhile. The claim is repeated whenever the gate
// was closed or the sink failed.
func (w *worker) write(hard, soft context.Context) *ending {
	for len(w.pending) > 0 {
		if soft.Err() != nil {
			return stopped()
		}
		if w.opening == 0 || w.opening != w.life.gate.State().Opening {
			if end := w.claim(hard, soft); end != nil {
				return end
			}
			continue
		}
		if err := w.awaitEffect(soft); err != nil {
			return stopped()
		}
		batch := w.batch()
		c := w.call(hard, SinkCall{Kind: CallWrite, Resume: batch.Resume, Rows: len(batch.Changes)},
			func(ctx context.Context, a *attempt) error { return w.writer.Write(ctx, batch, a.allow) })
		if c.result == resultDone {
			w.written(batch)
			continue
		}
		if end := w.after(soft, CallWrite, c); end != nil {
			return end
		}
	}
	return nil
}

func (w *worker) batch() Batch {
	b := Batch{Changes: make([]Change, 0, w.rows)}
	for i := range w.pending {
		b.Changes = append(b.Changes, w.pending[i].Changes...)
		b.Resume = w.pending[i].Position
	}
	return b
}

func (w *worker) written(b Batch) {
	var committed int64 // of the newest transaction whose source tells
	for _, tx := range w.pending {
		if tx.CommitTimeMS > 0 {
			committed = tx.CommitTimeMS
		}
	}
	w.pending, w.rows, w.failures, w.sunk = nil, 0, 0, b.Resume
	w.note(func(s *WorkerStatus) {
		s.Position, s.LastError, s.Idle = b.Resume, "", false
		s.Rows += uint64(len(b.Changes))
		if committed > 0 {
			s.LagMS = max(0, w.life.node.cfg.Wall()-committed)
		}
	})
}

// resumeAt takes over from where the sink says it stands: what is pending and downstream already is dropped; if the sink
// has less than was written, as after its restore from a backup, the source is read again from there.
func (w *worker) resumeAt(soft context.Context, resume fsm.Position) *ending {
	before := w.position()
	if w.sunk.Less(before) {
		before = w.sunk // an event has been passed, and the sink does not know of it yet
	}
	w.sunk = resume
	if w.feed != nil && resume.Less(before) {
		w.log.Warn("the sink has less than was written; reading again", "sink has", resume.String(), "written", before.String())
		w.note(func(s *WorkerStatus) { s.Position = resume })
		w.feed.close()
		w.feed, w.pending, w.rows, w.held, w.event = nil, nil, 0, nil, nil
		return w.openSource(soft, soft)
	}
	kept := w.pending[:0]
	w.rows = 0
	at := w.position()
	for _, tx := range w.pending {
		if resume.Less(tx.Position) {
			kept = append(kept, tx)
			w.rows += len(tx.Changes)
		} else {
			at = at.Max(tx.Position)
		}
	}
	w.pending = kept
	w.note(func(s *WorkerStatus) { s.Position, s.Positioned = at, true })
	return nil
}

// sourceEnded: at the end of a source the dispatcher stays, with nothing to do; an error ends it, after what came before
// the error has been written.
func (w *worker) sourceEnded(soft context.Context, err error) *ending {
	switch {
	case soft.Err() != nil:
		return stopped()
	case errors.Is(err, io.EOF):
		w.note(func(s *WorkerStatus) { s.Idle = true })
		<-soft.Done()
		return stopped()
	default:
		return endingOf(fmt.Errorf("read source %s after %v: %w", w.order.Work.Source, w.status().Position, err), ReasonSource)
	}
}

// failedOnce waits before what failed is repeated, or ends the placement when it failed too often.
func (w *worker) failedOnce(soft context.Context, kind CallKind, err error) *ending {
	limits := &w.life.node.cfg.Limits
	w.failures++
	w.note(func(s *WorkerStatus) { s.LastError = shorten(err.Error()) })
	if w.failures > limits.Retries {
		return failed(ReasonSink, fmt.Sprintf("%v at sink %s failed %d times in a row: %v", kind, w.order.Work.Sink, w.failures, err))
	}
	w.log.Warn("sink call failed; repeating", "call", kind.String(), "failures", w.failures, "error", err)
	who := w.pair.Epoch.String()
	if clock.Sleep(soft, w.life.node.cfg.Timers, backoff(who, w.failures, limits.BackoffMin, limits.BackoffMax)) != nil {
		return stopped()
	}
	return nil
}

// rest waits for the lease to be renewed when too little of it is left for a sink that cannot check tokens.
func (w *worker) rest(soft context.Context) *ending {
	if clock.Sleep(soft, w.life.node.cfg.Timers, max(w.life.beat/4, time.Millisecond)) != nil {
		return stopped()
	}
	return nil
}
