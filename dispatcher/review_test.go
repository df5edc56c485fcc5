package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fsm"
)

var startFailedOnly = []fsm.ReportKind{fsm.ReportStartFailed}

// failOnce lets the first call of a stage fail.
func failOnce(w *world, s stage) {
	failed := false
	w.hook(s, func(context.Context, func() error) error {
		if failed {
			return nil
		}
		failed = true
		return errors.New("broken for the moment")
	})
}

func TestReview_R01_ARepeatedStartNeverRevivesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		failOnce(w, stageSinkOpen)
		r := newRig(t, w, nil)
		r.leader.set(func() { r.leader.ackReports = false })
		at := r.leader.order(startOrder(1, 50))
		r.leader.orderAt(at, startOrder(1, 50)) // orders are repeated until the state changes
		pass(time.Second)
		r.leader.orderAt(at, startOrder(1, 50))
		pass(time.Second)
		require.Equal(t, startFailedOnly, r.leader.kinds(1, 50))
		require.Equal(t, 1, w.count(stageSinkOpen))

		r.leader.set(func() { r.leader.ackReports = true })
		pass(time.Second)
		r.leader.orderAt(at, startOrder(1, 50)) // was in a buffer all the time
		pass(time.Second)
		require.Equal(t, 1, w.count(stageSinkOpen), "refused as older than the acknowledgement")

		r.leader.order(startOrder(1, 51))
		pass(time.Second)
		require.Equal(t, justRunning, r.leader.kinds(1, 51))
		require.NoError(t, r.stop())
	})
}

// Two sessions: the order lies in the buffer of a deposed leader, to which the node comes back.
func TestReview_R01_ALateStartOfADeposedLeaderNeverRevivesWhatStopped(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(tx(10, 1))
			r := newRig(t, w, nil)
			old := r.leader.order(startOrder(1, 50))
			pass(time.Second)
			require.Equal(t, justRunning, r.leader.kinds(1, 50))
			r.leader.set(func() { r.leader.term++ })
			r.leader.current.Close() // the next session is with the new leader
			pass(time.Second)
			r.leader.order(stopOrder(1, 50))
			pass(time.Second)
			require.Equal(t, ranStopped, r.leader.kinds(1, 50))
			r.leader.current.Close() // and the one after it with the deposed one
			pass(time.Second)
			if forgetful { // the mutant: the memory goes with the acknowledgement, and nothing is left in its place
				l := r.node.life
				l.mu.Lock()
				l.book.floor = mark{}
				l.mu.Unlock()
			}
			r.leader.orderAt(old, startOrder(1, 50))
			pass(time.Second)
			if forgetful {
				require.Equal(t, 2, w.count(stageSinkOpen), "the test would see a node that forgets")
			} else {
				require.Equal(t, 1, w.count(stageSinkOpen))
				require.EqualValues(t, 1, r.node.Status().Counters.OrdersRefused)
			}
			require.NoError(t, r.stop())
		})
	}
}

// orderModel is a state machine with one dispatcher, two leaders, and a node that keeps a book.
type orderModel struct {
	rng     *rand.Rand
	index   uint64
	term    uint64
	epoch   fsm.Epoch
	phase   fsm.Phase
	ended   map[fsm.Epoch]bool // the state machine knows that nobody runs it any more
	queues  [2][]session.FromLeader
	reports []fsm.PlacementReport
	book    *book
	runs    map[session.Pair]bool
	now     time.Duration
	mutant  string
}

func (m *orderModel) step() {
	m.now += time.Second
	switch m.rng.IntN(9) {
	case 0: // the scheduler places it here again
		if m.phase == fsm.Absent {
			m.index++
			m.epoch++
			m.phase = fsm.Starting
		}
	case 1: // somebody removes it from here
		if m.phase == fsm.Starting || m.phase == fsm.Running {
			m.index++
			m.phase = fsm.Stopping
		}
	case 2: // the leader changes; what the old one has sent stays under way
		if m.term < 4 {
			m.index++
			m.term++
		}
	case 3, 4:
		m.sendOrders()
	case 5: // the node hears from either leader
		q := m.rng.IntN(2)
		if len(m.queues[q]) > 0 {
			msg := m.queues[q][0]
			m.queues[q] = m.queues[q][1:]
			m.hear(msg)
		}
	case 6: // something happens to what runs
		m.happen()
	case 7:
		m.reports = append(m.reports, m.book.due(m.now, 2*time.Second, 10)...)
	case 8:
		m.applyReport()
	}
}

