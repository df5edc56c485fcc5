package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// The visible state of the state machine, in the model's words.

func nodeRow(n fsm.Node) node {
	return node{
		name: n.Name, inc: n.Incarnation, status: n.Status, lastTick: n.LastTick, draining: n.Draining, confirmed: n.DrainedAt != 0,
	}
}

func feedRow(f fsm.Changefeed) feed {
	return feed{
		id: f.ID, name: f.Name, sink: f.Sink, source: f.Source, status: f.Status, run: f.Run, every: f.SyncPointEvery,
		after: f.SyncPointAfter, watermark: f.Watermark, chain: f.Chain, granted: f.Granted, trigger: f.Trigger, failedBy: f.FailedBy,
	}
}

func tableRow(t fsm.Table) table {
	return table{id: t.ID, feed: t.Changefeed, ref: fsm.TableRef{Schema: t.Schema, Name: t.Name}, trigger: t.Trigger, dropping: t.Dropping}
}

func dispatcherRow(d fsm.Dispatcher) dispatcher {
	return dispatcher{
		id: d.ID, table: d.Table, span: d.Span, at: d.Position, phase: d.Phase, waits: d.Waits, leaving: d.Leaving,
		hasRun: d.HasRun, inc: d.Incarnation, epoch: d.Epoch, slot: d.Slot, phaseMS: d.PhaseMS, failures: d.Failures,
	}
}

func operatorRow(o fsm.Operator) operator {
	row := operator{
		id: o.ID, kind: o.Kind, dispatcher: o.Dispatcher, to: o.ToIncarnation, moved: o.Moved, aborting: o.Aborting, drop: o.Drop,
		stuck: o.StuckAt != 0, abortResult: o.AbortResult, result: o.Result, replacedBy: o.ReplacedBy, deadline: o.DeadlineMS,
		ended: o.Ended, spans: o.Spans, sources: o.Sources, made: o.Made,
	}
	for _, t := range o.Targets {
		row.targets = append(row.targets, t.Incarnation)
	}
	return row
}

func eventRow(b fsm.Barrier) event {
	return event{
		key: b.Key, spec: b.Spec, status: b.Status, result: b.Result, triggerSaid: b.TriggerSaid, permission: b.Permission,
		writer: b.Writer, writerEpoch: b.WriterEpoch, notBegun: b.NotBegun, unknown: b.Unknown, stuck: b.StuckAt != 0,
		deadline: b.DeadlineMS,
	}
}

// differ compares the model's rows with those of the state machine.
func differ[K comparable, R any](what string, want map[K]*R, have map[K]R) error {
	for k, w := range want {
		h, ok := have[k]
		if !ok {
			return fmt.Errorf("%s %v is not there: want %+v", what, k, *w)
		}
		if !reflect.DeepEqual(*w, h) {
			return fmt.Errorf("%s %v:\nhave %+v\nwant %+v", what, k, h, *w)
		}
	}
	for k, h := range have {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("%s %v should not be there: %+v", what, k, h)
		}
	}
	return nil
}

