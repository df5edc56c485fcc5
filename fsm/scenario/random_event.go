package scenario

import (
	"slices"

	"github.com/weir-project/weir/fsm"
)

// What a random log says of events.

// eventStep is how far apart the events of a random source are: its schema changes stand at the multiples, and what each
// of them is follows from its ts, so that all reporters give the same spec.
const eventStep = 5

// say is mostly the word of an owner about the next event that concerns its dispatcher, or about one that is open.
func (l *RandomLog) say() fsm.Command {
	row := l.eventDispatcher()
	owner, ok := l.state.NodeOf(row.Incarnation)
	if !ok || l.pick(25) == 0 {
		owner.Name = l.nodeName()
		owner.Incarnation = l.incarnation(owner.Name)
	}
	m := &fsm.ReportBarrier{Node: owner.Name, Incarnation: owner.Incarnation}
	m.Reports = append(m.Reports, l.sayOf(row))
	for other := range l.state.DispatchersOn(owner.Incarnation) {
		if other.ID != row.ID && l.pick(3) == 0 {
			m.Reports = append(m.Reports, l.sayOf(other))
		}
	}
	if l.pick(6) == 0 {
		m.Reports = append(m.Reports, l.sayOfAll(row, owner.Incarnation))
	}
	return m
}

// eventDispatcher is, in half of the cases, one that an open event waits for.
func (l *RandomLog) eventDispatcher() fsm.Dispatcher {
	var wanted []fsm.Dispatcher
	for feed := range l.state.Changefeeds() {
		for b := range l.state.Barriers(feed.ID) {
			if row, ok := l.state.Dispatcher(b.Writer); ok && b.Status == fsm.BarrierInWriting {
				wanted = append(wanted, row)
			}
			for row := range l.state.BarrierMissing(b) {
				wanted = append(wanted, row)
			}
		}
	}
	if len(wanted) == 0 || l.pick(2) == 0 {
		return l.someDispatcher()
	}
	return wanted[l.pick(len(wanted))]
}

// sayOf is one placement's word.
func (l *RandomLog) sayOf(row fsm.Dispatcher) fsm.BarrierReport {
	t, _ := l.state.Table(row.Table)
	feed, _ := l.state.ChangefeedByID(t.Changefeed)
	r := fsm.BarrierReport{What: fsm.SaidWaiting, Pairs: []fsm.Pair{{Dispatcher: row.ID, Epoch: row.Epoch}}}
	if l.pick(25) == 0 {
		r.Pairs[0].Epoch--
	}
	r.Key, r.Spec = l.nextEvent(feed, t, row)
	if t.Trigger {
		r.Earlier = row.Position
		if l.pick(12) == 0 {
			r.Earlier.TS += uint64(l.pick(9))
		}
	}
	if b, open := l.state.Barrier(r.Key); open {
		l.sayOfOpen(&r, b, row)
	}
	if l.pick(30) == 0 {
		r.What = fsm.BarrierSaid(1 + l.pick(6))
	}
	if l.pick(40) == 0 {
		r.Key.Run--
	}
	return r
}

// sayOfOpen lets the holder write, and those that may pass.
func (l *RandomLog) sayOfOpen(r *fsm.BarrierReport, b fsm.Barrier, row fsm.Dispatcher) {
	r.Permission = b.Permission
	if l.pick(12) > 0 {
		r.Spec = b.Spec
	} else {
		r.Spec.Statement += " by another version"
	}
	switch {
	case b.Status == fsm.BarrierPassing:
		r.What = fsm.SaidPassed
	case b.Status == fsm.BarrierInWriting && b.Writer == row.ID:
		r.What = []fsm.BarrierSaid{fsm.SaidWritten, fsm.SaidWritten, fsm.SaidWritten, fsm.SaidNotBegun, fsm.SaidUnknown}[l.pick(5)]
		r.Permission -= uint64(l.pick(20) / 19)
	}
}