func (m *orderModel) queue() *[]session.FromLeader { return &m.queues[m.term%2] }

func (m *orderModel) sendOrders() {
	o := session.Orders{Term: m.term, Index: m.index}
	switch m.phase {
	case fsm.Starting:
		o.Orders = []fsm.Order{startOrder(1, m.epoch)}
	case fsm.Stopping:
		o.Orders = []fsm.Order{stopOrder(1, m.epoch)}
	case fsm.Absent, fsm.Running:
	}
	*m.queue() = append(*m.queue(), session.FromLeader{Orders: &o})
}

func (m *orderModel) hear(msg session.FromLeader) {
	if a := msg.ReportAck; a != nil {
		floor := m.book.floor
		m.book.acked(mark{a.Term, a.Index}, a.Pairs)
		if m.mutant == "no floor from acks" {
			m.book.floor = floor
		}
		return
	}
	if m.mutant != "no floor" && !m.book.admit(mark{msg.Orders.Term, msg.Orders.Index}) {
		return
	}
	for _, o := range msg.Orders.Orders {
		p := session.Pair{Dispatcher: o.Dispatcher, Epoch: o.Epoch}
		if o.Kind == fsm.OrderStart {
			if m.book.start(p, &fsm.Work{}) {
				m.runs[p] = true
			}
		} else if m.book.stop(p) {
			m.finish(p, fsm.ReportStopped)
		}
	}
}

func (m *orderModel) happen() {
	for _, p := range m.book.list() {
		if !m.runs[p] {
			continue
		}
		switch m.rng.IntN(4) {
		case 0:
			m.finish(p, fsm.ReportStartFailed)
		case 1:
			m.finish(p, fsm.ReportStopped)
		default:
			m.book.running(p)
		}
	}
}

func (m *orderModel) finish(p session.Pair, what fsm.ReportKind) {
	delete(m.runs, p)
	r := fsm.PlacementReport{PlacementPosition: fsm.PlacementPosition{Dispatcher: p.Dispatcher, Epoch: p.Epoch}, What: what}
	m.book.end(p, r)
	if m.mutant == "forget at once" {
		m.reports = append(m.reports, r)
		delete(m.book.pairs, p)
		m.book.outbox = nil
	}
}

func (m *orderModel) applyReport() {
	if len(m.reports) == 0 {
		return
	}
	r := m.reports[0]
	m.reports = m.reports[1:]
	if r.Epoch == m.epoch {
		switch {
		case r.What == fsm.ReportRunning && m.phase == fsm.Starting:
			m.index++
			m.phase = fsm.Running
		case r.What == fsm.ReportStopped && m.phase != fsm.Absent,
			r.What == fsm.ReportStartFailed && (m.phase == fsm.Starting || m.phase == fsm.Stopping):
			m.index++
			m.phase = fsm.Absent
			m.ended[m.epoch] = true
		}
	}
	*m.queue() = append(*m.queue(), session.FromLeader{ReportAck: &session.ReportAck{
		Term: m.term, Index: m.index,
		Pairs: []session.ReportedPair{{Pair: session.Pair{Dispatcher: r.Dispatcher, Epoch: r.Epoch}, What: r.What}},
	}})
}

// revived reports whether something runs of which the state machine knows that it has ended.
func (m *orderModel) revived() bool {
	for p := range m.runs {
		if m.ended[p.Epoch] {
			return true
		}
	}
	return false
}

func searchOrders(seed uint64, schedules int, mutant string) (broken int) {
	for i := range schedules {
		m := &orderModel{
			rng: rand.New(rand.NewPCG(seed, uint64(i))), index: 10, term: 1, epoch: 1, phase: fsm.Starting, mutant: mutant,
			ended: map[fsm.Epoch]bool{}, book: newBook(), runs: map[session.Pair]bool{},
		}
		for range 60 {
			m.step()
			if m.revived() {
				broken++
				break
			}
		}
	}
	return broken
}

