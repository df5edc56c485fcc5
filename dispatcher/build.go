package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/fence"
)

// Stable reasons of placements that ended by themselves. A *StopError brings its own.
const (
	ReasonClosing      = "CLOSING"               // an older owner of the range on this node has not returned
	ReasonFenced       = "FENCED"                // the sink refused the token: a newer owner has claimed the range
	ReasonClaimed      = "SINK_CLAIMED_BY_OTHER" // another cluster or changefeed holds the range
	ReasonSink         = "SINK_ERROR"            // the sink went on failing
	ReasonSource       = "SOURCE_ERROR"          // the source failed
	ReasonNotFenced    = "SINK_NOT_FENCED"       // the changefeed says that the sink checks tokens, and it does not
	ReasonWriteTime    = "WRITE_TIME_TOO_LONG"   // an unfenced sink's longest write does not fit into the lease
	ReasonStartTimeout = "START_TIMEOUT"         // building took too long
	ReasonForgotten    = "BARRIER_FORGOTTEN"     // the state machine knows nothing of the event at which it stands
)

var errStartTimeout = errors.New("the time for a start is over")

// build brings the worker to where it can write: an open gate, the sink, the claim, and only then the source at the
// resume point that the claim returned.
func (w *worker) build(hard, soft context.Context) *ending {
	cfg := &w.life.node.cfg
	if _, err := w.life.gate.WaitOpen(soft); err != nil {
		return stopped()
	}
	leave, err := w.enter(soft)
	if err != nil {
		return stopped()
	}
	defer leave()
	timed, cancel := context.WithTimeoutCause(soft, cfg.Limits.StartTimeout, errStartTimeout)
	defer cancel()
	timedHard, cancelHard := context.WithTimeoutCause(hard, cfg.Limits.StartTimeout, errStartTimeout)
	defer cancelHard()
	end := w.openSink(timed)
	if end == nil {
		end = w.claim(timedHard, timed)
	}
	if end == nil {
		end = w.openSource(timed, soft)
	}
	switch {
	case end == nil:
		return nil
	case soft.Err() != nil: // an error after a stop is the stop's
		return stopped()
	case timed.Err() != nil || timedHard.Err() != nil: // and one after the time is over is the time's
		return failed(ReasonStartTimeout, fmt.Sprintf("the dispatcher was not ready within %v; look at its source and its sink: %s",
			cfg.Limits.StartTimeout, end.detail))
	default:
		return end
	}
}

// enter waits for a place among those that are being built. Its place is free again when it leaves, or when it has taken
// longer than anybody should wait for it.
func (w *worker) enter(ctx context.Context) (leave func(), err error) {
	n := w.life.node
	select {
	case n.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	built := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() {
		timer := n.cfg.Timers.NewTimer(n.cfg.Limits.StartPatience)
		defer timer.Stop()
		select {
		case <-built:
		case <-timer.C():
		}
		<-n.starts
	})
	return func() { close(built); parts.Wait() }, nil
}

func (w *worker) openSink(ctx context.Context) *ending {
	work := &w.order.Work
	sink, err := w.life.node.cfg.Sinks(work.Sink)
	if err != nil {
		return endingOf(err, ReasonSink)
	}
	if end := w.checkPromises(sink.Properties()); end != nil {
		return end
	}
	sw, err := sink.Open(ctx, SinkSpec{
		URI: work.Sink, Cluster: w.life.cluster, Changefeed: work.Changefeed, Run: work.Run,
		Table: TableName{work.Schema, work.Table}, Span: work.Span, Trigger: work.Trigger, Session: w.sessionName(),
	})
	if err != nil {
		return endingOf(fmt.Errorf("open sink %s: %w", work.Sink, err), ReasonSink)
	}
	if !w.adopt(sw) {
		return stopped()
	}
	return nil
}

// checkPromises holds the sink to what the changefeed records of it, by which the servers decide how long to wait.
func (w *worker) checkPromises(p SinkProperties) *ending {
	if p.Fenced {
		return nil
	}
	if w.order.Work.SinkFenced {
		return failed(ReasonNotFenced, "the changefeed records that sink "+w.order.Work.Sink+
			" checks tokens, and on this node it does not; use the same build everywhere, or create the changefeed anew")
	}
	w.margin = max(w.margin, time.Duration(p.MaxWriteMS)*time.Millisecond)
	timing := w.life.node.cfg.Timing
	timing.Lease = w.life.lease
	if err := timing.CheckWriteTime(w.margin); err != nil {
		if setting, ok := errors.AsType[*fence.SettingError](err); ok {
			return failed(ReasonWriteTime, setting.Text)
		}
		return failed(ReasonWriteTime, err.Error())
	}
	return nil
}

// openSource starts reading after what is downstream and passed, which may be before what the sink has: the events in
// between have to be seen. Opening is limited by timed, reading by soft.
func (w *worker) openSource(timed, soft context.Context) *ending {
	work := &w.order.Work
	source, err := w.life.node.cfg.Sources(work.Source)
	if err != nil {
		return endingOf(err, ReasonSource)
	}
	start := w.position()
	reader, err := source.Open(timed, SourceSpec{
		URI: work.Source, Table: TableName{work.Schema, work.Table}, Span: work.Span, Trigger: work.Trigger, Start: start,
	})
	if err != nil {
		return endingOf(fmt.Errorf("open source %s at %v: %w", work.Source, start, err), ReasonSource)
	}
	w.feed = startFeed(soft, reader)
	return nil
}

// endingOf gives an error that ends the placement its reason.
func endingOf(err error, reason string) *ending {
	var (
		stop    *StopError
		fenced  *FencedError
		claimed *ClaimedByOtherError
	)
	switch {
	case errors.As(err, &stop):
		return &ending{reason: stop.Reason, detail: stop.Text, fatal: true}
	case errors.As(err, &fenced):
		return failed(ReasonFenced, fenced.Error())
	case errors.As(err, &claimed):
		return failed(ReasonClaimed, claimed.Error())
	default:
		return failed(reason, err.Error())
	}
}
