package scenario

import (
	"fmt"

	"github.com/weir-project/weir/fsm"
)

// RandomLog makes the entries of a random log: most commands make sense in the state that they meet, some do not. It
// keeps a state machine of its own to look at, so the log depends on nothing but the picks.
type RandomLog struct {
	pick  func(n int) int
	state *fsm.State
	term  uint64
	asked []fsm.Proposal // requests that may be sent again
}

// Bounds of what a random log names.
const (
	randomNodes  = 5
	randomFeeds  = 3
	randomTables = 4
	randomBatch  = 5
	keepAsked    = 24
)

// NewRandomLog starts a log. pick returns a number from 0 to n-1; equal picks give equal logs.
func NewRandomLog(pick func(n int) int) *RandomLog {
	return &RandomLog{pick: pick, state: fsm.New()}
}

// Seeded is a pick for NewRandomLog that depends on the seed alone (splitmix64), the same on every machine and with every
// version of the compiler.
func Seeded(seed uint64) func(n int) int {
	return func(n int) int {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return int((z ^ z>>31) % uint64(n))
	}
}

// Next makes the next entry and applies it to the log's own state. The first one opens the cluster.
func (l *RandomLog) Next() fsm.Entry {
	e := fsm.Entry{Index: l.state.Meta().Index + 1}
	if e.Index == 1 {
		l.term = firstTerm
		e.Proposals = []fsm.Proposal{
			{Command: &fsm.BeginTerm{Server: firstServer}},
			{Command: &fsm.BeginGeneration{Generation: firstGeneration, Cluster: clusterName, Why: fsm.GenerationBootstrap}},
			{Command: l.tightPolicy()},
		}
	} else {
		for range 1 + l.pick(randomBatch) {
			e.Proposals = append(e.Proposals, l.proposal())
		}
	}
	e.Term = l.term
	for i := range e.Proposals {
		if e.Proposals[i].Term == 0 {
			e.Proposals[i].Term = l.term
		}
	}
	l.state.Apply(e)
	return e
}

// State is the state after the last entry; it must not be changed.
func (l *RandomLog) State() *fsm.State { return l.state }

// tightPolicy keeps little, so that forgetting happens in short logs.
func (l *RandomLog) tightPolicy() *fsm.SetPolicy {
	p := fsm.DefaultPolicy()
	p.MaxDispatchers, p.MaxPlacementsPerNode, p.MaxOperators, p.MaxNodes = 60, 12, 20, randomNodes-1
	p.KeepRequests, p.KeepRequestsMS, p.KeepOperators, p.KeepHistory, p.KeepHistoryEach = 20, 20_000, 30, 60, 4
	p.HealthyMS, p.KeepBarriers, p.OperatorDeadlineMS, p.BarrierDeadlineMS = 2000, 5, 4000, 6000
	p.FailAfter = uint32(6 + l.pick(20))
	return &fsm.SetPolicy{Policy: p}
}

// choice is a kind of command and how often it comes.
type choice struct {
	weight int
	make   func() fsm.Command
}

func (l *RandomLog) choices() []choice {
	return []choice{
		{10, l.tick},
		{6, l.register},
		{1, l.goodbye},
		{1, l.fence},
		{2, l.expire},
		{3, l.createChangefeed},
		{2, func() fsm.Command { return &fsm.PauseChangefeed{Name: l.feedName()} }},
		{1, l.resume},
		{1, l.updateChangefeed},
		{1, func() fsm.Command { return &fsm.RemoveChangefeed{Name: l.feedName()} }},
		{5, l.addTables},
		{2, l.dropTables},
		{30, l.admit},
		{4, l.cancel},
		{3, l.admitMany},
		{4, l.drain},
		{40, l.report},
		{25, l.say},
		{3, l.decide},
		{8, l.checkpoint},
		{1, func() fsm.Command {
			l.term++
			return &fsm.BeginTerm{Server: fsm.ServerID(fmt.Sprintf("s%d", 1+l.pick(3)))}
		}},
		{1, func() fsm.Command {
			return &fsm.AnnounceServer{Server: fsm.ServerID(fmt.Sprintf("s%d", 1+l.pick(3))), Address: "127.0.0.1:1", HighestLevel: 1}
		}},
		{1, func() fsm.Command { return &fsm.SetFeatureLevel{Level: 1} }},
		{1, func() fsm.Command { return l.tightPolicy() }},
		{1, func() fsm.Command {
			return &fsm.BeginGeneration{Generation: 9, Cluster: clusterName, Why: fsm.GenerationBootstrap}
		}},
	}
}