func TestReview_R01_Search(t *testing.T) {
	seed := uint64(20250117)
	if s := os.Getenv("WEIR_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d; rerun: WEIR_SEED=%d go test ./dispatcher -run TestReview_R01_Search", seed, seed)
	const schedules = 10_000
	require.Zero(t, searchOrders(seed, schedules, ""))
	for _, mutant := range []string{"forget at once", "no floor from acks", "no floor"} {
		broken := searchOrders(seed, schedules, mutant)
		t.Logf("mutant %q: revived in %d of %d schedules", mutant, broken, schedules)
		require.NotZero(t, broken, "the search does not see the mutant %q", mutant)
	}
}

// An ack that a leader releases although the tick refused the node must change nothing once the node has been told.
func TestReview_R02_AnAckAfterTheRefusalReopensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.atEnd = nil
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.set(func() { r.leader.acks = false })
		pass(300 * time.Millisecond)
		first, p := r.node.life, r.leader.current
		last := r.leader.heartbeat().Seq
		r.leader.set(func() { // no new incarnation for a while
			r.leader.refuse = func(int) error { return codeError(codeNodeLive) }
		})
		r.leader.fence()
		p.down <- session.FromLeader{Ack: &session.Ack{Seq: last, Term: r.leader.term, Index: 999}}
		pass(100 * time.Millisecond)
		require.Equal(t, fence.Fenced, first.gate.State().State)
		require.Equal(t, fence.AckFenced, first.gate.Acked(fence.Ack{Incarnation: 41, Seq: last, Term: 9}))
		require.ErrorIs(t, first.gate.Allow(0), fence.ErrFenced)
		open, closes, _ := w.openWriters()
		require.Equal(t, [2]int{0, 1}, [2]int{open, closes}, "everything has been dropped")

		r.leader.set(func() { r.leader.refuse, r.leader.acks = nil, true })
		pass(3 * time.Second)
		require.Equal(t, fsm.Incarnation(42), r.node.Status().Incarnation)
		require.Empty(t, r.node.Status().Dispatchers, "a new incarnation owns nothing")
		require.Zero(t, r.leader.heartbeat().Dispatchers)
		require.NoError(t, r.stop())
	})
}

// The process stands still between the check that let it begin and the write itself, and the clock runs on: neither the
// goroutine that closes the gate nor the context has noticed, but the write compares the clocks itself.
func TestReview_R04_AWriteComparesTheClocksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		var r *rig
		var stood, noticed bool
		w.hook(stageWrite, func(ctx context.Context, _ func() error) error {
			if !stood {
				stood = true
				r.clock.Shift(3 * time.Second)
				noticed = ctx.Err() != nil
			}
			return nil
		})
		r = newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(100 * time.Millisecond)
		require.True(t, stood)
		require.False(t, noticed, "whoever relies on the context would have written")
		require.Empty(t, w.writes())
		var outcomes []CallOutcome
		for _, c := range r.ledger.calls() {
			if c.Kind == CallWrite {
				outcomes = append(outcomes, c.Outcome)
			}
		}
		require.Equal(t, []CallOutcome{CallRefused}, outcomes)

		pass(2 * time.Second)
		require.Len(t, w.writes(), 1)
		require.Equal(t, Token{50, 2}, w.writes()[0].token, "claimed anew after the gate re-opened")
		require.NoError(t, r.stop())
	})
}

// Evidence for the checkers: whatever was accepted was allowed while the gate was open by the node's own clock.
func TestReview_R04_EveryAcceptedWriteLiesInsideAnOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var txs []Transaction
		for i := range 2000 {
			txs = append(txs, tx(uint64(10+i), 1))
		}
		w := newWorld(txs...)
		w.hook(stageWrite, func(context.Context, func() error) error { time.Sleep(7 * time.Millisecond); return nil })
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		r.leader.order(startOrder(1, 50))
		for range 4 {
			pass(1500 * time.Millisecond)
			r.leader.set(func() { r.leader.acks = false })
			pass(3 * time.Second)
			r.leader.set(func() { r.leader.acks = true })
		}
		require.NoError(t, r.stop())
		accepted := 0
		for _, c := range r.ledger.calls() {
			if c.Outcome != CallAccepted {
				continue
			}
			accepted++
			require.True(t, insideOpening(r.ledger.edges, c), "%+v", c)
		}
		require.Greater(t, accepted, 500)
		require.GreaterOrEqual(t, len(r.ledger.edges), 8)
		require.Len(t, r.ledger.calls(), len(r.ledger.attempts))
	})
}

