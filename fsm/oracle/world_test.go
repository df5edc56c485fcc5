package oracle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// world makes the log of a small world: three nodes, two changefeeds on one sink, four tables, at most twelve
// dispatchers, so that everything collides. About seven commands in ten make sense where the model stands; the others are
// stale, unknown, repeated or out of order.
type world struct {
	pick func(n int) int // 0 to n-1; equal picks give equal logs
	m    *model
	term uint64
	sent []fsm.Proposal // of late, to be sent again
}

const (
	spread     = 10 // distance of the source's events
	keepSent   = 16
	worldSink  = "sink"
	syncPoints = 20
)

func newWorld(pick func(n int) int) *world { return &world{pick: pick, m: newModel(), term: 1} }

// smallPolicy has limits that are met, and forgets soon.
func smallPolicy() fsm.Policy {
	p := fsm.DefaultPolicy()
	p.MaxDispatchers, p.MaxPlacementsPerNode, p.MaxOperators, p.MaxNodes = 12, 7, 7, 3
	p.KeepRequests, p.KeepRequestsMS, p.KeepOperators, p.KeepBarriers = 8, 4000, 9, 3
	p.HealthyMS, p.OperatorDeadlineMS, p.BarrierDeadlineMS, p.FailAfter = 1500, 2500, 3000, 5
	return p
}

// opening starts the cluster with every node registered and a changefeed on two tables.
func (w *world) opening() []fsm.Command {
	cmds := []fsm.Command{
		&fsm.BeginTerm{Server: "s1"},
		&fsm.BeginGeneration{Generation: 3, Cluster: "small", Why: fsm.GenerationBootstrap},
		&fsm.AnnounceServer{Server: "s1", Address: "s1", HighestLevel: 1},
		&fsm.SetPolicy{Policy: smallPolicy()},
	}
	for i := range 3 {
		cmds = append(cmds, registerAs(nodeNamed(i)))
	}
	return append(cmds, w.createFeed())
}

// entry is the next one, of n proposals. The caller applies it to the world's model before it asks for another.
func (w *world) entry(n int) fsm.Entry {
	e := fsm.Entry{Index: w.m.index + 1}
	if e.Index == 1 {
		for _, c := range w.opening() {
			e.Proposals = append(e.Proposals, fsm.Proposal{Term: w.term, Command: c})
		}
	}
	for len(e.Proposals) < n {
		e.Proposals = append(e.Proposals, w.proposal())
	}
	e.Term = w.term
	return e
}

func (w *world) one(in int) bool { return w.pick(in) == 0 }

func (w *world) proposal() fsm.Proposal {
	if len(w.sent) > 0 && w.one(9) {
		return w.sent[w.pick(len(w.sent))]
	}
	p := fsm.Proposal{By: "u", Command: w.command()}
	if p.Command.Kind() == fsm.KindBeginTerm { // always good: without a term everything is refused
		w.term++
		p.Term = w.term
		return p
	}
	p.Term = w.term
	if w.one(60) {
		p.Term--
	}
	if w.one(90) {
		p.Level = 2
	}
	if w.one(4) {
		p.Request = fsm.RequestID(fmt.Sprintf("r%d", w.pick(200)))
		p.RequestTimeMS = w.m.timeMS - min(w.m.timeMS, uint64(w.pick(12))*50)
		if w.one(25) {
			p.RequestTimeMS += 900
		}
	}
	w.sent = append(w.sent, p)
	if len(w.sent) > keepSent {
		w.sent = w.sent[1:]
	}
	return p
}

// weighted picks one of the makers by weight.
func (w *world) weighted(makers []maker) fsm.Command {
	total := 0
	for _, k := range makers {
		total += k.weight
	}
	at := w.pick(total)
	for _, k := range makers {
		if at -= k.weight; at < 0 {
			return k.make()
		}
	}
	return w.tick()
}

type maker struct {
	weight int
	make   func() fsm.Command
}

