package bubble

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

const (
	feeds       = 2
	tablesOf    = 2
	spansOf     = 3
	nodesOf     = 4
	callLimit   = 700 * time.Millisecond
	healedBound = 30 * time.Second
	drainBound  = time.Minute
)

// storm is a random schedule of faults and requests over one cluster.
type storm struct {
	*cluster
	did    map[string]int // what was done, by word
	tables int            // names that were made up
	// decided are the operators whose verdict a client has had, asked those that were asked for.
	decided []verdict
	asked   int
}

// verdict is a request and the answer that its client had.
type verdict struct {
	req   *weirv1.AdmitOperatorRequest
	first answer
}

// A random schedule: servers and nodes are killed, cut off in one or both directions, slowed down and started again,
// sessions break, leaders change, while dispatchers are moved, added, removed, split, merged and cancelled, tables come and go,
// changefeeds pause. On every server after every entry the invariants hold and equal prefixes make equal states; no range
// has two owners at one instant, every second time without token checks. When the faults stop, everything runs again
// within a bound, and every verdict that a client had is still the answer to its request. In half of the schedules there
// are schema changes and sync points: each takes effect once, between the rows before it and after it, and in the end
// everything is downstream and nobody waits.
func TestRandomSchedules(t *testing.T) {
	s := seed(t)
	total, did, looks, repeated, slowest := ownership{smallest: time.Hour}, map[string]int{}, 0, 0, time.Duration(0)
	written, known, longest := 0, 0, time.Duration(0)
	defer func() {
		t.Logf("random: %d schedules of %v; %d faults and requests: %s", *seedsFlag, *timeFlag, sum(did), words(did))
		t.Logf("random: %d states checked, %d verdicts asked for again, %d calls accepted at the sink, %d refused, %d handovers, smallest gap %v, all runs again after at most %v",
			looks, repeated, total.accepted, total.refused, total.handovers, total.smallest, slowest)
		t.Logf("random: %d events took effect, %d were asked for again after that, everything was downstream after at most %v more",
			written, known, longest)
		t.Logf("again: go test ./cmd/weir/internal/bubble -run %s -v -bubble.seed=%d -bubble.seeds=%d -bubble.time=%v", t.Name(), s, *seedsFlag, *timeFlag)
	}()
	for i := range uint64(*seedsFlag) {
		checks, events := (s+i)%2 == 0, (s+i)/2%2 == 0
		inBubble(t, s+i, nodesOf, func(c *cluster) {
			c.world.every, c.world.checks, c.world.events, c.audit = 25*time.Millisecond, checks, events, newAudit()
		}, func(c *cluster) {
			m := &storm{cluster: c, did: did}
			took := m.rage()
			last, drained := m.drain()
			m.repeat()
			repeated += len(m.decided)
			o := judgeLedger(c.world.effects())
			wrong, looked := c.audit.findings()
			require.Empty(c.t, wrong, "states, seed %d", c.seed)
			require.Empty(c.t, o.wrong, "ledger, token checks %t, seed %d", checks, c.seed)
			h := judgeEvents(c.world.effects(), addedByUsers)
			require.Empty(c.t, h.wrong, "events, token checks %t, seed %d", checks, c.seed)
			for i := range feeds {
				if events {
					require.Empty(c.t, h.missing(feedName(i), last), "seed %d", c.seed)
					written += len(h.written[feedName(i)])
				}
			}
			known, longest = known+h.known, max(longest, drained)
			looks, slowest = looks+looked, max(slowest, took)
			total.accepted, total.refused = total.accepted+o.accepted, total.refused+o.refused
			total.handovers, total.smallest = total.handovers+o.handovers, min(total.smallest, o.smallest)
		})
		if t.Failed() {
			t.Fatalf("the schedule of -bubble.seed=%d -bubble.seeds=1 (token checks %t, events %t)", s+i, checks, events)
		}
	}
	require.NotZero(t, repeated)
	if *seedsFlag >= 4 {
		require.NotZero(t, written)
		require.NotZero(t, known)
	}
	require.GreaterOrEqual(t, total.handovers, 3*(*seedsFlag), "handovers")
	require.GreaterOrEqual(t, sum(did), int(*timeFlag/time.Second)*(*seedsFlag), "faults and requests")
}