// nextEvent is the first event after the dispatcher's position that concerns it: an open one, or the next of the source.
func (l *RandomLog) nextEvent(feed fsm.Changefeed, t fsm.Table, row fsm.Dispatcher) (fsm.BarrierKey, fsm.BarrierSpec) {
	for b := range l.state.Barriers(feed.ID) {
		if l.concerns(b.Spec, t) && row.Position.Less(b.Key.At) {
			return b.Key, b.Spec
		}
	}
	key := fsm.BarrierKey{Changefeed: feed.ID, Run: feed.Run}
	ts := (row.Position.Max(feed.Watermark).TS/eventStep + uint64(l.pick(8)/7)) * eventStep
	for range 2 * 8 { // the schema changes begin anew after eight
		key.At = fsm.Position{TS: ts, Stage: fsm.StageDDL}
		if spec := l.eventAt(ts); row.Position.Less(key.At) && l.concerns(spec, t) {
			return key, spec
		}
		key.At.Stage = fsm.StageSyncPoint
		if feed.SyncPointEvery != 0 && ts%feed.SyncPointEvery == 0 && row.Position.Less(key.At) {
			return key, fsm.SyncPointSpec()
		}
		ts += eventStep
	}
	return key, l.eventAt(ts)
}

// concerns says the same as the state machine's rule, which is its own.
func (l *RandomLog) concerns(spec fsm.BarrierSpec, t fsm.Table) bool {
	if t.Trigger {
		return spec.TriggerTakesPart()
	}
	if slices.Contains(spec.Tables, fsm.TableRef{Schema: t.Schema, Name: t.Name}) {
		return true
	}
	return spec.Influence == fsm.InfluenceAll || (spec.Influence == fsm.InfluenceSchema && spec.Schema == t.Schema)
}

// eventAt is the schema change of the source at a ts.
func (l *RandomLog) eventAt(ts uint64) fsm.BarrierSpec {
	n := ts / eventStep
	name := func(i uint64) fsm.TableRef {
		return fsm.TableRef{Schema: "public", Name: "t" + string(rune('1'+i%randomTables))}
	}
	spec := fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{name(n)}}
	switch n % 8 {
	case 0:
		spec = fsm.BarrierSpec{Influence: fsm.InfluenceSchema, Schema: "public"}
	case 1:
		spec = fsm.BarrierSpec{Influence: fsm.InfluenceTables, Add: []fsm.TableSpec{{Schema: "public", Name: name(n / 8).Name, SplitKeys: []string{"k"}}}}
	case 3:
		spec.Rename = []fsm.TableRename{{From: name(n), To: name(n + 1)}}
	case 5:
		spec.Drop = spec.Tables
	case 6:
		spec.Tables = append(spec.Tables, name(n+1))
	case 7:
		spec.Trigger = true
	}
	spec.Statement = "change " + key(ts)
	return spec
}

func key(ts uint64) string { return keyWord(fsm.Position{TS: ts, Stage: fsm.StageDDL}) }

// sayOfAll speaks for all that the node runs of a changefeed.
func (l *RandomLog) sayOfAll(row fsm.Dispatcher, inc fsm.Incarnation) fsm.BarrierReport {
	r := l.sayOf(row)
	r.Pairs, r.All = nil, true
	_, r.SetHash = l.state.Crew(r.Key.Changefeed, inc)
	r.SetHash += uint64(l.pick(10) / 9)
	for other := range l.state.DispatchersOn(inc) {
		if l.pick(6) == 0 {
			r.Except = append(r.Except, other.ID)
		}
	}
	return r
}

// decide is mostly about an event that needs it.
func (l *RandomLog) decide() fsm.Command {
	m := &fsm.DecideBarrier{Decision: fsm.BarrierDecision(1 + l.pick(3))}
	for feed := range l.state.Changefeeds() {
		for b := range l.state.Barriers(feed.ID) {
			if m.Key.Changefeed == 0 || b.Status == fsm.BarrierUndecided || l.pick(3) == 0 {
				m.Key, m.Permission = b.Key, b.Permission
			}
			if b.Status == fsm.BarrierUndecided {
				return m
			}
		}
	}
	m.Permission -= min(m.Permission, uint64(l.pick(20)/19))
	return m
}
