package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/control"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// smallCluster is the real state machine and the real leader's loop over a log without Raft, and real nodes: only the
// streams, the sources and the sink are fakes.
type smallCluster struct {
	t       *testing.T
	appends *fence.Appends
	clk     *clock.Bubble
	leader  *control.Leader

	mu    sync.Mutex
	state *fsm.State
	index uint64
	term  uint64

	stop    context.CancelFunc
	running sync.WaitGroup
}

func newSmallCluster(t *testing.T) *smallCluster {
	t.Helper()
	c := &smallCluster{
		t: t, appends: fence.NewAppends(), clk: clock.NewBubble(), state: fsm.New(), term: 1,
	}
	c.do(&fsm.BeginTerm{Server: "s1"})
	c.do(&fsm.BeginGeneration{Generation: 7, Cluster: "c1", Why: fsm.GenerationBootstrap})
	var err error
	c.leader, err = control.New(control.Config{
		Proposer: c, Viewer: c, Appends: c.appends, Clock: c.clk, Timers: clock.SystemTimers{}, Timing: fence.DefaultTiming(),
		SharePercent: 100, StepDown: func(string) {}, WallMS: func() int64 { return 0 }, Logger: hclog.NewNullLogger(),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c.stop = stop
	c.running.Go(func() { _ = c.leader.Run(ctx, 1) })
	synctest.Wait()
	return c
}

func (c *smallCluster) do(command fsm.Command) fsm.Verdict {
	vs, _ := c.Propose(context.Background(), fsm.Proposal{Term: c.term, Command: command})
	return vs[0]
}

func (c *smallCluster) Propose(_ context.Context, p ...fsm.Proposal) ([]fsm.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	c.appends.NoteAppend(c.index, c.clk.Now())
	verdicts := c.state.Apply(fsm.Entry{Index: c.index, Term: c.term, Proposals: p})
	require.NoError(c.t, c.state.View().CheckInvariants())
	return verdicts, nil
}

func (c *smallCluster) ProposeTick(ctx context.Context, p ...fsm.Proposal) ([]fsm.Verdict, error) {
	return c.Propose(ctx, p...)
}

func (c *smallCluster) View() *fsm.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.View()
}

// cable is one node's way to the leader.
type cable struct {
	c    *smallCluster
	mu   sync.Mutex
	cut  bool // nothing goes through, in either direction, and nobody is told
	deaf bool // what the leader sends is lost
	loss int  // of a hundred messages about events, and of reports and their acknowledgements
	rng  *rand.Rand
}

// ends are the two ends of a session over a cable that may be cut.
type nodeEnd struct {
	*pipe
	k *cable
}

func (e *nodeEnd) Send(m session.FromNode) error {
	if e.k.lost(false) {
		select {
		case <-e.broken:
			return errBroken
		default:
			return nil // into the void
		}
	}
	if (m.Barrier != nil || m.Report != nil) && e.k.drops() {
		return nil
	}
	return e.pipe.Send(m)
}

type leaderEnd struct {
	*pipe
	k *cable
}

func (e *leaderEnd) Send(m session.FromLeader) error {
	about := m.Barrier != nil || m.ReportAck != nil || (m.Orders != nil && len(m.Orders.Barriers) > 0)
	if e.k.lost(true) || (about && e.k.drops()) {
		return nil
	}
	select {
	case <-e.broken:
		return errBroken
	case e.down <- m:
		return nil
	}
}

func (e *leaderEnd) Recv() (session.FromNode, error) {
	select {
	case m := <-e.up:
		return m, nil
	case <-e.broken:
		return session.FromNode{}, errBroken
	}
}

func (k *cable) lost(fromLeader bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cut || (fromLeader && k.deaf)
}

func (k *cable) set(cut, deaf bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut, k.deaf = cut, deaf
}

// lose has so many of a hundred messages lost that are repeated.
func (k *cable) lose(percent int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loss = percent
}

func (k *cable) drops() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rng.IntN(100) < k.loss
}

func (k *cable) Register(ctx context.Context, r session.Registration) (session.Registered, error) {
	if k.lost(true) {
		<-ctx.Done()
		return session.Registered{}, ctx.Err()
	}
	v := k.c.do(&fsm.RegisterNode{
		Node: r.Node, Address: r.Address, LeaseMS: r.LeaseMS, ClockClass: r.ClockClass, Protocol: r.Protocol,
		BootID: r.BootID, LockDevice: r.LockDevice, LockInode: r.LockInode,
	})
	if v.Reason != fsm.Accepted {
		return session.Registered{}, codeError(v.Reason.String())
	}
	return session.Registered{
		Cluster: "c1", Incarnation: v.Facts.Incarnation, LeaseMS: r.LeaseMS, Index: v.Index, Term: k.c.term,
		TickMS: 100, HeartbeatMS: 250,
	}, nil
}