func insideOpening(edges []fence.Edge, c SinkCall) bool {
	for i, e := range edges {
		if e.Kind != fence.EdgeOpened || e.Opening != c.Opening || c.Allowed.Boot < e.At.Boot {
			continue
		}
		return i+1 == len(edges) || c.Allowed.Boot <= edges[i+1].At.Boot
	}
	return false
}

func TestReview_R22_ADispatcherThatDiesAloneIsReportedAndNeverRestartedUnderItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1))
		broken := false
		w.hook(stageWrite, func(_ context.Context, allow func() error) error {
			w.mu.Lock()
			now := broken
			broken = true
			w.mu.Unlock()
			if now {
				return errors.New("disk full")
			}
			return nil
		})
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows, c.Limits.Retries = 1, 3 })
		at := r.leader.order(startOrder(1, 50))
		pass(10 * time.Second)
		require.Equal(t, ranStopped, r.leader.kinds(1, 50))
		last := r.leader.reported(1, 50)[1]
		require.Equal(t, ReasonSink, last.Reason)
		require.Contains(t, last.Detail, "disk full")
		require.Equal(t, uint64(10), last.Position.TS)
		require.Equal(t, 5, w.count(stageWrite), "one that succeeded, then one and three repetitions")
		r.leader.orderAt(at, startOrder(1, 50))
		r.leader.order(startOrder(1, 50)) // even from a state that should know better, as long as it is remembered
		w.hook(stageWrite, nil)
		pass(time.Second)
		r.leader.order(startOrder(1, 60))
		pass(time.Second)
		require.Equal(t, justRunning, r.leader.kinds(1, 60))
		require.Equal(t, []uint64{10, 20}, resumes(w.writes()))
		require.NoError(t, r.stop())
	})
}

// A batch of an earlier opening may still be on its way: the claim is repeated with the next number, and a sink that
// cannot check it is left alone for w.
func TestReview_R31_AClaimIsRepeatedAndAnUnfencedSinkWaits(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const maxWrite = 600 * time.Millisecond
			w := newWorld(tx(10, 1))
			w.props = SinkProperties{Fenced: fenced, MaxWriteMS: uint32(maxWrite.Milliseconds())}
			var brokenAt time.Time
			w.hook(stageWrite, func(_ context.Context, allow func() error) error {
				if !brokenAt.IsZero() {
					return nil
				}
				if err := allow(); err != nil {
					return err
				}
				brokenAt = time.Now()
				return errors.New("the connection broke")
			})
			r := newRig(t, w, nil)
			o := startOrder(1, 50)
			o.Work.SinkFenced, o.Work.SinkMaxWriteMS = fenced, w.props.MaxWriteMS
			r.leader.order(o)
			pass(3 * time.Second)
			require.Equal(t, []Token{{50, 1}, {50, 2}}, tokens(w.claims()))
			require.Len(t, w.writes(), 1)
			if fenced {
				require.Less(t, w.writes()[0].at.Sub(brokenAt), maxWrite)
			} else {
				require.GreaterOrEqual(t, w.claims()[1].at.Sub(brokenAt), maxWrite)
			}
			require.NoError(t, r.stop())
		})
	}
}

func TestAnUnfencedSinkStopsEarlyByItsWriteTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxWrite = 800 * time.Millisecond
		var txs []Transaction
		for i := range 1000 {
			txs = append(txs, tx(uint64(10+i), 1))
		}
		w := newWorld(txs...)
		w.props = SinkProperties{MaxWriteMS: uint32(maxWrite.Milliseconds())}
		w.hook(stageWrite, func(context.Context, func() error) error { time.Sleep(10 * time.Millisecond); return nil })
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		o := startOrder(1, 50)
		o.Work.SinkFenced, o.Work.SinkMaxWriteMS = false, w.props.MaxWriteMS
		r.leader.order(o)
		pass(time.Second)
		r.leader.set(func() { r.leader.acks = false })
		pass(4 * time.Second)
		edges := r.ledger.edges
		deadline := edges[len(edges)-1].Deadline
		require.Equal(t, fence.EdgeClosed, edges[len(edges)-1].Kind)
		for _, c := range r.ledger.calls() {
			if c.Outcome == CallAccepted {
				require.LessOrEqual(t, c.Allowed.Boot+maxWrite, deadline.Boot)
			}
		}
		require.NotZero(t, r.node.Status().Counters.Refused)
		require.NoError(t, r.stop())
	})
}