// compare says where the state machine is not where the model is.
func (m *model) compare(s *fsm.State) error {
	nodes, feeds, tables := map[fsm.NodeName]node{}, map[fsm.ChangefeedID]feed{}, map[fsm.TableID]table{}
	events := map[fsm.BarrierKey]event{}
	for n := range s.Nodes() {
		nodes[n.Name] = nodeRow(n)
	}
	for f := range s.Changefeeds() {
		feeds[f.ID] = feedRow(f)
		for t := range s.Tables(f.ID) {
			tables[t.ID] = tableRow(t)
		}
		for b := range s.Barriers(f.ID) {
			events[b.Key] = eventRow(b)
		}
	}
	dispatchers, running, finished := map[fsm.DispatcherID]dispatcher{}, map[fsm.OpID]operator{}, map[fsm.OpID]operator{}
	for d := range s.Dispatchers() {
		dispatchers[d.ID] = dispatcherRow(d)
	}
	for o := range s.Operators() {
		running[o.ID] = operatorRow(o)
	}
	for o := range s.FinishedOperators() {
		finished[o.ID] = operatorRow(o)
	}
	for _, err := range []error{
		differ("node", m.nodes, nodes), differ("changefeed", m.feeds, feeds), differ("table", m.tables, tables),
		differ("dispatcher", m.dispatchers, dispatchers), differ("running operator", m.operators, running),
		differ("finished operator", m.finished, finished), differ("open event", m.events, events),
		m.compareRecords(s), m.compareNumbers(s), m.compareDerived(s),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// compareRecords follows what the state machine forgets of ended events, if it may: too many are remembered, and nobody
// can ask about this one any more, since it is not above the watermark of its run, or its run is over.
func (m *model) compareRecords(s *fsm.State) error {
	records := map[fsm.BarrierKey]event{}
	for b := range s.BarrierRecords() {
		records[b.Key] = eventRow(b)
	}
	for _, key := range slices.Collect(maps.Keys(m.records)) {
		if _, kept := records[key]; kept {
			continue
		}
		f := m.feeds[key.Changefeed]
		if f != nil && f.run == key.Run && before(f.watermark, key.At) {
			return fmt.Errorf("the record of %v was forgotten above the watermark %v", key, f.watermark)
		}
		if len(m.records) <= int(m.policy.KeepBarriers) {
			return fmt.Errorf("the record of %v was forgotten, one of %d", key, len(m.records))
		}
		delete(m.records, key)
	}
	return differ("ended event", m.records, records)
}

func (m *model) compareNumbers(s *fsm.State) error {
	type numbers struct {
		level, servers                                         int
		index, term, timeMS, floorMS, epoch, inc, d, f, t, run uint64
	}
	meta := s.Meta()
	have := numbers{
		int(meta.Level), 0, meta.Index, meta.Term, meta.TimeMS, meta.RequestFloorMS, uint64(meta.LastEpoch), uint64(meta.LastIncarnation),
		uint64(meta.LastDispatcher), uint64(meta.LastChangefeed), uint64(meta.LastTable), meta.LastRun,
	}
	for range s.Servers() {
		have.servers++
	}
	want := numbers{
		int(m.level), len(m.servers), m.index, m.term, m.timeMS, m.floorMS, m.epoch, uint64(m.incarnation),
		uint64(m.lastDispatcher), uint64(m.lastFeed), uint64(m.lastTable), m.lastRun,
	}
	if have != want {
		return fmt.Errorf("numbers: have %+v, want %+v", have, want)
	}
	for _, r := range m.requests {
		kept, ok := s.Request(r.id)
		if !ok || kept.TimeMS != r.timeMS || kept.KeptMS != r.kept || kept.Verdict.Reason != r.answer.reason {
			return fmt.Errorf("request %q: have %+v, want %+v", r.id, kept, r)
		}
	}
	return nil
}

// compareDerived looks at what follows from rows: orders, who is missing at an event, set hashes, held ranges.
func (m *model) compareDerived(s *fsm.State) error {
	for _, n := range m.nodes {
		if err := m.compareOrders(s, n); err != nil {
			return err
		}
	}
	for _, b := range m.events {
		var missing, want []fsm.DispatcherID
		goal := reached(b.key)
		if b.status == fsm.BarrierPassing {
			goal = b.key.At
		}
		for _, d := range m.members(b) {
			if before(d.at, goal) {
				want = append(want, d.id)
			}
		}
		row, _ := s.Barrier(b.key)
		for d := range s.BarrierMissing(row) {
			missing = append(missing, d.ID)
		}
		if !slices.Equal(missing, want) {
			return fmt.Errorf("missing at %v: have %v, want %v", b.key, missing, want)
		}
	}
	for _, d := range m.dispatchers {
		row, _ := s.Dispatcher(d.id)
		if _, held := s.HeldBy(row); d.phase == fsm.Absent && d.slot == 0 && held != m.held(d) {
			return fmt.Errorf("dispatcher %d is held: have %t, want %t", d.id, held, m.held(d))
		}
	}
	return nil
}

func (m *model) compareOrders(s *fsm.State, n *node) error {
	have, want := map[fsm.DispatcherID]fsm.Order{}, map[fsm.DispatcherID]*fsm.Order{}
	for o := range s.Orders(n.inc) {
		have[o.Dispatcher] = o
	}
	for _, d := range m.dispatchers {
		if d.inc != n.inc || (d.phase != fsm.Starting && d.phase != fsm.Stopping) {
			continue
		}
		o := &fsm.Order{Kind: fsm.OrderStop, Dispatcher: d.id, Epoch: d.epoch, Operator: d.slot}
		if d.phase == fsm.Starting {
			f, t := m.feedOf(d), m.tables[d.table]
			o.Kind = fsm.OrderStart
			got := have[d.id].Work // what the model keeps nothing of is taken as it is
			o.Work = fsm.Work{
				Changefeed: f.name, ChangefeedID: f.id, Run: f.run, Trigger: t.trigger, SyncPointEvery: f.every, SyncPointAfter: f.after,
				Source: f.source, Sink: f.sink, SinkFenced: got.SinkFenced, SinkMaxWriteMS: got.SinkMaxWriteMS,
				Schema: t.ref.Schema, Table: t.ref.Name, TableID: t.id, Span: d.span, Start: d.at,
			}
		}
		want[d.id] = o
	}
	if err := differ("order of "+string(n.name)+" for", want, have); err != nil {
		return err
	}
	for id := range m.feeds {
		count, sum := m.setHash(id, n.inc)
		if set, hash := s.Crew(id, n.inc); int(set) != count || hash != sum {
			return fmt.Errorf("set of %s: have %d %x, want %d %x", n.name, set, hash, count, sum)
		}
	}
	return m.compareEventOrders(s, n)
}

// compareEventOrders: the holder of a live permission writes, and what waits at a written event passes.
func (m *model) compareEventOrders(s *fsm.State, n *node) error {
	type todo struct {
		key    fsm.BarrierKey
		action fsm.BarrierAction
		pair   fsm.Pair
		number uint64
	}
	have, want := map[todo]bool{}, map[todo]bool{}
	for o := range s.BarrierOrders(n.inc) {
		for _, p := range o.Pairs {
			have[todo{o.Key, o.Action, p, o.Permission}] = true
		}
	}
	for _, b := range m.events {
		for _, d := range m.dispatchersOf(b.key.Changefeed) {
			switch pair := (fsm.Pair{Dispatcher: d.id, Epoch: d.epoch}); {
			case d.phase == fsm.Absent || d.inc != n.inc:
			case b.heldBy(d):
				want[todo{b.key, fsm.ActionWrite, pair, b.permission}] = true
			case b.status == fsm.BarrierPassing && d.phase == fsm.Running && d.waits && d.at == reached(b.key):
				want[todo{b.key, fsm.ActionPass, pair, 0}] = true
			}
		}
	}
	if !maps.Equal(have, want) {
		return fmt.Errorf("event orders of %s:\nhave %v\nwant %v", n.name, have, want)
	}
	return nil
}

// sameAnswer compares a verdict with the model's.
func sameAnswer(v fsm.Verdict, a answer) error {
	switch {
	case v.Reason != a.reason:
		return fmt.Errorf("have %s (%+v), want %s", v.Reason, v.Facts, a.reason)
	case v.Index != a.index || v.Replayed != a.replayed:
		return fmt.Errorf("have entry %d replayed %t, want %d %t", v.Index, v.Replayed, a.index, a.replayed)
	case !slices.Equal(v.RefusedNames, a.refused):
		return fmt.Errorf("refused names: have %v, want %v", v.RefusedNames, a.refused)
	case !slices.Equal(v.Reports, a.reports):
		return fmt.Errorf("reports: have %v, want %v", v.Reports, a.reports)
	case len(v.Items) != len(a.items):
		return fmt.Errorf("items: have %d, want %d", len(v.Items), len(a.items))
	}
	if err := sameFacts(v.Facts, a); err != nil {
		return err
	}
	for i, item := range v.Items {
		if item.Reason != a.items[i].reason {
			return fmt.Errorf("item %d: have %s, want %s", i, item.Reason, a.items[i].reason)
		}
		if err := sameFacts(item.Facts, a.items[i]); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// sameFacts: whoever was admitted or stands in the way is named.
func sameFacts(f fsm.Facts, a answer) error {
	switch {
	case a.operator != 0 && f.Operator != a.operator:
		return fmt.Errorf("operator in the facts: have %s, want %s", f.Operator, a.operator)
	case a.owner != "" && (f.Node != a.owner || f.Epoch != a.epoch):
		return fmt.Errorf("owner in the facts: have %s %s, want %s %s", f.Node, f.Epoch, a.owner, a.epoch)
	case a.reason == fsm.Accepted && a.epoch != 0 && f.Epoch != a.epoch:
		return fmt.Errorf("epoch in the facts: have %s, want %s", f.Epoch, a.epoch)
	default:
		return nil
	}
}