func sum(did map[string]int) (n int) {
	for _, k := range did {
		n += k
	}
	return n
}

func words(did map[string]int) string {
	var out []string
	for _, w := range slices.Sorted(maps.Keys(did)) {
		out = append(out, fmt.Sprintf("%s %d", w, did[w]))
	}
	return strings.Join(out, ", ")
}

// rage lets the storm go on for its time, heals everything, and returns how long it took until everything ran again.
func (m *storm) rage() time.Duration {
	m.t.Helper()
	m.skew()
	for i := range feeds {
		m.splitFeed(feedName(i), tablesOf)
	}
	m.attached()
	kinds := m.kinds()
	for end := time.Now().Add(*timeFlag); time.Now().Before(end); {
		time.Sleep(time.Duration(20+m.rand.IntN(500)) * time.Millisecond)
		k := kinds[m.rand.IntN(len(kinds))]
		if done := k.do(); done {
			m.did[k.word]++
		}
	}
	return m.calm()
}

// skew lets every clock err within its class.
func (m *storm) skew() {
	rate := func() clock.PPM {
		return clock.PPM(m.rand.Int64N(2*int64(clock.BootRaw.Drift())+1)) - clock.BootRaw.Drift()
	}
	for _, h := range m.servers {
		h.clock.SetRate(rate())
	}
	for _, w := range m.nodes {
		w.clock.SetRate(rate())
	}
}