func (w *world) command() fsm.Command {
	makers := []maker{
		{26, w.report},
		{26, w.say},
		{22, func() fsm.Command { return w.operator() }},
		{8, w.tick},
		{5, w.checkpoint},
		{4, w.cancel},
		{4, w.addTables},
		{3, w.dropTables},
		{3, w.admitMany},
		{3, w.decide},
		{3, w.feedCommand},
		{3, w.nodeCommand},
		{2, w.drain},
		{1, w.clusterCommand},
	}
	for _, name := range w.nodeNames() { // a world in which nobody can work is dull
		n := w.m.nodes[name]
		if (n == nil || n.ended()) && w.one(8) {
			return registerAs(name)
		}
		if n != nil && n.draining && w.one(12) {
			return &fsm.ClearDrain{Node: name}
		}
		if n != nil && n.status == fsm.NodeStatusFenced && w.one(8) {
			return &fsm.ExpireNode{Node: name, Incarnation: n.inc, ExpectTick: n.lastTick}
		}
	}
	if len(w.m.feeds) == 0 && w.one(3) {
		return w.createFeed()
	}
	for _, f := range inOrder(w.m.feeds) {
		if f.stopped() && w.one(8) {
			return w.resume(f.name)
		}
		if f.stopped() && !w.m.allAbsent(f) && w.one(6) {
			return &fsm.ResumeChangefeed{Name: f.name}
		}
		if f.stopped() && w.m.allAbsent(f) && w.one(6) {
			return w.update(f.name)
		}
		if !f.stopped() && len(w.m.tablesOf(f.id)) < 3 && w.one(10) {
			return w.addTables()
		}
	}
	for _, b := range w.openEvents() { // who writes is a good moment for trouble
		if b.status == fsm.BarrierInWriting && w.one(20*len(w.m.events)) {
			return w.trouble(w.m.feeds[b.key.Changefeed], w.m.dispatchers[b.writer])
		}
	}
	for _, op := range inOrder(w.m.operators) { // so is the time between two nodes
		if n := w.m.nodeOf(op.to); op.kind == fsm.OpMove && !op.moved && n != nil && w.one(20) {
			return &fsm.FenceNode{Node: n.name, Why: "it was to be given work"}
		}
	}
	return w.weighted(makers)
}

// trouble hits a changefeed while one of its dispatchers writes an event.
func (w *world) trouble(f *feed, writer *dispatcher) fsm.Command {
	name := w.m.nameOf(writer.inc)
	if writer.id == f.trigger && w.one(4) {
		return &fsm.RemoveChangefeed{Name: f.name}
	}
	switch w.pick(6) {
	case 0:
		return &fsm.RemoveChangefeed{Name: f.name}
	case 1:
		return &fsm.PauseChangefeed{Name: f.name}
	case 2:
		return &fsm.ExpireNode{Node: name, Incarnation: writer.inc, ExpectTick: w.m.nodes[name].lastTick}
	case 3:
		return &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: writer.id, FromAny: true, To: w.nodeName()}
	case 4:
		if ref := w.m.tables[writer.table].ref; ref.Name != "" {
			return &fsm.DropTables{Changefeed: f.name, Tables: []fsm.TableRef{ref}}
		}
		return &fsm.FenceNode{Node: name, Why: "it writes"}
	default:
		return &fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: writer.id}
	}
}

func nodeNamed(i int) fsm.NodeName { return fsm.NodeName(fmt.Sprintf("n%d", i+1)) }

func (w *world) nodeNames() []fsm.NodeName { return []fsm.NodeName{"n1", "n2", "n3"} }

// nodeName is rarely one that nobody knows.
func (w *world) nodeName() fsm.NodeName {
	if w.one(40) {
		return "n4"
	}
	return nodeNamed(w.pick(3))
}

func (w *world) feedName() string {
	if w.one(40) {
		return "f9"
	}
	if f := w.someFeed(); f.name != "" && !w.one(8) {
		return f.name
	}
	return fmt.Sprintf("f%d", 1+w.pick(2))
}

func (w *world) someFeed() *feed {
	all := inOrder(w.m.feeds)
	if len(all) == 0 {
		return &feed{id: 1}
	}
	return all[w.pick(len(all))]
}

func tableNamed(i int) fsm.TableRef {
	return fsm.TableRef{Schema: []string{"a", "b"}[i%2], Name: fmt.Sprintf("t%d", i+1)}
}

func (w *world) incOf(name fsm.NodeName) fsm.Incarnation {
	n := w.m.nodes[name]
	if n == nil {
		return w.m.incarnation
	}
	if w.one(15) {
		return n.inc - 1
	}
	return n.inc
}