func TestAnUnfencedSinkIsStoppedOnlyWhenItsLastWriteHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxWrite = 700 * time.Millisecond
		w := newWorld(tx(10, 1))
		w.props = SinkProperties{MaxWriteMS: uint32(maxWrite.Milliseconds())}
		w.hook(stageWrite, func(ctx context.Context, allow func() error) error {
			if err := allow(); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		r := newRig(t, w, func(c *Config) { c.Limits.StopGrace = 100 * time.Millisecond })
		o := startOrder(1, 50)
		o.Work.SinkFenced, o.Work.SinkMaxWriteMS = false, w.props.MaxWriteMS
		r.leader.order(o)
		pass(500 * time.Millisecond)
		r.leader.order(stopOrder(1, 50))
		pass(150 * time.Millisecond)
		open, _, _ := w.openWriters()
		require.Zero(t, open, "the sink has returned")
		pass(600 * time.Millisecond)
		require.Equal(t, justRunning, r.leader.kinds(1, 50), "w is not over")
		pass(300 * time.Millisecond)
		require.Equal(t, ranStopped, r.leader.kinds(1, 50))
		require.NoError(t, r.stop())
	})
}

func TestASinkIsHeldToWhatTheChangefeedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.props = SinkProperties{MaxWriteMS: 1000}
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50)) // recorded as fenced
		o := startOrder(2, 51)
		o.Work.SinkFenced, o.Work.SinkMaxWriteMS = false, 1900
		r.leader.order(o)
		pass(time.Second)
		require.Equal(t, ReasonNotFenced, r.leader.reported(1, 50)[0].Reason)
		require.Equal(t, ReasonWriteTime, r.leader.reported(2, 51)[0].Reason)
		require.Zero(t, w.count(stageSinkOpen))
		require.NoError(t, r.stop())
	})
}

func TestReview_R41_AnOrphanShowsInTheSetHashAndIsStoppedByPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newWorld(tx(10, 1)), nil)
		r.leader.order(startOrder(1, 50), startOrder(2, 51))
		pass(time.Second)
		require.Equal(t, fsm.PairHash(1, 50)+fsm.PairHash(2, 51), r.leader.heartbeat().SetHash)
		r.leader.say(session.FromLeader{AskList: &session.AskList{}})
		pass(time.Second)
		require.Len(t, r.leader.lists, 1)

		// The state machine knows only (1, 50): the stop goes to exactly the other pair.
		r.leader.order(stopOrder(2, 51))
		pass(time.Second)
		require.Equal(t, ranStopped, r.leader.kinds(2, 51))
		require.Equal(t, fsm.PairHash(1, 50), r.leader.heartbeat().SetHash)

		// A pair that the node does not hold is answered as stopped, without a position, and remembered.
		r.leader.set(func() { r.leader.ackReports = false })
		at := r.leader.order(stopOrder(3, 52))
		r.leader.orderAt(at, startOrder(3, 52))
		pass(time.Second)
		require.Equal(t, []fsm.ReportKind{fsm.ReportStopped}, r.leader.kinds(3, 52))
		require.False(t, r.leader.reported(3, 52)[0].HasPosition)
		require.Equal(t, fsm.PairHash(1, 50), r.leader.heartbeat().SetHash)
		r.leader.set(func() { r.leader.ackReports = true })
		pass(time.Second)
		require.NoError(t, r.stop())
	})
}

