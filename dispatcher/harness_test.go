package dispatcher

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

var errBroken = errors.New("stream is broken")

// pipe is an in-memory session: what the node sends, and what it receives.
type pipe struct {
	up     chan session.FromNode
	down   chan session.FromLeader
	broken chan struct{}
	once   sync.Once
}

func newPipe() *pipe {
	return &pipe{
		up: make(chan session.FromNode, 1<<12), down: make(chan session.FromLeader, 1<<12), broken: make(chan struct{}),
	}
}

func (p *pipe) Send(m session.FromNode) error {
	select {
	case <-p.broken:
		return errBroken
	case p.up <- m:
		return nil
	}
}

func (p *pipe) Recv() (session.FromLeader, error) {
	select {
	case <-p.broken:
		return session.FromLeader{}, errBroken
	default:
	}
	select {
	case m := <-p.down:
		return m, nil
	case <-p.broken:
		return session.FromLeader{}, errBroken
	}
}

func (p *pipe) Close() { p.once.Do(func() { close(p.broken) }) }

// codeError is a refusal with a stable code.
type codeError string

func (e codeError) Error() string { return string(e) + ": refused by the test" }

// leader is a fake cluster: it registers, acknowledges and orders as the test tells it to.
type leader struct {
	t *testing.T

	mu            sync.Mutex
	incarnation   fsm.Incarnation
	registrations []session.Registration
	hellos        []session.Hello
	refuse        func(attempt int) error // of registrations
	openErr       error
	current       *pipe
	sessions      int
	acks          bool // heartbeats are acknowledged
	ackReports    bool
	term, index   uint64
	heartbeats    []session.Heartbeat
	reports       []fsm.PlacementReport // each kind of each pair once, in order of arrival
	raw           int                   // report messages, repetitions included
	lists         []session.List
	goodbyes      []fsm.Goodbye
	goodbyeErr    error
	serving       sync.WaitGroup
	// said is what was said of events, repetitions included; reply answers a report, nil for one that is lost.
	said  []session.BarrierReport
	reply func(r *fsm.BarrierReport) []fsm.Reason
}

func newLeader(t *testing.T) *leader {
	t.Helper()
	return &leader{t: t, acks: true, ackReports: true, term: 3, index: 100, incarnation: 40}
}

const testLease = 2 * time.Second

func (l *leader) Register(_ context.Context, r session.Registration) (session.Registered, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.registrations = append(l.registrations, r)
	if l.refuse != nil {
		if err := l.refuse(len(l.registrations)); err != nil {
			return session.Registered{}, err
		}
	}
	l.incarnation++
	l.index++
	return session.Registered{
		Cluster: "c1", Incarnation: l.incarnation, LeaseMS: uint32(testLease.Milliseconds()), Index: l.index, Term: l.term,
		TickMS: 100, HeartbeatMS: 250,
	}, nil
}

func (l *leader) Open(_ context.Context, h session.Hello) (session.NodeStream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hellos = append(l.hellos, h)
	if l.openErr != nil {
		return nil, l.openErr
	}
	if h.Incarnation != l.incarnation {
		return nil, codeError(codeStaleIncarnation)
	}
	p := newPipe()
	l.current = p
	l.sessions++
	l.serving.Go(func() { l.serve(p) })
	return p, nil
}

func (l *leader) Goodbye(_ context.Context, g fsm.Goodbye) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goodbyes = append(l.goodbyes, g)
	return l.goodbyeErr
}

func (l *leader) serve(p *pipe) {
	for {
		select {
		case <-p.broken:
			return
		case m := <-p.up:
			l.take(p, m)
		}
	}
}