// calm heals everything and waits until everything runs.
func (m *storm) calm() time.Duration {
	m.t.Helper()
	m.net.heal()
	m.supervise = func() {
		for _, h := range m.servers {
			if h.gaveUp() {
				m.restarted(h)
			}
		}
	}
	began := time.Now()
	for _, h := range m.servers {
		m.restarted(h)
	}
	for i := range nodesOf {
		m.revive(fmt.Sprintf("n%d", i+1))
	}
	m.eventually("a leader leads", func() bool { return m.leading() != nil })
	for i := range feeds {
		_, err := m.admin.ResumeChangefeed(m.t.Context(), feedName(i))
		var no *client.Error
		if err != nil && (!errors.As(err, &no) || no.Class != client.Rejected) {
			require.NoError(m.t, err, m.describe())
		}
	}
	m.within(healedBound, "every dispatcher runs and no operator is left", func() bool {
		h := m.leading()
		if h == nil || h.view().OperatorCount() > 0 || h.view().DispatcherCount() == 0 {
			return false
		}
		running := m.held()
		for row := range h.view().Dispatchers() {
			if row.Phase != fsm.Running || !running[pair{row.Incarnation, row.ID, row.Epoch}] {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	m.attached()
	m.settled()
	return took
}

// pair is a placement as the node sees it.
type pair struct {
	incarnation fsm.Incarnation
	dispatcher  fsm.DispatcherID
	epoch       fsm.Epoch
}

// held is what runs at nodes that may write.
func (m *storm) held() map[pair]bool {
	running := map[pair]bool{}
	for _, w := range m.alive() {
		s := w.node.Status()
		for _, d := range s.Dispatchers {
			if d.Phase == dispatcher.PhaseRunning && s.Lease.State == fence.Open {
				running[pair{s.Incarnation, d.Dispatcher, d.Epoch}] = true
			}
		}
	}
	return running
}

func feedName(i int) string { return fmt.Sprintf("feed%d", i) }

// addedByUsers says whether users add the table, now and then or again and again.
func addedByUsers(t dispatcher.TableName) bool { return !strings.Contains(t.Name, ".born") }

// drain lets the log end, and waits until everything is downstream and no event is open. It returns the log's last ts and
// how long that took.
func (m *storm) drain() (last uint64, took time.Duration) {
	m.t.Helper()
	last, began := m.world.stop(), time.Now()
	m.within(drainBound, "everything is downstream", func() bool {
		h := m.leading()
		if h == nil {
			return false
		}
		view, done := h.view(), 0
		for feed := range view.Changefeeds() {
			open := 0
			for b := range view.Barriers(feed.ID) {
				open++
				m.decide(&feed, &b)
			}
			if open == 0 && feed.Watermark.TS == last {
				done++
			}
		}
		return done == feeds
	})
	took = time.Since(began)
	m.attached()
	m.settled()
	return last, took
}

// decide does what a person does about an event of which nobody can know whether it was written: the sink has records.
func (m *storm) decide(feed *fsm.Changefeed, b *fsm.Barrier) {
	if b.Status != fsm.BarrierUndecided {
		return
	}
	at := &weirv1.Position{Ts: b.Key.At.TS}
	if b.Key.At.Stage == fsm.StageDDL {
		at.Stage = weirv1.Stage_STAGE_DDL
	}
	m.ask("event decided", func(x context.Context) error {
		_, err := m.admin.DecideBarrier(x, &weirv1.DecideBarrierRequest{
			Changefeed: feed.Name, Run: b.Key.Run, At: at,
			Permission: b.Permission, Decision: weirv1.BarrierDecision_BARRIER_DECISION_WRITE_AGAIN,
		})
		return err
	})()
}

func (m *storm) splitFeed(name string, tables int) {
	m.t.Helper()
	req := &weirv1.CreateChangefeedRequest{Name: name, Source: "memory:" + name, Sink: "memory:" + name, SinkFenced: true}
	if m.world.events {
		req.SyncPointEvery = syncEvery
	}
	for i := range tables {
		req.Tables = append(req.Tables, splitTable(fmt.Sprintf("%s.%d", name, i)))
	}
	_, err := m.admin.CreateChangefeed(m.t.Context(), req)
	require.NoError(m.t, err)
}

func splitTable(name string) *weirv1.TableSpec {
	t := &weirv1.TableSpec{Schema: tableSchema, Name: name}
	for i := range spansOf - 1 {
		t.SplitKeys = append(t.SplitKeys, []byte{byte(i + 1)})
	}
	return t
}

// kind is something that a storm does; it says whether there was anything to do it to.
type kind struct {
	word string
	do   func() bool
}

func (m *storm) kinds() []kind {
	always := func(f func()) func() bool { return func() bool { f(); return true } }
	return []kind{
		{"server killed", m.killServer},
		{"server started", m.startServer},
		{"server started", m.startServer},
		{"leader handed over", m.handOver},
		{"server cut off", always(func() { m.isolate(m.anyServer()) })},
		{"leader cut off", func() bool {
			h := m.leading()
			if h != nil {
				m.isolate(h.id)
			}
			return h != nil
		}},
		{"node cut off", always(func() { m.net.cutBetween(m.anyNode(), m.serverIDs()...) })},
		{"node cut from a server", always(func() { m.net.cutBetween(m.anyNode(), m.anyServer()) })},
		{"link cut one way", always(func() { m.net.cutOneWay(m.anyHost(), m.anyServer()) })},
		{"link cut one way", always(func() { m.net.cutOneWay(m.anyServer(), m.anyHost()) })},
		{"link slowed down", always(func() {
			m.net.slowDown(m.anyHost(), m.anyHost(), time.Duration(m.rand.IntN(1500))*time.Millisecond)
		})},
		{"links healed", always(m.net.heal)},
		{"links healed", always(m.net.heal)},
		{"links healed", always(m.net.heal)},
		{"links healed", always(m.net.heal)},
		{"links healed", always(m.net.heal)},
		{"connections reset", always(func() { m.net.reset(m.anyHost()) })},
		{"node killed", m.killNode},
		{"node stopped", m.stopNode},
		{"node started", m.startNode},
		{"node started", m.startNode},
		{"node fenced", m.ask("node fenced", func(x context.Context) error {
			_, err := m.admin.FenceNode(x, fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf)), 0, "storm")
			return err
		})},
		{"move", m.ask("move", m.move)},
		{"move", m.ask("move", m.move)},
		{"add", m.ask("add", func(x context.Context) error { return m.admit(x, weirv1.OperatorKind_OPERATOR_KIND_ADD) })},
		{"remove", m.ask("remove", func(x context.Context) error { return m.admit(x, weirv1.OperatorKind_OPERATOR_KIND_REMOVE) })},
		{"split", m.ask("split", m.split)},
		{"split", m.ask("split", m.split)},
		{"merge", m.ask("merge", m.merge)},
		{"cancel", m.ask("cancel", m.cancelAny)},
		{"table added", m.ask("table added", m.addTable)},
		{"table dropped and added", m.ask("table dropped and added", m.dropAndAdd)},
		{"pause", m.ask("pause", func(x context.Context) error {
			_, err := m.admin.PauseChangefeed(x, m.anyFeed())
			return err
		})},
		{"resume", m.ask("resume", func(x context.Context) error {
			_, err := m.admin.ResumeChangefeed(x, m.anyFeed())
			return err
		})},
	}
}

// ask makes a request within a limit and counts how it ended. Any end is fine but a fault.
func (m *storm) ask(word string, f func(context.Context) error) func() bool {
	return func() bool {
		x, cancel := context.WithTimeout(m.t.Context(), callLimit)
		defer cancel()
		err := f(x)
		var no *client.Error
		switch {
		case err == nil:
			return true
		case errors.Is(err, errNothing):
			return false
		case !errors.As(err, &no) || no.Class == client.Fault || no.Class == client.Invalid:
			m.t.Fatalf("%s ended with %v, seed %d", word, err, m.seed)
		}
		m.did["request ended "+no.Class.String()]++
		return false
	}
}

var errNothing = errors.New("there is nothing to do that to")

func (m *storm) anyServer() string { return m.servers[m.rand.IntN(len(m.servers))].id }

func (m *storm) anyFeed() string { return feedName(m.rand.IntN(feeds)) }

// anyNode is the host of a node's newest life.
func (m *storm) anyNode() string { return m.named(fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf))).host }

