package bubble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

const (
	raceFeed = "races"
	// perCluster is how many races one cluster sees: a server that was lost replays the whole log.
	perCluster = 50
	// planPeriod is that of the scheduler. A race begins just after one of its rounds, or the scheduler would place the
	// dispatcher itself.
	planPeriod = 200 * time.Millisecond
)

// racing counts what the races did.
type racing struct {
	seed                    uint64
	races, outside          int
	cut, crashed, lost      int // leaders; lost: between the two applies
	underWay, inLog         int // of those lost: the second request had left, or stood in the leader's log uncommitted
	adds, moves             int
	starts, replays, checks int
}

func (n *racing) String() string {
	return fmt.Sprintf("B01: %d races (%d more were won by the scheduler); leader lost between the two applies in %d (%d cut off, %d crashed in all; "+
		"the second request was under way in %d and in the lost leader's log in %d); "+
		"admitted %d adds and %d moves; starts obeyed %d; verdicts replayed %d; states compared %d times; seed %d",
		n.races, n.outside, n.lost, n.cut, n.crashed, n.underWay, n.inLog, n.adds, n.moves, n.starts, n.replays, n.checks, n.seed)
}

// B01: an Add and a Move from nowhere for one absent dispatcher go through two servers at once; in a part of the races
// the leader is lost when the first of the two has been applied and the second has not. Exactly one is admitted, both
// clients learn so for good, the refusal names the winner, and exactly one node is ever started.
func TestField_B01_TwoRacingAdmissions(t *testing.T) {
	counts := &racing{seed: seed(t)}
	defer func() {
		t.Log(counts)
		t.Logf("again: go test ./cmd/weir/internal/bubble -run %s -v -bubble.seed=%d -bubble.races=%d -bubble.lost=%d",
			t.Name(), counts.seed, *racesFlag, *lostFlag)
	}()
	// No node may expire within a race: its end would make a second admission rightful.
	long := func(c *cluster) { c.timing.Lease = 10 * time.Second }
	for round := uint64(0); counts.races < *racesFlag && !t.Failed(); round++ {
		inBubble(t, counts.seed+round, 2, long, func(c *cluster) { c.races(counts, min(perCluster, *racesFlag-counts.races)) })
	}
	require.Equal(t, counts.races, counts.adds+counts.moves)
	require.Equal(t, counts.races, counts.starts)
	require.NotZero(t, counts.adds)
	require.NotZero(t, counts.moves)
	require.GreaterOrEqual(t, counts.lost, *lostFlag, "races in which the leader was lost between the two applies")
}

// races runs some races in one cluster.
func (c *cluster) races(counts *racing, n int) {
	c.t.Helper()
	c.createFeed(raceFeed)
	fair := map[string]fsm.DispatcherID{}
	for i := 0; n > 0; i++ {
		require.Less(c.t, i, 4*perCluster, "the scheduler wins nearly every race, seed %d", c.seed)
		table := fmt.Sprintf("t%d", i)
		if !c.race(counts, i, table) {
			counts.outside++
			continue
		}
		fair[table] = c.dispatcherOf(c.attached(), raceFeed, table)
		counts.races++
		n--
	}
	time.Sleep(2 * c.timing.Lease) // whatever was late has come
	leader := c.attached()
	for table, d := range fair {
		_, moved := c.contested(operatorsOf(leader.view(), d))
		require.Len(c.t, c.world.startsOf(table), 1+moved, "starts of %s that were obeyed, seed %d\n%+v", table, c.seed, operatorsOf(leader.view(), d))
		counts.starts++
	}
	c.settled()
	counts.checks++
}

func (c *cluster) createFeed(name string) {
	c.t.Helper()
	_, err := c.admin.CreateChangefeed(c.t.Context(), &weirv1.CreateChangefeedRequest{
		Name: name, Source: "memory:source", Sink: "memory:sink", SinkFenced: true,
		Tables: []*weirv1.TableSpec{{Name: "first"}},
	})
	require.NoError(c.t, err, c.describe())
}

// afterPlan waits until the scheduler has just looked.
func (c *cluster) afterPlan(leader *host) {
	since := leader.clock.Now().Boot - leader.node().Leadership().Since.Boot
	time.Sleep(planPeriod - since%planPeriod + 5*time.Millisecond)
}