func (l *leader) take(p *pipe, m session.FromNode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case m.Heartbeat != nil:
		l.heartbeats = append(l.heartbeats, *m.Heartbeat)
		if l.acks {
			l.index++
			p.down <- session.FromLeader{Ack: &session.Ack{Seq: m.Heartbeat.Seq, Term: l.term, Index: l.index}}
		}
	case m.Report != nil:
		l.raw++
		var pairs []session.ReportedPair
		for _, r := range m.Report.Reports {
			pairs = append(pairs, session.ReportedPair{Pair: session.Pair{Dispatcher: r.Dispatcher, Epoch: r.Epoch}, What: r.What})
			if !slices.ContainsFunc(l.reports, func(o fsm.PlacementReport) bool {
				return o.Dispatcher == r.Dispatcher && o.Epoch == r.Epoch && o.What == r.What
			}) {
				l.reports = append(l.reports, r)
			}
		}
		if l.ackReports {
			l.index++
			p.down <- session.FromLeader{ReportAck: &session.ReportAck{Term: l.term, Index: l.index, Pairs: pairs}}
		}
	case m.List != nil:
		l.lists = append(l.lists, *m.List)
	case m.Barrier != nil:
		l.said = append(l.said, *m.Barrier)
		l.answer(p, m.Barrier)
	}
}

// answer answers a message about events, unless one of its reports is lost.
func (l *leader) answer(p *pipe, m *session.BarrierReport) {
	var answers []fsm.Reason
	for i := range m.Reports {
		var got []fsm.Reason
		if l.reply != nil {
			got = l.reply(&m.Reports[i])
		}
		if got == nil {
			return
		}
		answers = append(answers, got...)
	}
	l.index++
	p.down <- session.FromLeader{Barrier: &session.BarrierAnswer{Term: l.term, Index: l.index, Seq: m.Seq, Answers: answers}}
}

// always answers every placement alike.
func always(answer fsm.Reason) func(r *fsm.BarrierReport) []fsm.Reason {
	return func(r *fsm.BarrierReport) []fsm.Reason {
		if r.All {
			return []fsm.Reason{answer}
		}
		return slices.Repeat([]fsm.Reason{answer}, len(r.Pairs))
	}
}

// heard returns what was said of events since the last call.
func (l *leader) heard() []fsm.BarrierReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []fsm.BarrierReport
	for _, m := range l.said {
		out = append(out, m.Reports...)
	}
	l.said = nil
	return out
}

// event orders something about events, from a new state.
func (l *leader) event(orders ...fsm.BarrierOrder) {
	l.mu.Lock()
	l.index++
	o := &session.Orders{Term: l.term, Index: l.index, Barriers: orders}
	l.mu.Unlock()
	l.say(session.FromLeader{Orders: o})
}

// set changes the leader's behaviour.
func (l *leader) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// say sends a message in the current session.
func (l *leader) say(m session.FromLeader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotNil(l.t, l.current, "no session")
	l.current.down <- m
}

// order sends orders from a new state.
func (l *leader) order(orders ...fsm.Order) mark {
	l.mu.Lock()
	l.index++
	at := mark{l.term, l.index}
	l.mu.Unlock()
	l.orderAt(at, orders...)
	return at
}

func (l *leader) orderAt(at mark, orders ...fsm.Order) {
	l.say(session.FromLeader{Orders: &session.Orders{Term: at.term, Index: at.index, Orders: orders}})
}

// fence tells the node that its incarnation is over.
func (l *leader) fence() {
	l.say(session.FromLeader{Close: &session.Close{Reason: codeStaleIncarnation, Text: "the incarnation has expired"}})
}

// reported returns the reports of a pair, in order.
func (l *leader) reported(d fsm.DispatcherID, e fsm.Epoch) []fsm.PlacementReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []fsm.PlacementReport
	for _, r := range l.reports {
		if r.Dispatcher == d && r.Epoch == e {
			out = append(out, r)
		}
	}
	return out
}

// kinds returns what was reported of a pair, in order.
func (l *leader) kinds(d fsm.DispatcherID, e fsm.Epoch) []fsm.ReportKind {
	var out []fsm.ReportKind
	for _, r := range l.reported(d, e) {
		out = append(out, r.What)
	}
	return out
}

func (l *leader) heartbeat() session.Heartbeat {
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NotEmpty(l.t, l.heartbeats)
	return l.heartbeats[len(l.heartbeats)-1]
}

// stage is a point at which the fake source and sink can be made to hang or fail.
type stage string

const (
	stageSinkOpen   stage = "sink open"
	stageClaim      stage = "claim"
	stageSourceOpen stage = "source open"
	stageRead       stage = "read"
	stageWrite      stage = "write"
	stageClose      stage = "close"
	stageEvent      stage = "event"
	stageEventDone  stage = "event done" // after the effect
)