func (k *cable) Open(ctx context.Context, h session.Hello) (session.NodeStream, error) {
	if k.lost(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p := newPipe()
	k.c.running.Go(func() {
		_ = k.c.leader.Serve(context.Background(), &leaderEnd{p, k}, h)
		// The Close message is read before the stream breaks.
		for len(p.down) > 0 && !isBroken(p) {
			time.Sleep(time.Millisecond)
		}
		p.Close()
	})
	return &nodeEnd{p, k}, nil
}

func isBroken(p *pipe) bool {
	select {
	case <-p.broken:
		return true
	default:
		return false
	}
}

func (k *cable) Goodbye(ctx context.Context, g fsm.Goodbye) error {
	if k.lost(true) {
		<-ctx.Done()
		return ctx.Err()
	}
	if v := k.c.do(&g); v.Reason != fsm.Accepted {
		return codeError(v.Reason.String())
	}
	return nil
}

// member is a node of the cluster, running.
type member struct {
	name   fsm.NodeName
	node   *Node
	cable  *cable
	ledger *memLedger
	cancel context.CancelFunc
	result chan error
}

func (c *smallCluster) join(name fsm.NodeName, w *world, tune func(*Config)) *member {
	c.t.Helper()
	m := &member{
		name: name, cable: &cable{c: c, rng: rand.New(rand.NewPCG(1, uint64(len(name))))}, ledger: &memLedger{},
		result: make(chan error, 1),
	}
	cfg := Config{
		Node: name, Dialer: m.cable,
		Sources: func(string) (Source, error) { return fakeSource{w}, nil },
		Sinks:   func(string) (Sink, error) { return fakeSink{w}, nil },
		Clock:   c.clk, Timers: clock.SystemTimers{}, Timing: fence.DefaultTiming(), Ledger: m.ledger,
		Wall: func() int64 { return 1_000_000 }, WaitForName: time.Minute,
		Reason: func(err error) string {
			if code, ok := errors.AsType[codeError](err); ok {
				return string(code)
			}
			return ""
		},
		Abort: func(reason string) { c.t.Errorf("abort: %s", reason) },
	}
	if tune != nil {
		tune(&cfg)
	}
	var err error
	m.node, err = New(cfg)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	m.cancel = cancel
	go func() { m.result <- m.node.Run(ctx) }()
	return m
}

func (c *smallCluster) finish() {
	c.stop()
	c.running.Wait()
}

func (c *smallCluster) feed(spans int) {
	c.t.Helper()
	spec := fsm.TableSpec{Schema: "public", Name: "t"}
	for i := 1; i < spans; i++ {
		spec.SplitKeys = append(spec.SplitKeys, string([]byte{byte(i)}))
	}
	v := c.do(&fsm.CreateChangefeed{
		Name: "feed", Source: "fake:src", Sink: "fake:sink", SinkFenced: true, Tables: []fsm.TableSpec{spec},
	})
	require.Equal(c.t, fsm.Accepted, v.Reason)
}

// owners says where each dispatcher runs; empty for one that does not.
func (c *smallCluster) owners() map[fsm.DispatcherID]fsm.NodeName {
	view := c.View()
	out := make(map[fsm.DispatcherID]fsm.NodeName)
	for row := range view.Dispatchers() {
		out[row.ID] = ""
		if node, ok := view.NodeOf(row.Incarnation); ok && row.Phase == fsm.Running {
			out[row.ID] = node.Name
		}
	}
	return out
}

func (c *smallCluster) allRun() bool {
	for _, owner := range c.owners() {
		if owner == "" {
			return false
		}
	}
	return true
}

// stream is a long log: the source never ends while the test runs.
func stream(n int) []Transaction {
	out := make([]Transaction, n)
	for i := range out {
		out[i] = tx(uint64(10+i), 1)
	}
	return out
}

func TestAClusterPlacesMovesAndFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(stream(50)...)
		c := newSmallCluster(t)
		c.feed(4)
		members := map[fsm.NodeName]*member{}
		for _, n := range []fsm.NodeName{"n1", "n2", "n3"} {
			members[n] = c.join(n, w, nil)
		}
		pass(3 * time.Second)
		require.True(t, c.allRun(), "%v", c.owners())

		first := slices.Sorted(maps.Keys(c.owners()))[0]
		from := c.owners()[first]
		to := fsm.NodeName("n1")
		if from == to {
			to = "n2"
		}
		require.Equal(t, fsm.Accepted, c.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: first, From: from, To: to}).Reason)
		pass(time.Second)
		require.Equal(t, to, c.owners()[first])

		members[to].cable.set(true, false) // cut off, and nobody is told
		pass(6 * time.Second)
		require.True(t, c.allRun())
		require.NotContains(t, slices.Collect(maps.Values(c.owners())), to)
		members[to].cable.set(false, false)
		pass(6 * time.Second)
		require.Greater(t, members[to].node.Status().Incarnation, fsm.Incarnation(0))
		require.Equal(t, fence.Open, members[to].node.Status().Lease.State, "back as a new incarnation")

		// A planned stop hands the work over without waiting for a lease.
		var leaver *member
		for _, owner := range c.owners() {
			leaver = members[owner]
		}
		leaver.cancel()
		require.NoError(t, <-leaver.result)
		pass(time.Second)
		require.True(t, c.allRun())
		require.NotContains(t, slices.Collect(maps.Values(c.owners())), leaver.name)

		for _, m := range members {
			m.cancel()
			if m != leaver {
				require.NoError(t, <-m.result)
			}
		}
		c.finish()
		noOverlap(t, members)
	})
}