// A destination is an incarnation: what was ordered of one that is over is never started by it or by the next.
func TestReview_R43_OrdersOfALostIncarnationStartNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		r := newRig(t, w, nil)
		pass(500 * time.Millisecond)
		first := r.node.life
		r.leader.fence()
		r.leader.order(startOrder(1, 50)) // behind the refusal in the same session
		pass(time.Second)
		require.Equal(t, fsm.Incarnation(42), r.node.Status().Incarnation)
		first.obey(session.Orders{Term: 99, Index: 9999, Orders: []fsm.Order{startOrder(2, 51)}}) // a receiver that is late
		pass(time.Second)
		require.Zero(t, w.count(stageSinkOpen))
		require.Zero(t, r.node.Status().Ranges)
		require.Empty(t, r.leader.kinds(1, 50))
		require.NoError(t, r.stop())
	})
}

func TestReview_R45_NoStartWhileAnOlderCloserOfTheRangeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		release := make(chan struct{})
		w.hook(stageClose, func(context.Context, func() error) error { <-release; return nil })
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.fence()
		pass(time.Second)
		require.Equal(t, fsm.Incarnation(42), r.node.Status().Incarnation, "a hanging sink does not hold up the new incarnation")
		last := r.leader.registrations[len(r.leader.registrations)-1]
		require.Empty(t, last.BootID, "nothing is proved about an old incarnation that has not returned")

		whole := startOrder(2, 52)
		whole.Work.Span = fsm.WholeTable()
		r.leader.order(startOrder(1, 51), whole, startOrder(3, 53))
		pass(time.Second)
		require.Equal(t, startFailedOnly, r.leader.kinds(1, 51))
		require.Equal(t, ReasonClosing, r.leader.reported(1, 51)[0].Reason)
		require.Equal(t, ReasonClosing, r.leader.reported(2, 52)[0].Reason)
		require.Equal(t, justRunning, r.leader.kinds(3, 53), "another range is not concerned")

		close(release)
		pass(time.Second)
		r.leader.order(startOrder(1, 54))
		pass(time.Second)
		require.Equal(t, justRunning, r.leader.kinds(1, 54))
		require.NoError(t, r.stop())
	})
}

// The node pauses between its test that nothing is pending and its reply, and a batch that was queued inside the sink
// runs in the gap.
func TestField_B12_StoppedIsSaidOnlyWhenNoHandlerCanStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1), tx(20, 1))
		var handlers []func() error // queued inside the sink, to run whenever it likes
		inWrite, release, closing := make(chan struct{}), make(chan struct{}), make(chan struct{})
		w.hook(stageWrite, func(_ context.Context, allow func() error) error {
			handlers = append(handlers, allow)
			if len(handlers) == 2 {
				close(inWrite)
				<-release // deaf to the context
			}
			return nil
		})
		w.hook(stageClose, func(context.Context, func() error) error { <-closing; return nil })
		r := newRig(t, w, func(c *Config) { c.Limits.BatchRows = 1 })
		r.leader.order(startOrder(1, 50))
		<-inWrite
		r.leader.order(stopOrder(1, 50))
		pass(5 * time.Second)
		require.Equal(t, justRunning, r.leader.kinds(1, 50), "a write has not returned")
		require.ErrorIs(t, handlers[1](), errOver, "the gate is open, but this dispatcher is over")
		close(release)
		pass(5 * time.Second)
		require.Equal(t, justRunning, r.leader.kinds(1, 50), "the sink has not returned")
		require.Len(t, w.writes(), 1, "the write that came back late found itself refused")
		close(closing)
		pass(time.Second)
		require.Equal(t, ranStopped, r.leader.kinds(1, 50))
		require.Equal(t, uint64(10), r.leader.reported(1, 50)[1].Position.TS)
		for _, allow := range handlers {
			require.ErrorIs(t, allow(), errOver)
		}
		require.NoError(t, r.node.life.gate.Allow(0), "all the while the lease was open")
		require.NoError(t, r.stop())
	})
}

func TestFenceAtEveryStageLeavesNothingBehind(t *testing.T) {
	const cycles = 120
	for _, s := range []stage{stageSinkOpen, stageClaim, stageSourceOpen, stageRead, stageWrite, stageClose} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deaf %v", s, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fenceCycles(t, s, deaf, cycles) })
			})
		}
	}
}