func (m *storm) anyHost() string {
	if m.rand.IntN(2) == 0 {
		return m.anyServer()
	}
	return m.anyNode()
}

func (m *storm) isolate(id string) {
	m.net.cutBetween(id, slices.DeleteFunc(m.hosts(), func(h string) bool { return h == id })...)
}

// killServer leaves at least one server up.
func (m *storm) killServer() bool {
	up := m.running()
	if len(up) < 2 {
		return false
	}
	m.crash(up[m.rand.IntN(len(up))])
	return true
}

func (m *storm) startServer() bool {
	for _, h := range m.servers {
		if h.plane == nil || h.gaveUp() {
			m.restarted(h)
			return true
		}
	}
	return false
}

// restarted starts a server that is down. One may end itself: a leader that hears others and is not heard can neither work
// nor hand over.
func (m *storm) restarted(h *host) {
	if h.gaveUp() {
		m.did["server ended itself"]++
	}
	m.restart(h)
}

func (m *storm) handOver() bool {
	h := m.leading()
	if h != nil {
		h.node().StepDown("storm")
	}
	return h != nil
}

// killNode leaves at least one node alive.
func (m *storm) killNode() bool {
	up := m.alive()
	if len(up) < 2 {
		return false
	}
	up[m.rand.IntN(len(up))].kill()
	return true
}

// stopNode stops a node as planned. Its goodbye may not get through.
func (m *storm) stopNode() bool {
	up := m.alive()
	if len(up) < 2 {
		return false
	}
	up[m.rand.IntN(len(up))].leave()
	return true
}

func (m *storm) startNode() bool { return m.revive(fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf))) }

// revive starts a node that was killed or stopped.
func (m *storm) revive(name string) bool {
	if w := m.named(name); !w.dead.Load() && !w.left {
		return false
	}
	m.work(name)
	return true
}

// seen is the state as some server knows it; a storm may ask for what is not so any more.
func (m *storm) seen() *fsm.View {
	up := m.running()
	if len(up) == 0 {
		return fsm.New().View()
	}
	return up[m.rand.IntN(len(up))].view()
}

func (m *storm) anyDispatcher() (fsm.Dispatcher, error) {
	all := slices.Collect(m.seen().Dispatchers())
	if len(all) == 0 {
		return fsm.Dispatcher{}, errNothing
	}
	return all[m.rand.IntN(len(all))], nil
}

func (m *storm) move(x context.Context) error {
	d, err := m.anyDispatcher()
	if err != nil {
		return err
	}
	return m.request(x, &weirv1.OperatorSpec{
		Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: uint64(d.ID), FromAny: true, To: fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf)),
	})
}