// some is a dispatcher that fits, if there is one and the dice are kind, else anyone, or one that is not there.
func (w *world) some(fits func(d *dispatcher) bool) *dispatcher {
	var found []*dispatcher
	for _, d := range inOrder(w.m.dispatchers) {
		if fits(d) {
			found = append(found, d)
		}
	}
	if len(found) == 0 || w.one(6) {
		found = inOrder(w.m.dispatchers)
	}
	if len(found) == 0 || w.one(50) {
		return &dispatcher{id: w.m.lastDispatcher + 1, phase: fsm.Absent}
	}
	return found[w.pick(len(found))]
}

func registerAs(name fsm.NodeName) fsm.Command {
	return &fsm.RegisterNode{Node: name, LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1, BootID: "b"}
}

func (w *world) tick() fsm.Command {
	t := &fsm.Tick{ElapsedMS: uint32(w.pick(1300)), Base: 3<<36 + 1, Bits: make([]byte, 8)}
	for _, n := range w.m.nodes {
		silent := n.name == "n2" && t.ElapsedMS%3 == 0
		if i := uint64(n.inc - t.Base); i < 64 && !silent {
			t.Bits[i/8] |= 1 << (i % 8)
		}
	}
	if w.one(6) {
		t.Bits[w.pick(8)] |= 1 << w.pick(8)
	}
	return t
}

func (w *world) nodeCommand() fsm.Command {
	name := w.nodeName()
	inc := w.incOf(name)
	switch w.pick(5) {
	case 0:
		return &fsm.FenceNode{Node: name, Incarnation: inc * fsm.Incarnation(w.pick(2)), Why: "slow"}
	case 1:
		m := &fsm.Goodbye{Node: name, Incarnation: inc}
		for _, d := range inOrder(w.m.dispatchers) {
			if d.phase != fsm.Absent && d.inc == inc && !w.one(4) {
				m.Stopped = append(m.Stopped, w.reached(d, d.epoch))
			}
		}
		return m
	case 2:
		return registerAs(name)
	default:
		m := &fsm.ExpireNode{Node: name, Incarnation: inc}
		if n := w.m.nodes[name]; n != nil {
			m.ExpectTick = n.lastTick
		}
		if w.one(5) {
			m.ExpectTick--
		}
		return m
	}
}

func (w *world) drain() fsm.Command {
	name := w.nodeName()
	switch n := w.m.nodes[name]; {
	case n == nil || !n.draining || w.one(8):
		return &fsm.StartDrain{Node: name}
	case w.one(4):
		return &fsm.ClearDrain{Node: name}
	default:
		return &fsm.ConfirmDrain{Node: name, Incarnation: w.incOf(name)}
	}
}

func (w *world) clusterCommand() fsm.Command {
	switch w.pick(6) {
	case 0:
		return &fsm.BeginTerm{Server: "s1"}
	case 1:
		return &fsm.BeginGeneration{Generation: 4, Cluster: "small", Why: fsm.GenerationBootstrap}
	case 2:
		return &fsm.SetFeatureLevel{Level: uint32(w.pick(3))}
	case 3:
		return &fsm.AnnounceServer{Server: "s2", Address: "s2", HighestLevel: uint32(w.pick(2))}
	default:
		p := smallPolicy()
		p.MaxOperators = uint32(w.pick(2) * (4 + w.pick(4)))
		p.FailAfter = uint32(w.pick(7))
		return &fsm.SetPolicy{Policy: p}
	}
}

func (w *world) specs() []fsm.TableSpec {
	var specs []fsm.TableSpec
	for range 1 + w.pick(2) {
		ref := tableNamed(w.pick(4))
		for range 3 { // mostly one that is free
			if w.m.target(worldSink, ref) != nil {
				ref = tableNamed(w.pick(4))
			}
		}
		spec := fsm.TableSpec{Schema: ref.Schema, Name: ref.Name}
		switch w.pick(5) {
		case 0, 1:
			spec.SplitKeys = []string{"k"}
		case 2:
			spec.SplitKeys = []string{"g", "p"}
		}
		if w.one(30) {
			spec.SplitKeys = []string{"p", "g"}
		}
		specs = append(specs, spec)
	}
	return specs
}

func (w *world) createFeed() fsm.Command {
	return &fsm.CreateChangefeed{
		Name: fmt.Sprintf("f%d", 1+w.pick(2)), Source: "src", Sink: worldSink, SinkFenced: !w.one(30), Start: fsm.At(uint64(w.pick(3))),
		Tables: w.specs(), SyncPointEvery: uint64(w.pick(2)) * syncPoints,
	}
}