// fenceCycles fences the node while a dispatcher is at a stage, again and again. A deaf stage does not hear its context
// and ends only long after.
func fenceCycles(t *testing.T, s stage, deaf bool, cycles int) {
	t.Helper()
	w := newWorld(tx(10, 1), tx(20, 1))
	release := make(chan struct{})
	hang := func(ctx context.Context, _ func() error) error {
		if deaf || s == stageClose {
			<-release
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	r := newRig(t, w, func(c *Config) { c.Limits.CloseBound = time.Hour })
	epoch := fsm.Epoch(50)
	for range cycles {
		release = make(chan struct{})
		w.mu.Lock()
		clear(w.rows) // the sink is empty again
		w.mu.Unlock()
		w.hook(s, hang)
		before := w.count(s)
		if s == stageClose {
			before = -1
		}
		inc := r.node.Status().Incarnation
		r.leader.order(startOrder(1, epoch))
		pass(400 * time.Millisecond)
		require.Greater(t, w.count(s), before, "the stage is reached")
		reports := len(r.leader.kinds(1, epoch))
		r.leader.fence()
		pass(400 * time.Millisecond)
		require.Greater(t, r.node.Status().Incarnation, inc, "the node has come back at once")
		require.Empty(t, r.node.Status().Dispatchers)
		fencedAt := time.Now()
		close(release)
		pass(100 * time.Millisecond)
		for _, e := range w.writes() {
			require.False(t, e.token.Epoch == epoch && e.at.After(fencedAt), "a write of a fenced incarnation: %+v", e)
		}
		require.Len(t, r.leader.kinds(1, epoch), reports, "a fenced incarnation reports nothing")
		require.Zero(t, r.node.Status().Ranges)
		open, _, readers := w.openWriters()
		require.Equal(t, [2]int{0, 0}, [2]int{open, readers})

		w.hook(s, nil) // and the node is as good as new
		epoch++
		r.leader.order(startOrder(1, epoch))
		pass(400 * time.Millisecond)
		require.Equal(t, justRunning, r.leader.kinds(1, epoch))
		r.leader.order(stopOrder(1, epoch))
		pass(400 * time.Millisecond)
		require.Equal(t, ranStopped, r.leader.kinds(1, epoch))
		epoch++
	}
	require.NoError(t, r.stop())
	require.Empty(t, r.aborted())
}

func TestStopAtEveryStageOfConstruction(t *testing.T) {
	for _, s := range []stage{stageSinkOpen, stageClaim, stageSourceOpen, stageRead, stageWrite} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deaf %v", s, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(tx(10, 1))
					release := make(chan struct{})
					w.hook(s, func(ctx context.Context, _ func() error) error {
						if deaf {
							<-release
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					})
					r := newRig(t, w, nil)
					r.leader.order(startOrder(1, 50))
					pass(400 * time.Millisecond)
					r.leader.order(stopOrder(1, 50))
					pass(3 * time.Second)
					require.Equal(t, !deaf, slices.Contains(r.leader.kinds(1, 50), fsm.ReportStopped))
					close(release)
					pass(400 * time.Millisecond)
					require.Contains(t, r.leader.kinds(1, 50), fsm.ReportStopped)
					require.NotContains(t, r.leader.kinds(1, 50), fsm.ReportStartFailed)
					reports := r.leader.reported(1, 50)
					require.Equal(t, s != stageSinkOpen && s != stageClaim, reports[len(reports)-1].HasPosition,
						"only a sink that was asked tells a position")
					require.Empty(t, w.writes())
					open, _, readers := w.openWriters()
					require.Equal(t, [2]int{0, 0}, [2]int{open, readers})
					require.NoError(t, r.stop())
				})
			})
		}
	}
}

func TestOneHangingCloserDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		release := make(chan struct{})
		closing := 0
		w.hook(stageClose, func(context.Context, func() error) error {
			w.mu.Lock()
			closing++
			mine := closing == 1
			w.mu.Unlock()
			if mine {
				<-release
			}
			return nil
		})
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50), startOrder(2, 51), startOrder(3, 52))
		pass(time.Second)
		r.leader.fence()
		pass(time.Second)
		open, closes, _ := w.openWriters()
		require.Equal(t, [2]int{1, 2}, [2]int{open, closes})
		require.Equal(t, 1, r.node.Status().Ranges)
		close(release)
		pass(time.Second)
		require.NoError(t, r.stop())
	})
}