func (m *storm) admit(x context.Context, k weirv1.OperatorKind) error {
	d, err := m.anyDispatcher()
	if err != nil {
		return err
	}
	spec := &weirv1.OperatorSpec{Kind: k, Dispatcher: uint64(d.ID)}
	if k == weirv1.OperatorKind_OPERATOR_KIND_ADD {
		spec.To = fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf))
	}
	return m.request(x, spec)
}

// split cuts a dispatcher's span in two, sometimes with nodes for the halves.
func (m *storm) split(x context.Context) error {
	d, err := m.anyDispatcher()
	if err != nil {
		return err
	}
	spec := &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_SPLIT, Dispatcher: uint64(d.ID)}
	key := d.Span.Start + "\x40"
	if d.Span.End != "" && d.Span.End <= key {
		return errNothing
	}
	spec.Spans = []*weirv1.Span{{Start: []byte(d.Span.Start), End: []byte(key)}, {Start: []byte(key), End: []byte(d.Span.End)}}
	if m.rand.IntN(2) == 0 {
		spec.Targets = []string{fmt.Sprintf("n%d", 1+m.rand.IntN(nodesOf)), ""}
	}
	return m.request(x, spec)
}

// merge joins a dispatcher with the next one of its table.
func (m *storm) merge(x context.Context) error {
	d, err := m.anyDispatcher()
	if err != nil {
		return err
	}
	for next := range m.seen().DispatchersOfTable(d.Table) {
		if d.Span.End != "" && next.Span.Start == d.Span.End {
			return m.request(x, &weirv1.OperatorSpec{
				Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Sources: []uint64{uint64(d.ID), uint64(next.ID)},
			})
		}
	}
	return errNothing
}

// request asks for an operator and remembers the verdict.
func (m *storm) request(x context.Context, spec *weirv1.OperatorSpec) error {
	m.asked++
	req := &weirv1.AdmitOperatorRequest{
		Header:   &weirv1.RequestHeader{RequestId: fmt.Sprintf("storm-%d-%d", m.seed, m.asked), RequestTimeMs: m.seen().Meta().TimeMS},
		Operator: spec,
	}
	given, err := m.admin.Admit(x, req)
	v := verdict{req: req, first: answer{kind: fsm.OperatorKind(spec.GetKind()), to: spec.GetTo(), given: given}}
	if err != nil {
		v.first.given = nil
		if !errors.As(err, &v.first.no) || v.first.no.Class != client.Rejected {
			return err
		}
	}
	m.decided = append(m.decided, v)
	return err
}

// repeat sends every request again that a client had the verdict of: it is still the same.
func (m *storm) repeat() {
	m.t.Helper()
	for _, v := range m.decided {
		require.NoError(m.t, same(v.first, m.cluster.ask(v.req, "auditor", m.anyServer())), "seed %d", m.seed)
	}
}

func (m *storm) cancelAny(x context.Context) error {
	all := slices.Collect(m.seen().Operators())
	if len(all) == 0 {
		return errNothing
	}
	_, err := m.admin.CancelOperator(x, uint64(all[m.rand.IntN(len(all))].ID))
	return err
}

func (m *storm) addTable(x context.Context) error {
	m.tables++
	feed := m.anyFeed()
	_, err := m.admin.AddTables(x, &weirv1.AddTablesRequest{
		Changefeed: feed, Tables: []*weirv1.TableSpec{splitTable(fmt.Sprintf("%s.new%d", feed, m.tables))},
	})
	return err
}

// dropAndAdd adds a table again at once, while what ran of it is being stopped.
func (m *storm) dropAndAdd(x context.Context) error {
	feed := m.anyFeed()
	table := fmt.Sprintf("%s.%d", feed, m.rand.IntN(tablesOf))
	_, err := m.admin.DropTables(x, &weirv1.DropTablesRequest{Changefeed: feed, Tables: []*weirv1.TableRef{{Schema: tableSchema, Name: table}}})
	var no *client.Error
	if err != nil && (!errors.As(err, &no) || no.Reason != fsm.UnknownTable.String()) {
		return err
	}
	_, err = m.admin.AddTables(x, &weirv1.AddTablesRequest{Changefeed: feed, Tables: []*weirv1.TableSpec{splitTable(table)}})
	return err
}