func (w *world) feedCommand() fsm.Command {
	switch name := w.feedName(); w.pick(10) {
	case 0, 1:
		return &fsm.PauseChangefeed{Name: name}
	case 2, 3:
		return w.resume(name)
	case 4:
		return w.update(name)
	case 5, 6:
		return &fsm.RemoveChangefeed{Name: name}
	default:
		return w.createFeed()
	}
}

func (w *world) update(name string) fsm.Command {
	m := &fsm.UpdateChangefeed{Name: name, HasSyncPoints: !w.one(3), SyncPointEvery: uint64(w.pick(3)) * syncPoints / 2}
	if w.one(2) {
		m.Source = "other"
	}
	return m
}

func (w *world) resume(name string) fsm.Command {
	m := &fsm.ResumeChangefeed{Name: name}
	if f := w.m.feedNamed(name); f != nil && w.one(3) {
		m.HasFrom, m.Force = true, !w.one(5)
		m.From = fsm.At(f.watermark.TS + 2 - min(f.watermark.TS+2, uint64(w.pick(15))))
	}
	return m
}

func (w *world) addTables() fsm.Command {
	m := &fsm.AddTables{Changefeed: w.feedName(), Tables: w.specs()}
	if w.one(3) {
		m.Start = fsm.At(uint64(w.pick(40)))
	}
	for _, t := range inOrder(w.m.tables) { // what is being dropped is soon added again
		if t.dropping && !t.trigger && w.one(2) {
			m.Tables = m.Tables[:1]
			m.Tables[0].Schema, m.Tables[0].Name = t.ref.Schema, t.ref.Name
		}
	}
	return m
}

func (w *world) dropTables() fsm.Command {
	m := &fsm.DropTables{Changefeed: w.feedName()}
	if f := w.m.feedNamed(m.Changefeed); f != nil {
		for _, t := range w.m.tablesOf(f.id) {
			if !t.trigger && (w.one(2) || len(m.Tables) == 0) {
				m.Tables = append(m.Tables, t.ref)
			}
		}
	}
	return m
}

func (w *world) operator() *fsm.AdmitOperator {
	m := w.sensible()
	if d := w.rare(); d != nil && w.one(3) {
		m = w.anything(d)
	}
	switch {
	case w.one(10):
		m.ExpectEpoch = fsm.Epoch(w.m.epoch) - fsm.Epoch(w.pick(6))
		if d := w.m.dispatchers[m.Dispatcher]; d != nil && w.one(2) {
			m.ExpectEpoch = d.epoch
		}
	case w.one(25):
		m.Dispatcher = w.m.lastDispatcher - fsm.DispatcherID(w.pick(8))
	case w.one(60):
		m.FromAny = !m.FromAny
	}
	return m
}

// rare is a dispatcher that stands where few do: in a Stop above all, in another operator that stops it, in a Merge, or
// held.
func (w *world) rare() *dispatcher {
	var found []*dispatcher
	for _, d := range inOrder(w.m.dispatchers) {
		op := w.m.operators[d.slot]
		switch {
		case op != nil && op.kind == fsm.OpStop && !w.m.feedOf(d).stopped():
			return d
		case op != nil && op.kind != fsm.OpRemove && (d.phase == fsm.Stopping || op.kind == fsm.OpMerge), w.m.held(d):
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[w.pick(len(found))]
}

// anything is whatever can be asked of a dispatcher.
func (w *world) anything(d *dispatcher) *fsm.AdmitOperator {
	switch w.pick(6) {
	case 0:
		return &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d.id, To: w.nodeName()}
	case 1:
		return &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: d.id, FromAny: true, To: w.nodeName()}
	case 2:
		return &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: d.id, To: w.nodeName()}
	case 3:
		return w.split(d)
	case 4:
		return w.merge(d)
	default:
		return &fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: d.id}
	}
}

// sensible is mostly what fits where a dispatcher stands.
func (w *world) sensible() *fsm.AdmitOperator {
	absent := w.some(func(d *dispatcher) bool { return d.phase == fsm.Absent && d.slot == 0 })
	running := w.some(func(d *dispatcher) bool { return d.phase == fsm.Running })
	rows := func(d *dispatcher) bool { return !w.m.tables[d.table].trigger }
	to := w.nodeName()
	switch w.pick(10) {
	case 0, 1, 2, 3:
		return &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: absent.id, To: to}
	case 4, 5:
		m := &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: running.id, From: w.m.nameOf(running.inc), To: to}
		if w.one(3) {
			m.From, m.FromAny = "", w.one(2)
		}
		return m
	case 6, 7:
		return w.split(w.some(func(d *dispatcher) bool { return rows(d) && d.phase == fsm.Running && d.slot == 0 }))
	case 8:
		return w.merge(w.some(func(d *dispatcher) bool { return rows(d) && d.slot == 0 && d.span.End != "" }))
	default:
		return &fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: w.some(func(d *dispatcher) bool { return rows(d) && (d.slot != 0 || w.one(3)) }).id}
	}
}