// effect is something that reached the fake sink.
type effect struct {
	kind    CallKind
	span    fsm.Span
	token   Token
	resume  fsm.Position
	rows    int
	at      time.Time
	changes []Change
	event   DDL
	done    bool // the record was there
}

// world is the fake source and sink of a test. Hooks run at their stage, before the effect; what they return is what the
// call returns.
type world struct {
	mu      sync.Mutex
	props   SinkProperties
	hooks   map[stage]func(ctx context.Context, allow func() error) error
	txs     []Transaction
	atEnd   error // what the source returns after its transactions; nil: it blocks
	reached map[stage]int
	effects []effect
	rows    map[fsm.Span]effect // fence rows: the newest token and resume position of a span
	open    int                 // writers
	closes  int
	readers int
	starts  []fsm.Position // where the source was opened
	records map[DDLKey]bool
}

func newWorld(txs ...Transaction) *world {
	return &world{
		props: SinkProperties{Fenced: true}, hooks: make(map[stage]func(context.Context, func() error) error), txs: txs,
		atEnd: io.EOF, reached: make(map[stage]int), rows: make(map[fsm.Span]effect), records: make(map[DDLKey]bool),
	}
}

func (w *world) hook(s stage, f func(ctx context.Context, allow func() error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[s] = f
}

func (w *world) at(ctx context.Context, s stage, allow func() error) error {
	w.mu.Lock()
	w.reached[s]++
	f := w.hooks[s]
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, allow)
}

func (w *world) count(s stage) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reached[s]
}