// newDispatcher adds a table and returns its dispatcher.
func (c *cluster) newDispatcher(leader *host, feed, table string) fsm.DispatcherID {
	c.t.Helper()
	_, err := c.admin.AddTables(c.t.Context(), &weirv1.AddTablesRequest{
		Changefeed: feed, Tables: []*weirv1.TableSpec{{Name: table}},
	})
	require.NoError(c.t, err, c.describe())
	return c.dispatcherOf(leader, feed, table)
}

// dispatcherOf returns the first dispatcher of a table.
func (c *cluster) dispatcherOf(leader *host, feed, table string) fsm.DispatcherID {
	c.t.Helper()
	view := leader.view()
	f, _ := view.Changefeed(feed)
	row, ok := view.TableNamed(f, "", table)
	require.True(c.t, ok)
	for d := range view.DispatchersOfTable(row.ID) {
		return d.ID
	}
	c.t.Fatalf("table %s has no dispatcher", table)
	return 0
}

// race runs one race; false: the scheduler placed the dispatcher first.
func (c *cluster) race(counts *racing, i int, table string) bool {
	c.t.Helper()
	leader := c.attached()
	c.afterPlan(leader)
	d := c.newDispatcher(leader, raceFeed, table)
	now := leader.view().Meta().TimeMS
	lose := i%5 == 1 || i%5 == 3
	run := c.draw(lose)
	requests := run.requests(c, i, d, now)

	watching, watched := context.WithCancel(c.t.Context())
	var left atomic.Int32 // requests under way
	lost := loss{}
	var watch sync.WaitGroup
	if lose {
		watch.Go(func() {
			lost = c.loseLeader(watching, leader, d, run.crash)
			lost.underWay = int(left.Load())
		})
	}
	var wait sync.WaitGroup
	r := &race{}
	for k := range requests {
		wait.Go(func() {
			time.Sleep(run.gaps[k])
			left.Add(1)
			r.answers[k] = c.ask(requests[k], fmt.Sprintf("c%d", k+1), c.servers[run.through[k]].id)
		})
	}
	wait.Wait()
	watched()
	watch.Wait()
	c.net.heal()
	for _, h := range c.servers {
		c.restart(h)
	}
	leader = c.attached()
	c.eventually("the dispatcher runs", func() bool {
		if l := c.leading(); l != nil {
			leader = l
		}
		row, ok := leader.view().Dispatcher(d)
		return ok && row.Phase == fsm.Running && row.Slot == 0
	})
	for k := range requests {
		r.again[k] = c.ask(requests[k], "c3", c.servers[c.rand.IntN(len(c.servers))].id)
	}
	operators, moved := c.contested(operatorsOf(leader.view(), d))
	r.operators, r.starts = operators, c.world.startsOf(table)
	r.starts = r.starts[:max(min(1, len(r.starts)), len(r.starts)-moved)]
	if c.outsider(r) {
		return false
	}
	require.NoError(c.t, r.judge(), "race %d over dispatcher %d, seed %d\n%s", i, d, c.seed, c.describe())
	counts.note(r, lost)
	return true
}

// contested splits off what the scheduler did with the dispatcher when it had been placed: it may move it to a node that
// has less.
func (c *cluster) contested(operators []fsm.Operator) (race []fsm.Operator, moved int) {
	slices.SortFunc(operators, func(a, b fsm.Operator) int { return cmp.Compare(a.Since, b.Since) })
	n := len(operators)
	for n > 1 && operators[n-1].By == "scheduler" && operators[n-1].Kind == fsm.OpMove {
		n--
	}
	return operators[:n], len(operators) - n
}

// outsider: the scheduler came first, as it may.
func (c *cluster) outsider(r *race) bool {
	for _, op := range r.operators {
		if op.By == "scheduler" {
			for _, a := range r.answers {
				require.Nil(c.t, a.given, "the scheduler's operator and %v, seed %d", a, c.seed)
			}
			return true
		}
	}
	return false
}

func (n *racing) note(r *race, l loss) {
	first, second := r.answers[0].index(), r.answers[1].index()
	if l.how != 0 && min(first, second) <= l.applied && l.applied < max(first, second) {
		n.lost++
		if l.underWay == len(r.answers) {
			n.underWay++
		}
		if l.inLog {
			n.inLog++
		}
	}
	switch l.how {
	case cutOff:
		n.cut++
	case crashed:
		n.crashed++
	}
	if r.operators[0].Kind == fsm.OpAdd {
		n.adds++
	} else {
		n.moves++
	}
	n.replays += len(r.again)
}

