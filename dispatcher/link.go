package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

const (
	// maxReports bounds the reports of one message, maxDetail the text of one, so that no message meets a limit of the
	// log.
	maxReports = 100
	maxDetail  = 1000
)

// errQuiet: the leader takes heartbeats and acknowledges none.
var errQuiet = errors.New("LEADER_QUIET: no heartbeat was acknowledged for half a lease; the session is opened anew")

// closedError is the leader's word that a session is over.
type closedError struct{ session.Close }

func (e *closedError) Error() string { return e.Reason + ": " + e.Text }

// keepSession has a session with the leader, one at a time, until ctx ends.
func (l *life) keepSession(ctx context.Context) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		before := l.gate.State().NewestAck
		err := l.oneSession(ctx)
		l.setSession(SessionStatus{LastError: text(err)})
		if ctx.Err() != nil || l.gate.State().State == fence.Fenced {
			return
		}
		if l.gate.State().NewestAck > before {
			attempt = 1
		}
		l.log.Warn("session ended; opening another", "error", err, "attempt", attempt)
		wait := backoff(string(l.node.cfg.Node), attempt, l.node.cfg.Limits.BackoffMin, min(l.node.cfg.Limits.BackoffMax, l.lease/4))
		if clock.Sleep(ctx, l.node.cfg.Timers, wait) != nil {
			return
		}
	}
}

// oneSession opens a session and serves it until it breaks. It returns when nothing of it is left.
func (l *life) oneSession(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, l.lease/4)
	stream, err := l.node.cfg.Dialer.Open(call, session.Hello{
		Cluster: l.cluster, Node: l.node.cfg.Node, Incarnation: l.inc, Protocol: session.Protocol,
	})
	cancel()
	if err != nil {
		l.refused(l.node.reason(err))
		return fmt.Errorf("open session: %w", err)
	}
	l.node.count(func(c *Counters) { c.Sessions++ })
	l.mu.Lock()
	l.book.resend()
	l.roll.resend(l.node.elapsed())
	for p := range l.workers {
		l.moved[p] = 0
	}
	l.mu.Unlock()
	l.setSession(SessionStatus{Connected: true})

	sctx, end := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { end(l.receive(stream)) })
	parts.Go(func() { end(l.send(sctx, stream)) })
	parts.Go(func() { end(l.watch(sctx)) })
	<-sctx.Done()
	stream.Close()
	parts.Wait()
	return context.Cause(sctx)
}

// refused ends the incarnation if the code says that the cluster does not know it any more.
func (l *life) refused(code string) {
	switch code {
	case codeStaleIncarnation, codeNodeExpired, codeNodeFenced:
		l.fence(fence.ReasonExpired)
	}
}

// watch ends a session whose leader acknowledges nothing for half a lease: the other half is for the next one. It looks
// in the period of heartbeats, so that it is not late by more than one.
func (l *life) watch(ctx context.Context) error {
	newest, since := l.gate.State().NewestAck, l.node.cfg.Clock.Now()
	ticker := l.node.cfg.Timers.NewTicker(l.beat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C():
		}
		now := l.node.cfg.Clock.Now()
		if ack := l.gate.State().NewestAck; ack != newest {
			newest, since = ack, now
		}
		if clock.MaxElapsed(since, now) >= l.lease/2 {
			return errQuiet
		}
	}
}

// receive takes the leader's messages until the stream breaks or the leader closes it.
func (l *life) receive(stream session.NodeStream) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		switch {
		case m.Ack != nil:
			l.acked(*m.Ack)
		case m.Orders != nil:
			l.obey(*m.Orders)
		case m.ReportAck != nil:
			l.mu.Lock()
			l.book.acked(mark{m.ReportAck.Term, m.ReportAck.Index}, m.ReportAck.Pairs)
			l.roll.rest(l.book) // what stands may be in the set now
			l.mu.Unlock()
			signal(l.wake)
		case m.Barrier != nil:
			l.barrierAnswered(m.Barrier)
		case m.AskBarriers != nil:
			l.askedFor(m.AskBarriers.Key)
		case m.AskList != nil:
			l.mu.Lock()
			l.asked = true
			l.mu.Unlock()
			signal(l.wake)
		case m.Close != nil:
			l.refused(m.Close.Reason)
			return &closedError{*m.Close}
		}
	}
}

func (l *life) acked(a session.Ack) {
	result := l.gate.Acked(fence.Ack{
		Incarnation: uint64(l.inc), Seq: a.Seq, Term: a.Term, Elapsed: durationNS(a.ElapsedNS),
	})
	switch result {
	case fence.AckOpened:
		l.log.Info("writes are allowed", "term", a.Term, "seq", a.Seq)
	case fence.AckStalled:
		l.log.Error("the clock of this machine stood still; the incarnation is given up", "term", a.Term, "seq", a.Seq)
	case fence.AckExtended, fence.AckLate, fence.AckOld, fence.AckOldTerm, fence.AckForeign, fence.AckFenced:
	}
}