// noOverlap checks the histories: per range, no call under an older epoch was allowed after one under a newer epoch began,
// and the sink never had to refuse a stale token. All nodes of these tests read one clock, so readings can be compared; a
// handover by a stop may take no fake time at all.
func noOverlap(t *testing.T, members map[fsm.NodeName]*member) int {
	t.Helper()
	for _, m := range members {
		require.Zero(t, m.node.Status().Counters.Fenced, "the leases alone keep nodes apart while clocks are sound")
	}
	handovers, overlaps := overlap(allowedCalls(members))
	require.Empty(t, overlaps)
	return handovers
}

// place is a range of a table.
type place struct {
	table TableName
	span  fsm.Span
}

func allowedCalls(members map[fsm.NodeName]*member) map[place][]SinkCall {
	bySpan := make(map[place][]SinkCall)
	for _, m := range members {
		for _, call := range m.ledger.calls() {
			if call.Allowed != (clock.Reading{}) {
				at := place{call.Table, call.Span}
				bySpan[at] = append(bySpan[at], call)
			}
		}
	}
	return bySpan
}

// overlap returns how often ranges changed hands, and the calls that were allowed after a newer owner had begun.
func overlap(bySpan map[place][]SinkCall) (handovers int, overlaps []SinkCall) {
	for _, calls := range bySpan {
		slices.SortFunc(calls, func(x, y SinkCall) int {
			return cmp.Or(x.Token.Compare(y.Token), cmp.Compare(x.Begun.Boot, y.Begun.Boot))
		})
		last := clock.Reading{} // the newest Allowed of older epochs
		var lastCall SinkCall
		for i := 1; i < len(calls); i++ {
			if calls[i-1].Allowed.Boot > last.Boot {
				last, lastCall = calls[i-1].Allowed, calls[i-1]
			}
			if calls[i-1].Token.Epoch == calls[i].Token.Epoch {
				continue
			}
			handovers++
			if last.Boot > calls[i].Begun.Boot {
				overlaps = append(overlaps, lastCall)
			}
		}
	}
	return handovers, overlaps
}

func TestNoTwoNodesWriteOneRangeUnderRandomFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("WEIR_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d; rerun: WEIR_SEED=%d go test ./dispatcher -run TestNoTwoNodesWrite", seed, seed)
	handovers := 0
	for round := range 5 {
		synctest.Test(t, func(t *testing.T) {
			handovers += faultRound(t, rand.New(rand.NewPCG(seed, uint64(round))))
		})
	}
	t.Logf("%d handovers of a range", handovers)
	require.Greater(t, handovers, 20)
}