func operatorsOf(view *fsm.View, d fsm.DispatcherID) []fsm.Operator {
	var out []fsm.Operator
	for op := range view.Operators() {
		if op.Dispatcher == d {
			out = append(out, op)
		}
	}
	for op := range view.FinishedOperators() {
		if op.Dispatcher == d {
			out = append(out, op)
		}
	}
	return out
}

// drawn is what chance decides about a race.
type drawn struct {
	through [2]int // two different servers: at most one of them leads
	gaps    [2]time.Duration
	crash   bool
}

func (c *cluster) draw(lose bool) drawn {
	d := drawn{gaps: gaps(c.rand, lose), crash: c.rand.IntN(2) == 0}
	d.through[0] = c.rand.IntN(len(c.servers))
	d.through[1] = (d.through[0] + 1 + c.rand.IntN(len(c.servers)-1)) % len(c.servers)
	return d
}

// gaps is when the two requests leave: often at one instant, else some milliseconds apart. With a leader to lose they are
// further apart, so that the second mostly stands in an entry of its own.
func gaps(r *rand.Rand, lose bool) [2]time.Duration {
	var d time.Duration
	switch kind := r.IntN(4); {
	case lose && kind > 0:
		d = time.Duration(500+r.IntN(7500)) * time.Microsecond
	case kind > 1:
		d = time.Duration(r.IntN(15000)) * time.Microsecond
	case kind == 1:
		d = time.Duration(r.IntN(1000)) * time.Microsecond
	}
	if r.IntN(2) == 0 {
		return [2]time.Duration{0, d}
	}
	return [2]time.Duration{d, 0}
}

func (drawn) requests(c *cluster, i int, d fsm.DispatcherID, now uint64) [2]*weirv1.AdmitOperatorRequest {
	request := func(kind weirv1.OperatorKind, to string) *weirv1.AdmitOperatorRequest {
		return &weirv1.AdmitOperatorRequest{
			Header:   &weirv1.RequestHeader{RequestId: fmt.Sprintf("race-%d-%d-%v", c.seed, i, kind), RequestTimeMs: now, By: "race"},
			Operator: &weirv1.OperatorSpec{Kind: kind, Dispatcher: uint64(d), To: to},
		}
	}
	return [2]*weirv1.AdmitOperatorRequest{
		request(weirv1.OperatorKind_OPERATOR_KIND_ADD, "n1"), request(weirv1.OperatorKind_OPERATOR_KIND_MOVE, "n2"),
	}
}

// ask sends a request until it has a verdict, always under the same id.
func (c *cluster) ask(req *weirv1.AdmitOperatorRequest, at, first string) answer {
	api := c.loneClient(at, first)
	defer api.Close()
	out := answer{kind: fsm.OperatorKind(req.GetOperator().GetKind()), to: req.GetOperator().GetTo()}
	for end := time.Now().Add(waitLimit); ; {
		given, err := api.Admit(c.t.Context(), req)
		var no *client.Error
		switch {
		case err == nil:
			out.given = given
			return out
		case errors.As(err, &no) && (no.Class == client.Unknown || no.Class == client.NotProposed) && time.Now().Before(end):
		default:
			if !errors.As(err, &no) {
				no = &client.Error{Class: client.Fault, Reason: "NO_CLIENT_ERROR", Message: err.Error()}
			}
			out.no = no
			return out
		}
	}
}

// loss is how a leader was lost, and how far it had come; the zero value: it was not.
type loss struct {
	how      how
	applied  uint64 // the newest entry that it had applied
	inLog    bool   // a request of the race stood in its log behind that
	underWay int    // requests that had been sent
}

type how uint8

const (
	cutOff how = iota + 1
	crashed
)

// loseLeader loses the leader at the instant at which it has applied the first of the two requests.
func (c *cluster) loseLeader(ctx context.Context, leader *host, d fsm.DispatcherID, crash bool) loss {
	for ; ; time.Sleep(50 * time.Microsecond) {
		if ctx.Err() != nil {
			return loss{}
		}
		if row, ok := leader.view().Dispatcher(d); ok && row.Phase != fsm.Absent {
			break
		}
	}
	if l := leader.node().Leadership(); !l.Leading {
		return loss{}
	}
	l := loss{how: cutOff, applied: leader.node().AppliedIndex()}
	l.inLog = leader.holds(l.applied, d)
	if crash {
		c.crash(leader)
		l.how = crashed
		return l
	}
	c.net.cutBetween(leader.id, append(c.hosts(), "c1", "c2", "admin")...)
	return l
}