func (w *world) split(d *dispatcher) *fsm.AdmitOperator {
	m := &fsm.AdmitOperator{Op: fsm.OpSplit, Dispatcher: d.id}
	at := d.span.Start
	for _, key := range []string{"c", "g", "k", "p", "t"} {
		if (key > at && (d.span.End == "" || key < d.span.End) && w.one(2)) || w.one(60) {
			m.Spans = append(m.Spans, fsm.Span{Start: at, End: key})
			at = key
		}
	}
	m.Spans = append(m.Spans, fsm.Span{Start: at, End: d.span.End})
	if w.one(2) {
		for range m.Spans {
			m.Targets = append(m.Targets, []fsm.NodeName{"", w.nodeName(), w.nodeName()}[w.pick(3)])
		}
	}
	return m
}

func (w *world) merge(d *dispatcher) *fsm.AdmitOperator {
	m := &fsm.AdmitOperator{Op: fsm.OpMerge, Sources: []fsm.DispatcherID{d.id}}
	for _, other := range w.m.spansOf(d.table) {
		if d.span.End != "" && other.span.Start == d.span.End && (len(m.Sources) < 2 || w.one(2)) {
			m.Sources, d = append(m.Sources, other.id), other
		}
	}
	if len(m.Sources) < 2 || w.one(12) {
		m.Sources = append(m.Sources, w.some(func(d *dispatcher) bool { return d.slot == 0 && !w.m.tables[d.table].trigger }).id)
	}
	if w.one(2) {
		slices.Reverse(m.Sources)
	}
	return m
}

func (w *world) admitMany() fsm.Command {
	m := &fsm.AdmitMany{AllOrNothing: w.one(2)}
	for range w.pick(4) {
		m.Items = append(m.Items, *w.operator())
	}
	return m
}

func (w *world) cancel() fsm.Command {
	ids := slices.Sorted(maps.Keys(w.m.operators))
	if len(ids) == 0 || w.one(3) {
		return &fsm.CancelOperator{Op: fsm.OpID(w.m.epoch) - fsm.OpID(w.pick(16))}
	}
	return &fsm.CancelOperator{Op: ids[w.pick(len(ids))]}
}

func (w *world) reached(d *dispatcher, epoch fsm.Epoch) fsm.PlacementPosition {
	return fsm.PlacementPosition{
		Dispatcher: d.id, Epoch: epoch, HasPosition: !w.one(4),
		Position: fsm.Position{TS: d.at.TS + uint64(w.pick(16)) - min(d.at.TS, 3), Stage: fsm.Stage(w.pick(5))},
	}
}

// report is mostly what the owner has to say, in one of ten about an epoch that is over.
func (w *world) report() fsm.Command {
	due := func(d *dispatcher) bool { return d.phase == fsm.Starting || d.phase == fsm.Stopping }
	if !slices.ContainsFunc(inOrder(w.m.dispatchers), due) && !w.one(4) {
		return w.operator()
	}
	d := w.some(due)
	owner := w.m.nameOf(d.inc)
	if owner == "" || w.one(15) {
		owner = w.nodeName()
	}
	m := &fsm.ReportPlacements{Node: owner, Incarnation: w.incOf(owner), Reports: []fsm.PlacementReport{w.word(d)}}
	for _, other := range inOrder(w.m.dispatchers) {
		if other != d && other.inc == d.inc && other.phase != fsm.Running && other.inc != 0 && w.one(2) {
			m.Reports = append(m.Reports, w.word(other))
		}
	}
	return m
}

func (w *world) word(d *dispatcher) fsm.PlacementReport {
	epoch := d.epoch
	if w.one(12) {
		epoch = fsm.Epoch(w.m.epoch) - fsm.Epoch(w.pick(9))
	}
	r := fsm.PlacementReport{PlacementPosition: w.reached(d, epoch), What: fsm.ReportRunning}
	switch {
	case d.phase == fsm.Stopping && !w.one(8), w.one(12):
		r.What, r.Fatal = fsm.ReportStopped, w.one(60)
	case w.one(10):
		r.What, r.Reason, r.Fatal = fsm.ReportStartFailed, "NO_SINK", w.one(20)
	}
	return r
}