func (w *world) writes() []effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []effect
	for _, e := range w.effects {
		if e.kind == CallWrite {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) events() []effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []effect
	for _, e := range w.effects {
		if e.kind == CallEvent {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) claims() []effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []effect
	for _, e := range w.effects {
		if e.kind == CallClaim {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) openWriters() (open, closes, readers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open, w.closes, w.readers
}

type fakeSink struct{ w *world }

func (s fakeSink) Properties() SinkProperties { return s.w.props }

func (s fakeSink) Open(ctx context.Context, spec SinkSpec) (SpanWriter, error) {
	if err := s.w.at(ctx, stageSinkOpen, nil); err != nil {
		return nil, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.open++
	if spec.Trigger {
		spec.Span = triggerPlace
	}
	return &fakeWriter{w: s.w, spec: spec}, nil
}

// triggerPlace is where the trigger's fence row is.
var triggerPlace = fsm.Span{Start: "the trigger's", End: "the trigger's"}

type fakeWriter struct {
	w     *world
	spec  SinkSpec
	token Token

	mu     sync.Mutex
	closed bool
}

func (f *fakeWriter) Claim(ctx context.Context, token Token, start fsm.Position, allow func() error) (fsm.Position, error) {
	if err := f.w.at(ctx, stageClaim, allow); err != nil {
		return fsm.Position{}, err
	}
	if err := allow(); err != nil {
		return fsm.Position{}, err
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	row, found := f.w.rows[f.spec.Span]
	if found && row.token.Compare(token) > 0 {
		return fsm.Position{}, &FencedError{Own: token, Found: row.token, Table: f.spec.Table}
	}
	resume := start.Max(row.resume)
	f.token = token
	e := effect{kind: CallClaim, span: f.spec.Span, token: token, resume: resume, at: time.Now()}
	f.w.rows[f.spec.Span] = e
	f.w.effects = append(f.w.effects, e)
	return resume, nil
}

func (f *fakeWriter) Write(ctx context.Context, b Batch, allow func() error) error {
	if err := f.w.at(ctx, stageWrite, allow); err != nil {
		return err
	}
	if err := allow(); err != nil {
		return err
	}
	return f.apply(b)
}

func (f *fakeWriter) apply(b Batch) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if row := f.w.rows[f.spec.Span]; row.token != f.token {
		return &FencedError{Own: f.token, Found: row.token, Table: f.spec.Table}
	}
	e := effect{
		kind: CallWrite, span: f.spec.Span, token: f.token, resume: b.Resume, rows: len(b.Changes), at: time.Now(), changes: b.Changes,
	}
	f.w.rows[f.spec.Span] = e
	f.w.effects = append(f.w.effects, e)
	return nil
}

func (f *fakeWriter) WriteDDL(ctx context.Context, ddl DDL, allow func() error) (bool, error) {
	if err := f.w.at(ctx, stageEvent, allow); err != nil {
		return false, err
	}
	if err := allow(); err != nil {
		return false, err
	}
	done, err := f.record(ddl)
	if err != nil {
		return false, err
	}
	return done, f.w.at(ctx, stageEventDone, allow)
}

func (f *fakeWriter) record(ddl DDL) (done bool, err error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if row := f.w.rows[f.spec.Span]; row.token != f.token {
		return false, &FencedError{Own: f.token, Found: row.token, Table: f.spec.Table}
	}
	done = f.w.records[ddl.Key]
	f.w.records[ddl.Key] = true
	f.w.effects = append(f.w.effects, effect{
		kind: CallEvent, span: f.spec.Span, token: f.token, at: time.Now(), event: ddl, done: done,
	})
	return done, nil
}

func (f *fakeWriter) Delete(context.Context, func() error) error {
	return errors.New("no deletes here")
}

func (f *fakeWriter) Close() error {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	f.mu.Unlock()
	if again {
		panic("a writer is closed twice")
	}
	err := f.w.at(context.Background(), stageClose, nil)
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.open--
	f.w.closes++
	return err
}

type fakeSource struct{ w *world }

func (s fakeSource) Open(ctx context.Context, spec SourceSpec) (Reader, error) {
	if err := s.w.at(ctx, stageSourceOpen, nil); err != nil {
		return nil, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.readers++
	s.w.starts = append(s.w.starts, spec.Start)
	var left []Transaction
	for _, tx := range s.w.txs {
		if spec.Start.Less(tx.Position) {
			if spec.Trigger {
				tx.Changes = nil
			}
			left = append(left, tx)
		}
	}
	return &fakeReader{w: s.w, left: left}, nil
}

type fakeReader struct {
	w    *world
	left []Transaction
}

func (r *fakeReader) Next(ctx context.Context) (Transaction, error) {
	if err := r.w.at(ctx, stageRead, nil); err != nil {
		return Transaction{}, err
	}
	if len(r.left) > 0 {
		tx := r.left[0]
		r.left = r.left[1:]
		return tx, nil
	}
	r.w.mu.Lock()
	end := r.w.atEnd
	r.w.mu.Unlock()
	if end != nil {
		return Transaction{}, end
	}
	<-ctx.Done()
	return Transaction{}, context.Cause(ctx)
}

func (r *fakeReader) Close() error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.readers--
	return nil
}

// book-keeping of a running node under test.
type rig struct {
	t      *testing.T
	leader *leader
	world  *world
	node   *Node
	clock  *clock.Skewed
	aborts []string
	ledger *memLedger
	cancel context.CancelFunc
	result chan error
	mu     sync.Mutex
}

type memLedger struct {
	mu       sync.Mutex
	edges    []fence.Edge
	attempts []SinkCall
	outcomes []SinkCall
	notes    []EventNote
}

func (m *memLedger) Event(n EventNote) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, n)
}

func (m *memLedger) Gate(e fence.Edge) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.edges = append(m.edges, e)
}

func (m *memLedger) Attempt(c SinkCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts = append(m.attempts, c)
}

func (m *memLedger) Outcome(c SinkCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outcomes = append(m.outcomes, c)
}

func (m *memLedger) calls() []SinkCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.outcomes)
}

// newRig starts a node against a fake cluster inside a synctest bubble; tune may change its configuration. The node is
// registered and its gate is open when newRig returns.
func newRig(t *testing.T, w *world, tune func(c *Config)) *rig {
	t.Helper()
	r := &rig{t: t, leader: newLeader(t), world: w, clock: clock.NewSkewed(clock.NewBubble()), ledger: &memLedger{}}
	cfg := Config{
		Node: "n1", Address: "here", Lock: LockIdentity{"boot", 1, 2}, Dialer: r.leader,
		Sources: func(string) (Source, error) { return fakeSource{w}, nil },
		Sinks:   func(string) (Sink, error) { return fakeSink{w}, nil },
		Clock:   r.clock, Timers: clock.SystemTimers{}, Timing: fence.DefaultTiming(), Ledger: r.ledger,
		Wall: func() int64 { return 1_000_000 },
		Reason: func(err error) string {
			if c, ok := errors.AsType[codeError](err); ok {
				return string(c)
			}
			return ""
		},
		Abort: func(reason string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.aborts = append(r.aborts, reason)
		},
	}
	if tune != nil {
		tune(&cfg)
	}
	node, err := New(cfg)
	require.NoError(t, err)
	r.node = node
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel, r.result = cancel, make(chan error, 1)
	go func() { r.result <- node.Run(ctx) }()
	synctest.Wait()
	return r
}