func (l *RandomLog) command() fsm.Command {
	if name, stopped := l.stoppedFeed(); stopped && l.pick(8) == 0 {
		return l.resumeOf(name)
	}
	if name, needed := l.neededNode(); needed && l.pick(3) == 0 {
		if n, _ := l.state.Node(name); n.Draining && n.Status == fsm.NodeStatusLive {
			return &fsm.ClearDrain{Node: name}
		}
		return l.registerAs(name)
	}
	if l.dropping() && l.pick(6) == 0 {
		return l.addTables()
	}
	all := l.choices()
	total := 0
	for _, c := range all {
		total += c.weight
	}
	at := l.pick(total)
	for _, c := range all {
		if at -= c.weight; at < 0 {
			return c.make()
		}
	}
	return l.tick()
}

// stoppedFeed finds one, which is soon resumed: a stopped changefeed does nothing.
func (l *RandomLog) stoppedFeed() (string, bool) {
	for feed := range l.state.Changefeeds() {
		if feed.Status == fsm.ChangefeedIsPaused || feed.Status == fsm.ChangefeedIsFailed {
			return feed.Name, true
		}
	}
	return "", false
}

// dropping says whether a table is on its way out: soon one of its name is added again.
func (l *RandomLog) dropping() bool {
	for feed := range l.state.Changefeeds() {
		for t := range l.state.Tables(feed.ID) {
			if t.Dropping && !t.Trigger && feed.Status == fsm.ChangefeedRunning {
				return true
			}
		}
	}
	return false
}

// neededNode finds a node that could help when few can take work: without such nodes nothing happens.
func (l *RandomLog) neededNode() (fsm.NodeName, bool) {
	takers, found := 0, l.nodeName()
	for n := range l.state.Nodes() {
		if n.Status == fsm.NodeStatusLive && !n.Draining {
			takers++
		} else if n.Status != fsm.NodeStatusFenced {
			found = n.Name
		}
	}
	return found, takers < 3
}

// proposal is a command with its envelope: one in eight is a request sent again, one in fifty of another term.
func (l *RandomLog) proposal() fsm.Proposal {
	if len(l.asked) > 0 && l.pick(8) == 0 {
		return l.asked[l.pick(len(l.asked))]
	}
	p := fsm.Proposal{Command: l.command(), By: "random"}
	if l.pick(50) == 0 {
		p.Term = 1 + uint64(l.pick(int(l.term)+1))
	}
	if p.Command.Kind() != fsm.KindBeginTerm && l.pick(3) == 0 {
		l.ask(&p)
	}
	return p
}

func (l *RandomLog) ask(p *fsm.Proposal) {
	now := l.state.Meta().TimeMS
	p.Request = fsm.RequestID(fmt.Sprintf("r%d", l.pick(500)))
	p.RequestTimeMS = now - min(now, uint64(l.pick(3000))) + uint64(l.pick(40)/39)
	l.asked = append(l.asked, *p)
	if len(l.asked) > keepAsked {
		l.asked = l.asked[1:]
	}
}

func (l *RandomLog) nodeName() fsm.NodeName {
	return fsm.NodeName(fmt.Sprintf("n%d", 1+l.pick(randomNodes)))
}

func (l *RandomLog) feedName() string { return fmt.Sprintf("f%d", 1+l.pick(randomFeeds)) }

func (l *RandomLog) tableName() string { return fmt.Sprintf("t%d", 1+l.pick(randomTables)) }

// incarnation is mostly the node's newest one, sometimes an older one or none.
func (l *RandomLog) incarnation(name fsm.NodeName) fsm.Incarnation {
	n, _ := l.state.Node(name)
	if l.pick(12) == 0 && n.Incarnation > 0 {
		return n.Incarnation - 1
	}
	return n.Incarnation
}

func (l *RandomLog) tick() fsm.Command {
	t := &fsm.Tick{ElapsedMS: uint32(l.pick(1500))}
	var heard []fsm.Incarnation
	for n := range l.state.Nodes() {
		if l.pick(3) > 0 {
			heard = append(heard, n.Incarnation)
		}
	}
	t.Base, t.Bits = bitmap(heard)
	return t
}