// source is the event at a ts: what it is follows from the ts, so that everybody reports the same.
func source(ts uint64) fsm.BarrierSpec {
	n := int(ts / spread)
	ref := tableNamed(n % 4)
	spec := fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{ref}, Statement: fmt.Sprintf("event %d", ts)}
	switch n % 10 {
	case 1:
		spec.Tables = append(spec.Tables, tableNamed((n+1)%4))
	case 2:
		spec.Drop = spec.Tables
	case 3, 8:
		spec.Add = []fsm.TableSpec{{Schema: "a", Name: []string{"t1", "t3"}[n%2], SplitKeys: []string{"k"}}}
	case 4:
		spec.Rename = []fsm.TableRename{{From: ref, To: tableNamed((n + 1) % 4)}}
	case 5:
		spec = fsm.BarrierSpec{Influence: fsm.InfluenceAll, Statement: spec.Statement}
	case 6:
		spec = fsm.BarrierSpec{Influence: fsm.InfluenceSchema, Schema: "a", Statement: spec.Statement}
	case 7:
		spec.Trigger = true
	}
	return spec
}

// nextEvent is the first one after the dispatcher's position that concerns it.
func (w *world) nextEvent(d *dispatcher) (key fsm.BarrierKey, spec fsm.BarrierSpec) {
	t := w.m.tables[d.table]
	f := w.m.feeds[t.feed]
	at := later(d.at, f.watermark)
	key = fsm.BarrierKey{Changefeed: f.id, Run: f.run}
	for ts := at.TS / spread * spread; ts <= at.TS+10*spread; ts += spread {
		key.At = fsm.Position{TS: ts, Stage: fsm.StageDDL}
		if spec = source(ts); before(at, key.At) && specConcerns(&spec, t) {
			return key, spec
		}
		key.At.Stage = fsm.StageSyncPoint
		if sync, ok := f.nextSync(at); ok && sync == key.At {
			return key, fsm.SyncPointSpec()
		}
	}
	return key, fsm.SyncPointSpec()
}

func (w *world) openEvents() []*event {
	var all []*event
	for _, f := range inOrder(w.m.feeds) {
		all = append(all, w.m.eventsOf(f.id)...)
	}
	return all
}

// say is mostly the word of an owner about the next event of its dispatcher, and of others on the same node.
func (w *world) say() fsm.Command {
	var wanted []*dispatcher
	for _, f := range inOrder(w.m.feeds) {
		for _, b := range w.m.eventsOf(f.id) {
			for _, d := range w.m.members(b) {
				if before(d.at, b.key.At) && d.phase == fsm.Running {
					wanted = append(wanted, d)
				}
			}
			if d := w.m.dispatchers[b.writer]; d != nil && b.heldBy(d) {
				wanted = append(wanted, d, d)
			}
		}
	}
	runs := func(d *dispatcher) bool { return d.phase == fsm.Running }
	if !slices.ContainsFunc(inOrder(w.m.dispatchers), runs) && !w.one(4) {
		return w.report()
	}
	d := w.some(runs)
	if len(wanted) > 0 && !w.one(3) {
		d = wanted[w.pick(len(wanted))]
	}
	owner := w.m.nameOf(d.inc)
	if owner == "" || w.one(25) {
		owner = w.nodeName()
	}
	m := &fsm.ReportBarrier{Node: owner, Incarnation: w.incOf(owner)}
	if w.m.tables[d.table] == nil {
		return m
	}
	m.Reports = append(m.Reports, w.sayOf(d))
	for _, other := range inOrder(w.m.dispatchers) {
		if other != d && other.inc == d.inc && other.phase == fsm.Running && w.one(2) {
			m.Reports = append(m.Reports, w.sayOf(other))
		}
	}
	if w.one(6) {
		m.Reports = append(m.Reports, w.sayOfAll(d, m.Incarnation))
	}
	return m
}

