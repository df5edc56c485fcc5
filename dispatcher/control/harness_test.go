package control

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// harness is a Leader over a fake log, in a bubble of fake time.
type harness struct {
	t      *testing.T
	began  time.Time
	clk    *clock.Bubble
	timing fence.Timing
	log    *fakeLog
	leader *Leader
	ctx    context.Context //nolint:containedctx // of a test
	stop   context.CancelFunc

	running sync.WaitGroup
	leads   atomic.Uint64           // the term
	cancel  context.CancelCauseFunc // of the term
	ended   chan error              // of Run

	mu        sync.Mutex
	stepDowns []time.Duration
}

// inBubble runs a test in fake time, with a leader of term 1. Inside, h.t is the test.
func inBubble(t *testing.T, f func(h *harness), changes ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, changes...)
		defer h.finish()
		h.lead(1)
		f(h)
	})
}

func newHarness(t *testing.T, changes ...func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, began: time.Now(), clk: clock.NewBubble(), timing: fence.DefaultTiming()}
	h.log = newFakeLog(h.clk)
	cfg := Config{
		Proposer: h.log, Viewer: h.log, Appends: h.log.appends, Clock: h.clk, Timers: clock.SystemTimers{},
		Timing: h.timing, Limits: scheduler.DefaultLimits(), SharePercent: 100,
		StepDown: func(string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.stepDowns = append(h.stepDowns, h.now())
		},
		LeaderAddress: func() string { return "leader:1" },
		WallMS:        func() int64 { return 0 },
		Logger:        hclog.NewNullLogger(),
	}
	for _, change := range changes {
		change(&cfg)
	}
	var err error
	h.leader, err = New(cfg)
	require.NoError(t, err)
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

func (h *harness) now() time.Duration { return time.Since(h.began) }

func (h *harness) lead(term uint64) {
	ctx, cancel := context.WithCancelCause(h.ctx)
	ended := make(chan error, 1)
	h.cancel, h.ended = cancel, ended
	h.leads.Store(term)
	h.running.Go(func() { ended <- h.leader.Run(ctx, term) })
	synctest.Wait()
}

// depose ends the term and waits for Run.
func (h *harness) depose() error {
	h.cancel(context.Canceled)
	return <-h.ended
}

func (h *harness) finish() {
	h.stop()
	h.running.Wait()
}

// pass lets time go by.
func (h *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *harness) gaveUp() []time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stepDowns
}

// feed makes a changefeed with one table of so many spans.
func (h *harness) feed(name string, spans int) {
	h.t.Helper()
	v := h.log.do(&fsm.CreateChangefeed{
		Name: name, Source: "file:x", Sink: "sink:" + name, SinkFenced: true, Tables: []fsm.TableSpec{splitTable(spans)},
	})
	require.Equal(h.t, fsm.Accepted, v.Reason, v.Facts.Detail)
}

func splitTable(spans int) fsm.TableSpec {
	spec := fsm.TableSpec{Schema: "public", Name: "t"}
	for i := 1; i < spans; i++ {
		spec.SplitKeys = append(spec.SplitKeys, string([]byte{byte(i >> 8), byte(i)}))
	}
	return spec
}

func (h *harness) dispatcher(id fsm.DispatcherID) fsm.Dispatcher {
	h.t.Helper()
	row, ok := h.log.View().Dispatcher(id)
	require.True(h.t, ok, "dispatcher %d", id)
	return row
}

// noScheduler keeps the scheduler from placing anything.
func noScheduler() hooks {
	return hooks{refuse: func(p fsm.Proposal) error {
		if p.By == scheduler.By {
			return errNotProposed
		}
		return nil
	}}
}

// place puts a dispatcher on a node by hand and returns the pair.
func (h *harness) place(id fsm.DispatcherID, node fsm.NodeName) session.Pair {
	h.t.Helper()
	v := h.log.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id, To: node})
	require.Equal(h.t, fsm.Accepted, v.Reason)
	return session.Pair{Dispatcher: id, Epoch: v.Facts.Epoch}
}

// wait is W for the harness's nodes.
func (h *harness) wait() time.Duration { return h.timing.Wait(clock.BootRaw, clock.BootRaw) }