func (l *RandomLog) register() fsm.Command { return l.registerAs(l.nodeName()) }

func (l *RandomLog) registerAs(name fsm.NodeName) fsm.Command {
	return &fsm.RegisterNode{
		Node: name, LeaseMS: uint32(100 + 100*l.pick(40)), ClockClass: uint8(1 + l.pick(2)), Protocol: protocol,
		BootID: "boot", LockDevice: uint64(l.pick(2)), LockInode: uint64(l.pick(2)),
	}
}

func (l *RandomLog) goodbye() fsm.Command {
	name := l.nodeName()
	m := &fsm.Goodbye{Node: name, Incarnation: l.incarnation(name)}
	for row := range l.state.DispatchersOn(m.Incarnation) {
		if l.pick(3) > 0 {
			m.Stopped = append(m.Stopped, l.reached(row, row.Epoch))
		}
	}
	return m
}

func (l *RandomLog) fence() fsm.Command {
	name := l.nodeName()
	return &fsm.FenceNode{Node: name, Incarnation: l.incarnation(name) * fsm.Incarnation(l.pick(2)), Why: "random"}
}

func (l *RandomLog) expire() fsm.Command {
	name := l.nodeName()
	n, _ := l.state.Node(name)
	return &fsm.ExpireNode{Node: name, Incarnation: l.incarnation(name), ExpectTick: n.LastTick - min(n.LastTick, uint64(l.pick(4)/3))}
}

func (l *RandomLog) createChangefeed() fsm.Command {
	return &fsm.CreateChangefeed{
		Name: l.feedName(), Source: "wal2json:/source", Sink: fmt.Sprintf("sqlite:/sink%d", l.pick(2)), SinkFenced: l.pick(2) == 0,
		SinkMaxWriteMS: uint32(l.pick(3)), Start: fsm.At(uint64(l.pick(100))), Tables: l.tables(),
		SyncPointEvery: uint64(l.pick(3)) * 20,
	}
}