func (w *world) sayOf(d *dispatcher) fsm.BarrierReport {
	r := fsm.BarrierReport{What: fsm.SaidWaiting, Pairs: []fsm.Pair{{Dispatcher: d.id, Epoch: d.epoch}}}
	r.Key, r.Spec = w.nextEvent(d)
	f := w.m.feedOf(d)
	if d.id == f.trigger {
		r.Earlier = later(d.at, f.chain)
		if before(d.at, r.Earlier) {
			r.Earlier = d.at
		}
	}
	for _, b := range w.m.eventsOf(f.id) {
		if b.heldBy(d) || (b.key == r.Key && b.status == fsm.BarrierPassing) {
			r.Key, r.Spec, r.Permission, r.What = b.key, b.spec, b.permission, fsm.SaidPassed
			if b.heldBy(d) {
				r.What = []fsm.BarrierSaid{fsm.SaidWritten, fsm.SaidWritten, fsm.SaidWritten, fsm.SaidUnknown, fsm.SaidNotBegun}[w.pick(5)]
			}
			break
		}
	}
	return w.spoiled(r)
}

// spoiled is, in one of six, a report out of time or place.
func (w *world) spoiled(r fsm.BarrierReport) fsm.BarrierReport {
	if !w.one(6) {
		return r
	}
	switch w.pick(9) {
	case 0:
		r.What = fsm.BarrierSaid(1 + w.pick(6))
	case 1:
		r.Key.Run--
	case 2:
		r.Key.At.TS += spread * uint64(1+w.pick(2))
		r.Spec = source(r.Key.At.TS)
	case 3:
		r.Key.At.Stage = fsm.Stage(w.pick(4))
	case 4:
		r.Spec.Statement += "?"
	case 5:
		r.Permission--
	case 6:
		r.Earlier.TS += uint64(w.pick(12))
	case 7:
		for i := range r.Pairs {
			r.Pairs[i].Epoch -= fsm.Epoch(1 + w.pick(3))
		}
	case 8:
		r.Spec.Drop = []fsm.TableRef{tableNamed(w.pick(4))}
	}
	return r
}

func (w *world) sayOfAll(d *dispatcher, inc fsm.Incarnation) fsm.BarrierReport {
	r := w.sayOf(d)
	r.Pairs, r.All = nil, true
	_, r.SetHash = w.m.setHash(r.Key.Changefeed, inc)
	r.SetHash += uint64(w.pick(9) / 8)
	for _, other := range inOrder(w.m.dispatchers) {
		if w.one(8) {
			r.Except = append(r.Except, other.id)
		}
	}
	return r
}

func (w *world) decide() fsm.Command {
	c := &fsm.DecideBarrier{Decision: fsm.BarrierDecision(1 + w.pick(3))}
	if len(w.m.events) == 0 && !w.one(5) {
		return w.say()
	}
	f := w.someFeed()
	c.Key = fsm.BarrierKey{Changefeed: f.id, Run: f.run, At: f.chain}
	for _, b := range w.m.eventsOf(f.id) {
		c.Key, c.Permission = b.key, b.permission
		if b.status == fsm.BarrierUndecided || w.one(3) {
			break
		}
	}
	if w.one(12) {
		c.Permission++
	}
	return c
}

// checkpoint asks mostly for as much as it will get.
func (w *world) checkpoint() fsm.Command {
	f := w.someFeed()
	c := &fsm.AdvanceCheckpoint{Changefeed: f.id, Run: f.run, To: fsm.At(f.watermark.TS + uint64(w.pick(12)))}
	least := c.To
	for _, d := range w.m.dispatchersOf(f.id) {
		if !d.hasRun && before(d.at, c.To) && !w.one(9) {
			c.To = d.at
		}
	}
	for _, b := range w.m.eventsOf(f.id) {
		if before(reached(b.key), c.To) && !w.one(9) {
			c.To = reached(b.key)
		}
	}
	var incs []fsm.Incarnation
	for _, d := range w.m.dispatchersOf(f.id) {
		if d.hasRun && !slices.Contains(incs, d.inc) && !w.one(30) {
			incs = append(incs, d.inc)
		}
	}
	slices.Sort(incs)
	for _, inc := range incs {
		_, sum := w.m.setHash(f.id, inc)
		c.Nodes = append(c.Nodes, fsm.NodeMinimum{Incarnation: inc, SetHash: sum + uint64(w.pick(25)/24), Minimum: least})
		if w.one(20) {
			c.Nodes[len(c.Nodes)-1].Minimum.TS -= min(least.TS, 4)
		}
	}
	if w.one(25) {
		c.Run--
	}
	return c
}