// holds says whether an operator on the dispatcher is asked for in the server's log behind the index.
func (h *host) holds(index uint64, d fsm.DispatcherID) bool {
	last, err := h.logs.LastIndex()
	for i := index + 1; err == nil && i <= last; i++ {
		var l raft.Log
		if h.logs.GetLog(i, &l) != nil || l.Type != raft.LogCommand {
			continue
		}
		entry, err := logcodec.DecodeEntry(l.Index, l.Term, l.Data)
		if err != nil {
			continue
		}
		for _, p := range entry.Proposals {
			if admit, ok := p.Command.(*fsm.AdmitOperator); ok && admit.Dispatcher == d {
				return true
			}
		}
	}
	return false
}

// checkThenRegister admits as B01 found it: whether there is an operator already, and the registration, are two steps.
type checkThenRegister struct {
	mu        sync.Mutex
	index     uint64
	operators []fsm.Operator
	starts    []start
	verdicts  map[string]answer // the handler's own memory of request ids
}

func (h *checkThenRegister) ask(req *weirv1.AdmitOperatorRequest, delay time.Duration) answer {
	spec := req.GetOperator()
	out := answer{kind: fsm.OperatorKind(spec.GetKind()), to: spec.GetTo()}
	time.Sleep(delay)
	h.mu.Lock()
	if known, ok := h.verdicts[req.GetHeader().GetRequestId()]; ok {
		h.mu.Unlock()
		return known.replayed()
	}
	if len(h.operators) > 0 {
		h.index++
		out.no = &client.Error{Class: client.Rejected, Reason: fsm.OperatorExists.String(), Facts: map[string]string{
			"operator": fmt.Sprint(uint64(h.operators[0].ID)), "index": fmt.Sprint(h.index),
		}}
		h.verdicts[req.GetHeader().GetRequestId()] = out
		h.mu.Unlock()
		return out
	}
	h.mu.Unlock()
	time.Sleep(delay) // until the registration is in the log
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index++
	op := fsm.Operator{ID: fsm.OpID(h.index), Kind: out.kind, To: fsm.NodeName(out.to)}
	h.operators = append(h.operators, op)
	h.starts = append(h.starts, start{node: out.to})
	out.given = &weirv1.Admission{OpId: h.index, Index: h.index}
	h.verdicts[req.GetHeader().GetRequestId()] = out
	return out
}

func (a answer) replayed() answer {
	if a.given != nil {
		a.given = &weirv1.Admission{OpId: a.given.GetOpId(), Index: a.given.GetIndex(), Replayed: true}
		return a
	}
	no := *a.no
	no.Facts = map[string]string{"operator": no.Facts["operator"], "index": no.Facts["index"], "replayed": "true"}
	a.no = &no
	return a
}

// The same races against an admission in two steps: the same judge must find a double admission within 200, and nothing
// to blame where the two did not overlap.
func TestField_B01_AnAdmissionInTwoStepsIsCaught(t *testing.T) {
	const races = 200
	caught, clean := 0, 0
	s := seed(t)
	first := 0
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, seed: s, rand: rand.New(rand.NewPCG(s, 0x636c)), net: newNetwork(s), servers: make([]*host, 3)}
		for i := range races {
			h := &checkThenRegister{verdicts: map[string]answer{}}
			run := c.draw(false)
			requests := run.requests(c, i, 1, 0)
			r := &race{}
			var wait sync.WaitGroup
			for k := range requests {
				delay := c.net.delay(link{})
				wait.Go(func() {
					time.Sleep(run.gaps[k])
					r.answers[k] = h.ask(requests[k], delay)
				})
			}
			wait.Wait()
			for k := range requests {
				r.again[k] = h.ask(requests[k], 0)
			}
			r.operators, r.starts = h.operators, h.starts
			if err := r.judge(); err == nil {
				clean++
				continue
			}
			require.NotNil(t, r.answers[0].given)
			require.NotNil(t, r.answers[1].given)
			if caught++; caught == 1 {
				first = i + 1
			}
		}
	})
	t.Logf("B01, admission in two steps: %d of %d races admitted both, the first was race %d; %d had nothing to blame; seed %d",
		caught, races, first, clean, s)
	require.NotZero(t, caught, "the judge finds no double admission")
	require.NotZero(t, clean, "the judge blames races that did not overlap")
}