func (l *RandomLog) tables() []fsm.TableSpec {
	var specs []fsm.TableSpec
	for range 1 + l.pick(2) {
		spec := fsm.TableSpec{Schema: "public", Name: l.tableName()}
		for _, key := range []string{"c", "h", "m", "t"} {
			if l.pick(2) == 0 {
				spec.SplitKeys = append(spec.SplitKeys, key)
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

// addTables likes to add again what is still being dropped: that is held, and must be.
func (l *RandomLog) addTables() fsm.Command {
	m := &fsm.AddTables{Changefeed: l.feedName(), Start: fsm.At(uint64(l.pick(100))), Tables: l.tables()}
	if l.pick(3) > 0 {
		m.Start = fsm.Position{}
	}
	for feed := range l.state.Changefeeds() {
		for t := range l.state.Tables(feed.ID) {
			if t.Dropping && !t.Trigger && l.pick(2) == 0 {
				m.Changefeed = feed.Name
				m.Tables = []fsm.TableSpec{{Schema: t.Schema, Name: t.Name, SplitKeys: m.Tables[0].SplitKeys}}
			}
		}
	}
	return m
}

func (l *RandomLog) dropTables() fsm.Command {
	m := &fsm.DropTables{Changefeed: l.feedName()}
	if feed, ok := l.state.Changefeed(m.Changefeed); ok {
		for t := range l.state.Tables(feed.ID) {
			if !t.Trigger && l.pick(2) == 0 {
				m.Tables = append(m.Tables, fsm.TableRef{Schema: t.Schema, Name: t.Name})
			}
		}
	}
	return m
}

// someDispatcher is mostly one that is there.
func (l *RandomLog) someDispatcher() fsm.Dispatcher {
	n := l.state.DispatcherCount()
	if n == 0 || l.pick(20) == 0 {
		return fsm.Dispatcher{ID: fsm.DispatcherID(1 + l.pick(int(l.state.Meta().LastDispatcher)+1))}
	}
	at := l.pick(n)
	for row := range l.state.Dispatchers() {
		if at--; at < 0 {
			return row
		}
	}
	return fsm.Dispatcher{ID: 1}
}

// eager finds, in one of three, a dispatcher that has the property, if there is one: what is rare is asked more often.
func (l *RandomLog) eager(is func(fsm.Dispatcher) bool) fsm.Dispatcher {
	if l.pick(3) == 0 {
		var found []fsm.Dispatcher
		for row := range l.state.Dispatchers() {
			if is(row) {
				found = append(found, row)
			}
		}
		if len(found) > 0 {
			return found[l.pick(len(found))]
		}
	}
	return l.someDispatcher()
}

// interesting is what is in a split or a merge, and what a removal holds.
func (l *RandomLog) interesting(row fsm.Dispatcher) bool {
	if op, ok := l.state.Operator(row.Slot); ok {
		return op.Kind == fsm.OpSplit || op.Kind == fsm.OpMerge
	}
	_, held := l.state.HeldBy(row)
	return held && row.Phase == fsm.Absent
}

func (l *RandomLog) admit() fsm.Command {
	row := l.eager(l.interesting)
	switch l.pick(8) {
	case 0:
		return l.split(row)
	case 1:
		return l.merge(row)
	}
	m := &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: row.ID, To: l.nodeName()}
	rare := l.interesting(row)
	if row.Phase == fsm.Running || l.pick(4) == 0 || (rare && l.pick(2) == 0) {
		m.Op = fsm.OpMove
		owner, _ := l.state.NodeOf(row.Incarnation)
		m.From = owner.Name
		if l.pick(3) == 0 {
			m.From, m.FromAny = "", l.pick(3) == 0
		}
	}
	if l.pick(12) == 0 || (rare && l.pick(4) == 0) {
		*m = fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: row.ID}
	}
	if l.pick(8) == 0 {
		m.ExpectEpoch = row.Epoch + fsm.Epoch(l.pick(2))
	}
	return m
}

func (l *RandomLog) cancel() fsm.Command {
	if op := l.eager(l.interesting).Slot; op != 0 && l.pick(3) > 0 {
		return &fsm.CancelOperator{Op: op}
	}
	last := l.state.Meta().LastEpoch
	return &fsm.CancelOperator{Op: fsm.OpID(last) - fsm.OpID(l.pick(20))}
}

func (l *RandomLog) reached(row fsm.Dispatcher, epoch fsm.Epoch) fsm.PlacementPosition {
	return fsm.PlacementPosition{
		Dispatcher: row.ID, Epoch: epoch, HasPosition: l.pick(3) > 0,
		Position: fsm.Position{TS: row.Position.TS + uint64(l.pick(20)) - min(row.Position.TS, 5), Stage: fsm.Stage(l.pick(5))},
	}
}

// report is mostly by the owner about its placements, and sometimes by anybody about anything.
func (l *RandomLog) report() fsm.Command {
	row := l.eager(func(row fsm.Dispatcher) bool { return row.Phase == fsm.Starting || row.Phase == fsm.Stopping })
	owner, ok := l.state.NodeOf(row.Incarnation)
	if !ok || l.pick(12) == 0 {
		owner.Name = l.nodeName()
		owner.Incarnation = l.incarnation(owner.Name)
	}
	m := &fsm.ReportPlacements{Node: owner.Name, Incarnation: owner.Incarnation}
	m.Reports = append(m.Reports, l.word(row))
	for other := range l.state.DispatchersOn(owner.Incarnation) {
		if other.ID != row.ID && l.pick(3) == 0 {
			m.Reports = append(m.Reports, l.word(other))
		}
	}
	return m
}

func (l *RandomLog) word(row fsm.Dispatcher) fsm.PlacementReport {
	epoch := row.Epoch
	if l.pick(10) == 0 {
		epoch -= min(epoch, fsm.Epoch(l.pick(4)))
	}
	r := fsm.PlacementReport{PlacementPosition: l.reached(row, epoch), What: fsm.ReportRunning}
	switch {
	case row.Phase == fsm.Stopping && l.pick(6) > 0:
		r.What = fsm.ReportStopped
	case l.pick(5) == 0:
		r.What, r.Reason, r.Detail, r.Fatal = fsm.ReportStopped, "SINK_ERROR", "random", l.pick(12) == 0
	case l.pick(8) == 0:
		r.What, r.Reason = fsm.ReportStartFailed, "SOURCE_ERROR"
	}
	return r
}