// stop ends the node as planned and returns what Run said.
func (r *rig) stop() error {
	r.t.Helper()
	r.cancel()
	err := <-r.result
	r.leader.serving.Wait()
	return err
}

// pass lets fake time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) aborted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.aborts)
}

func tx(ts uint64, rows int) Transaction {
	t := Transaction{Position: fsm.Position{TS: ts, Stage: fsm.StageRows}, CommitTimeMS: 999_000}
	for i := range rows {
		t.Changes = append(t.Changes, Change{Op: OpUpsert, Key: string(rune('a' + i)), Table: TableName{"public", "t"}})
	}
	return t
}

// alter is a schema change of table t.
func alter(ts uint64) Transaction {
	statement := "alter table t add column c" + strconv.FormatUint(ts, 10) + " int"
	table := fsm.TableRef{Schema: "public", Name: "t"}
	return Transaction{Position: fsm.Position{TS: ts, Stage: fsm.StageDDL}, Event: &Event{
		Statement: statement,
		Change: schema.Change{Kind: schema.KindAlter, Tables: []fsm.TableRef{table}, Actions: []schema.Action{
			{Kind: schema.ActionAddColumn, Column: schema.Column{Name: "c" + strconv.FormatUint(ts, 10), Type: "integer"}},
		}},
		Spec: fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{table}, Trigger: true, Statement: statement},
	}}
}

func ddlAt(ts uint64) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: 9, Run: 1, At: fsm.Position{TS: ts, Stage: fsm.StageDDL}}
}

func syncAt(ts uint64) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: 9, Run: 1, At: fsm.Position{TS: ts, Stage: fsm.StageSyncPoint}}
}

func pairOf(d fsm.DispatcherID, e fsm.Epoch) session.Pair {
	return session.Pair{Dispatcher: d, Epoch: e}
}

// passOrder lets placements pass an event.
func passOrder(key fsm.BarrierKey, pairs ...session.Pair) fsm.BarrierOrder {
	return fsm.BarrierOrder{Key: key, Action: fsm.ActionPass, Pairs: pairs}
}

// writeOrder gives a placement the permission to write an event.
func writeOrder(key fsm.BarrierKey, permission uint64, p session.Pair) fsm.BarrierOrder {
	return fsm.BarrierOrder{
		Key: key, Action: fsm.ActionWrite, Permission: permission, Pairs: []session.Pair{p},
		Tables: []fsm.TableRef{{Schema: "public", Name: "t"}},
	}
}

// triggerOrder starts a changefeed's trigger.
func triggerOrder(d fsm.DispatcherID, e fsm.Epoch) fsm.Order {
	o := startOrder(d, e)
	o.Work.Trigger, o.Work.Schema, o.Work.Table, o.Work.Span = true, "", "", fsm.Span{}
	return o
}

func startOrder(d fsm.DispatcherID, e fsm.Epoch) fsm.Order {
	return fsm.Order{Kind: fsm.OrderStart, Dispatcher: d, Epoch: e, Work: fsm.Work{
		Changefeed: "feed", ChangefeedID: 9, Run: 1, Source: "fake:src", Sink: "fake:sink", SinkFenced: true, Schema: "public", Table: "t", TableID: 1,
		Span: spanOf(d),
	}}
}

// spanOf gives each dispatcher a range of its own.
func spanOf(d fsm.DispatcherID) fsm.Span {
	key := func(d fsm.DispatcherID) string { return string([]byte{byte(d >> 16), byte(d >> 8), byte(d)}) }
	return fsm.Span{Start: key(d), End: key(d + 1)}
}

func stopOrder(d fsm.DispatcherID, e fsm.Epoch) fsm.Order {
	return fsm.Order{Kind: fsm.OrderStop, Dispatcher: d, Epoch: e}
}