func faultRound(t *testing.T, rng *rand.Rand) int {
	t.Helper()
	w := newWorld(stream(20_000)...)
	w.hook(stageWrite, func(ctx context.Context, _ func() error) error {
		time.Sleep(5 * time.Millisecond)
		return nil
	})
	c := newSmallCluster(t)
	c.feed(4)
	members := map[fsm.NodeName]*member{}
	names := []fsm.NodeName{"n1", "n2", "n3"}
	for _, n := range names {
		members[n] = c.join(n, w, func(cfg *Config) { cfg.Limits.BatchRows = 10 })
	}
	pass(2 * time.Second)
	for range 25 {
		m := members[names[rng.IntN(len(names))]]
		switch rng.IntN(5) {
		case 0:
			m.cable.set(true, false)
		case 1:
			m.cable.set(false, true)
		case 2:
			m.cable.set(false, false)
		case 3:
			ids := slices.Sorted(maps.Keys(c.owners()))
			id := ids[rng.IntN(len(ids))]
			c.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: id, FromAny: true, To: m.name})
		case 4:
			c.do(&fsm.FenceNode{Node: m.name, Why: "test"})
		}
		pass(time.Duration(rng.IntN(1500)) * time.Millisecond)
	}
	for _, m := range members {
		m.cable.set(false, false)
	}
	for range 60 { // liveness once faults stop
		if c.allRun() {
			break
		}
		pass(time.Second)
	}
	require.True(t, c.allRun(), "%v", c.owners())
	for _, m := range members {
		m.cancel()
		require.NoError(t, <-m.result, fmt.Sprint(m.name))
	}
	c.finish()
	open, _, readers := w.openWriters()
	require.Equal(t, [2]int{0, 0}, [2]int{open, readers})
	return noOverlap(t, members)
}

// trueTime notes the effects of a node whose clock lies by a clock that does not; no fake time passes between the test of
// the lease and the return of these calls.
type trueTime struct {
	Ledger

	clk clock.Clock
}

func (l trueTime) Outcome(c SinkCall) {
	if c.Allowed != (clock.Reading{}) {
		c.Allowed = l.clk.Now()
	}
	l.Ledger.Outcome(c)
}

// The clock of one node runs at a fifth of its rate, beyond what any lease allows for: it goes on writing when its work
// has been given away, which the histories show, and the sink lets none of it in.
func TestAClockThatLiesIsCaughtAtTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(stream(100_000)...)
		w.hook(stageWrite, func(context.Context, func() error) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		})
		w.hook(stageClaim, func(context.Context, func() error) error {
			time.Sleep(7 * time.Millisecond) // longer than a write: the liar writes meanwhile
			return nil
		})
		c := newSmallCluster(t)
		c.feed(2)
		liar := clock.NewSkewed(c.clk)
		members := map[fsm.NodeName]*member{}
		small := func(cfg *Config) { cfg.Limits.BatchRows = 10 }
		members["n1"] = c.join("n1", w, func(cfg *Config) {
			small(cfg)
			cfg.Clock = liar
			cfg.Ledger = trueTime{cfg.Ledger, c.clk}
		})
		pass(2 * time.Second)
		require.Equal(t, []fsm.NodeName{"n1", "n1", "n1"}, slices.Collect(maps.Values(c.owners())))
		members["n2"] = c.join("n2", w, small)
		pass(time.Second)
		liar.SetRate(-800_000)
		members["n1"].cable.set(true, false)
		pass(4 * time.Second)
		require.Equal(t, []fsm.NodeName{"n2", "n2", "n2"}, slices.Collect(maps.Values(c.owners())))
		require.EqualValues(t, 2, members["n1"].node.Status().Counters.Fenced, "once for each that writes rows: it stops at the first refusal")

		w.mu.Lock()
		newest, resume := map[fsm.Span]Token{}, map[fsm.Span]uint64{}
		for _, e := range w.effects {
			require.LessOrEqual(t, newest[e.span].Compare(e.token), 0, "tokens at the sink never decrease")
			newest[e.span] = e.token
			if e.kind == CallWrite && e.span != triggerPlace {
				require.Equal(t, resume[e.span]+uint64(e.rows), e.resume.TS-9, "each transaction is written once")
				resume[e.span] = e.resume.TS - 9
			}
		}
		w.mu.Unlock()
		members["n1"].cable.set(false, false)
		for _, m := range members {
			m.cancel()
			require.NoError(t, <-m.result)
		}
		c.finish()
		_, overlaps := overlap(allowedCalls(members))
		require.NotEmpty(t, overlaps, "the check of the histories sees what the sink had to refuse")
	})
}