func TestAWritePathThatDoesNotReturnEndsTheProcess(t *testing.T) {
	t.Run("after the end of the incarnation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(tx(10, 1))
			release := make(chan struct{})
			w.hook(stageWrite, func(context.Context, func() error) error { <-release; return nil })
			r := newRig(t, w, nil)
			r.leader.order(startOrder(1, 50))
			pass(time.Second)
			r.leader.fence()
			pass(9 * time.Second)
			require.Empty(t, r.aborted())
			pass(2 * time.Second)
			require.Len(t, r.aborted(), 1)
			require.Contains(t, r.aborted()[0], "CLOSE_OVERDUE")
			close(release)
			pass(time.Second)
			require.Empty(t, w.writes())
			require.NoError(t, r.stop())
		})
	})
	t.Run("after the gate has closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(tx(10, 1))
			release := make(chan struct{})
			w.hook(stageWrite, func(context.Context, func() error) error { <-release; return nil })
			r := newRig(t, w, nil)
			r.leader.order(startOrder(1, 50))
			pass(time.Second)
			r.leader.set(func() { r.leader.acks = false })
			pass(11 * time.Second)
			require.Empty(t, r.aborted())
			pass(3 * time.Second)
			require.Len(t, r.aborted(), 1)
			close(release)
			pass(time.Second)
			require.Empty(t, w.writes())
			require.NoError(t, r.stop())
		})
	})
}

func TestAStalledClockEndsTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(tx(10, 1))
		w.atEnd = nil
		r := newRig(t, w, nil)
		r.leader.order(startOrder(1, 50))
		pass(time.Second)
		r.leader.set(func() { r.leader.acks = false })
		pass(250 * time.Millisecond)
		r.clock.Stall() // the virtual machine is paused together with its clock
		r.leader.say(session.FromLeader{Ack: &session.Ack{
			Seq: r.leader.heartbeat().Seq, Term: 3, Index: 500, ElapsedNS: uint64(20 * time.Second),
		}})
		r.clock.Resume()
		r.leader.set(func() { r.leader.acks = true })
		pass(time.Second)
		require.Equal(t, fsm.Incarnation(42), r.node.Status().Incarnation)
		require.Empty(t, r.node.Status().Dispatchers)
		kinds := make(map[fence.EdgeKind]fence.Reason)
		for _, e := range r.ledger.edges {
			kinds[e.Kind] = e.Reason
		}
		require.Equal(t, fence.ReasonClockStall, kinds[fence.EdgeFenced])
		require.NoError(t, r.stop())
	})
}

// The lease runs short between two effects of one write: what was sent before may still land, so the next write waits.
func TestAWriteCutShortByTheMarginIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxWrite = 500 * time.Millisecond
		w := newWorld(tx(10, 1))
		w.props = SinkProperties{MaxWriteMS: uint32(maxWrite.Milliseconds())}
		var cut atomic.Pointer[time.Time]
		w.hook(stageWrite, func(_ context.Context, allow func() error) error {
			if cut.Load() != nil {
				return nil
			}
			for { // effect after effect
				now := time.Now()
				cut.Store(&now)
				if err := allow(); err != nil {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		r := newRig(t, w, nil)
		o := startOrder(1, 50)
		o.Work.SinkFenced, o.Work.SinkMaxWriteMS = false, w.props.MaxWriteMS
		r.leader.set(func() { r.leader.acks = false })
		r.leader.order(o)
		for pass(5 * time.Millisecond); cut.Load() == nil || time.Since(*cut.Load()) < 20*time.Millisecond; {
			pass(5 * time.Millisecond)
		}
		require.Equal(t, fence.Open, r.node.Status().Lease.State, "only the margin is over")
		r.leader.set(func() { r.leader.acks = true })
		pass(2 * time.Second)
		require.Len(t, w.writes(), 1)
		require.Equal(t, []Token{{50, 1}}, tokens(w.claims()), "the opening is the same")
		require.GreaterOrEqual(t, w.writes()[0].at.Sub(*cut.Load()), maxWrite)
		require.NoError(t, r.stop())
	})
}