// send writes heartbeats in their period, and reports and lists as they come.
func (l *life) send(ctx context.Context, stream session.NodeStream) error {
	beats := l.node.cfg.Timers.NewTicker(l.beat)
	defer beats.Stop()
	later := l.node.cfg.Timers.NewTimer(l.beat)
	defer later.Stop()
	for {
		if err := l.heartbeat(stream); err != nil {
			return err
		}
		for due := false; !due; {
			wait, err := l.flush(stream)
			if err != nil {
				return err
			}
			later.Reset(wait)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-beats.C():
				due = true
			case <-later.C():
			case <-l.wake:
			}
		}
	}
}

// heartbeat takes its number, and with it the reading from which the lease counts, before anything of it is built.
func (l *life) heartbeat(stream session.NodeStream) error {
	seq, err := l.gate.Send()
	if err != nil {
		return err
	}
	s := l.gate.State()
	h := session.Heartbeat{Seq: seq, GateOpen: s.State == fence.Open, NewestAck: s.NewestAck, HighestGeneration: l.node.highest()}
	if !h.GateOpen {
		h.GateReason = s.Reason.String()
	}
	l.mu.Lock()
	h.OrdersTerm, h.OrdersIndex = l.book.carried.term, l.book.carried.index
	h.SetHash, h.Dispatchers = l.book.setHash, l.book.counted
	h.Progress = l.progress()
	h.Crews = l.crews()
	l.mu.Unlock()
	if err := stream.Send(session.FromNode{Heartbeat: &h}); err != nil {
		return fmt.Errorf("send heartbeat %d: %w", seq, err)
	}
	l.node.count(func(c *Counters) { c.Heartbeats++ })
	return nil
}

// flush sends one message of reports that are due, one of what is said of events, and the list if it was asked for. It
// leaves the rest for the next time, so that no crowd of reports holds a heartbeat back, and returns when that is at the
// latest.
func (l *life) flush(stream session.NodeStream) (wait time.Duration, err error) {
	if l.gate.State().State == fence.Fenced {
		return 0, fence.ErrFenced // nothing more is said under this incarnation
	}
	if err := l.flushReports(stream); err != nil {
		return 0, err
	}
	wait, err = l.flushBarriers(stream)
	if err != nil {
		return 0, err
	}
	return wait, l.flushList(stream)
}

func (l *life) flushReports(stream session.NodeStream) error {
	l.mu.Lock()
	reports := l.book.due(l.node.elapsed(), l.node.cfg.Limits.ReportRepeat, maxReports)
	l.mu.Unlock()
	if len(reports) > 0 {
		if err := stream.Send(session.FromNode{Report: &session.Report{Reports: reports}}); err != nil {
			return fmt.Errorf("send %d reports: %w", len(reports), err)
		}
		signal(l.wake)
	}
	return nil
}

func (l *life) flushBarriers(stream session.NodeStream) (wait time.Duration, err error) {
	now := l.node.elapsed()
	l.mu.Lock()
	m, more := l.roll.due(now, l.node.cfg.Limits.ReportRepeat, l.book)
	wait = min(l.beat, max(l.roll.next-now, time.Millisecond))
	l.mu.Unlock()
	if m == nil {
		return wait, nil
	}
	if err := stream.Send(session.FromNode{Barrier: m}); err != nil {
		return 0, fmt.Errorf("send %d reports of events: %w", len(m.Reports), err)
	}
	if more {
		signal(l.wake)
	}
	return wait, nil
}

func (l *life) flushList(stream session.NodeStream) error {
	l.mu.Lock()
	asked := l.asked
	l.asked = false
	var pairs []session.Pair
	if asked {
		pairs = l.book.list()
	}
	l.mu.Unlock()
	if !asked {
		return nil
	}
	if err := stream.Send(session.FromNode{List: &session.List{Pairs: pairs}}); err != nil {
		return fmt.Errorf("send list of %d: %w", len(pairs), err)
	}
	return nil
}

func (l *life) setSession(s SessionStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func startFailed(p session.Pair, reason, detail string) fsm.PlacementReport {
	return fsm.PlacementReport{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch},
		What:              fsm.ReportStartFailed, Reason: reason, Detail: shorten(detail),
	}
}

// durationNS is a duration that came over the wire.
func durationNS(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// shorten keeps a detail within maxDetail bytes, without cutting a character.
func shorten(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	cut := maxDetail
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}
