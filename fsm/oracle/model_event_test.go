package oracle

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// eventsOf lists the open events of a changefeed, in key order.
func (m *model) eventsOf(id fsm.ChangefeedID) []*event {
	var out []*event
	for _, b := range m.events {
		if b.key.Changefeed == id {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *event) int {
		return cmp.Or(cmp.Compare(a.key.At.TS, b.key.At.TS), cmp.Compare(a.key.At.Stage, b.key.At.Stage))
	})
	return out
}

// withTrigger: what changes the schedule, or concerns more than listed tables.
func withTrigger(s *fsm.BarrierSpec) bool {
	return s.Trigger || len(s.Drop) > 0 || len(s.Add) > 0 || len(s.Rename) > 0 || s.Influence != fsm.InfluenceTables
}

func specConcerns(s *fsm.BarrierSpec, t *table) bool {
	switch {
	case t.trigger:
		return withTrigger(s)
	case s.Influence == fsm.InfluenceTables:
		return slices.Contains(s.Tables, t.ref)
	case s.Influence == fsm.InfluenceSchema:
		return t.ref.Schema == s.Schema
	default:
		return true
	}
}

func (m *model) concerns(b *event, d *dispatcher) bool {
	return specConcerns(&b.spec, m.tables[d.table])
}

// sameSpec compares as if there were no difference between no list and an empty one.
func sameSpec(a, b fsm.BarrierSpec) bool {
	for _, s := range []*fsm.BarrierSpec{&a, &b} {
		if len(s.Tables) == 0 {
			s.Tables = nil
		}
		if len(s.Drop) == 0 {
			s.Drop = nil
		}
		if len(s.Add) == 0 {
			s.Add = nil
		}
		if len(s.Rename) == 0 {
			s.Rename = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// badSpec says whether nobody could mean such an event.
func badSpec(r *fsm.BarrierReport) bool {
	s := &r.Spec
	if r.Key.At.Stage == fsm.StageSyncPoint && !sameSpec(*s, fsm.BarrierSpec{Influence: fsm.InfluenceAll}) {
		return true
	}
	if s.Influence < fsm.InfluenceTables || s.Influence > fsm.InfluenceAll {
		return true
	}
	leaving := slices.Clone(s.Drop)
	for _, rename := range s.Rename {
		leaving = append(leaving, rename.From)
	}
	for _, ref := range leaving {
		if !specConcerns(s, &table{ref: ref}) {
			return true
		}
	}
	for i := range s.Add {
		if !wellFormed(s.Add, i) {
			return true
		}
	}
	return false
}

func (b *event) heldBy(d *dispatcher) bool {
	return b.status == fsm.BarrierInWriting && b.writer == d.id && b.writerEpoch == d.epoch
}

// writes: the dispatcher's placement holds a live write permission.
func (m *model) writes(d *dispatcher) bool {
	for _, b := range m.events {
		if b.heldBy(d) {
			return true
		}
	}
	return false
}

func (m *model) reportBarrier(c *fsm.ReportBarrier) answer {
	n, a := m.current(c.Node, c.Incarnation)
	if n == nil {
		return a
	}
	for i := range c.Reports {
		r := &c.Reports[i]
		if r.All {
			a.reports = append(a.reports, m.saidByAll(n, r))
			continue
		}
		for _, p := range r.Pairs {
			a.reports = append(a.reports, m.said(m.placed(p.Dispatcher, n.inc, p.Epoch), r))
		}
	}
	return a
}

// setHash is what a node's heartbeat names: it is taken over what has been running there.
func (m *model) setHash(f fsm.ChangefeedID, inc fsm.Incarnation) (count int, sum uint64) {
	for _, d := range m.dispatchersOf(f) {
		if d.hasRun && d.inc == inc {
			count++
			sum += fsm.PairHash(d.id, d.epoch)
		}
	}
	return count, sum
}

func (m *model) saidByAll(n *node, r *fsm.BarrierReport) fsm.Reason {
	f := m.feeds[r.Key.Changefeed]
	if f == nil || (r.What != fsm.SaidWaiting && r.What != fsm.SaidPassed) {
		return fsm.BarrierForget
	}
	if _, sum := m.setHash(f.id, n.inc); sum != r.SetHash {
		return fsm.SetMismatch
	}
	spec := &r.Spec
	if b := cmp.Or(m.events[r.Key], m.records[r.Key]); b != nil {
		spec = &b.spec
	}
	answer := fsm.ReportInert
	for _, d := range inOrder(m.dispatchers) {
		meant := d.hasRun && d.inc == n.inc && m.feedOf(d) == f && d.id != f.trigger && !slices.Contains(r.Except, d.id)
		if !meant || !specConcerns(spec, m.tables[d.table]) {
			continue
		}
		// Of several answers the last one that asks for something, then that it counted.
		switch got := m.said(d, r); {
		case got == fsm.ReportInert:
		case got != fsm.ReportCounted || answer == fsm.ReportInert:
			answer = got
		}
	}
	return answer
}

func (m *model) said(d *dispatcher, r *fsm.BarrierReport) fsm.Reason {
	if d == nil {
		return fsm.ReportStale
	}
	f, key := m.feedOf(d), r.Key
	if f.id != key.Changefeed || f.run != key.Run {
		return fsm.BarrierForget
	}
	if key.At.Stage == fsm.StageSyncPoint {
		if f.every == 0 || key.At.TS == 0 || key.At.TS%f.every != 0 || !before(f.after, key.At) {
			return fsm.Malformed
		}
	} else if key.At.Stage != fsm.StageDDL {
		return fsm.Malformed
	}
	switch r.What {
	case fsm.SaidWaiting:
		return m.saidWaiting(f, d, r)
	case fsm.SaidPassed:
		return m.saidPassed(d, r)
	case fsm.SaidWritten, fsm.SaidNotBegun, fsm.SaidUnknown:
		return m.saidByHolder(d, r)
	default:
		return fsm.Malformed
	}
}

func (m *model) saidWaiting(f *feed, d *dispatcher, r *fsm.BarrierReport) fsm.Reason {
	key, b := r.Key, m.events[r.Key]
	switch {
	case d.phase == fsm.Starting:
		return fsm.BarrierRetry
	case d.phase == fsm.Stopping:
		return fsm.ReportInert
	case !before(d.at, key.At), m.records[key] != nil, !before(f.watermark, key.At):
		return fsm.BarrierPass
	case b != nil && !sameSpec(b.spec, r.Spec):
		return fsm.SpecMismatch
	case b == nil && badSpec(r), !specConcerns(&r.Spec, m.tables[d.table]):
		return fsm.Malformed
	case m.leftOut(f, d, r, b):
		return fsm.EarlierEventOpen
	case b != nil && d.waits && d.at == reached(key):
		return fsm.ReportInert
	}
	if b == nil {
		b = &event{key: key, spec: r.Spec, status: fsm.BarrierCollecting, deadline: m.timeMS + m.policy.BarrierDeadlineMS}
		m.events[key] = b
	}
	if d.id == f.trigger {
		b.triggerSaid = true
		f.chain = later(f.chain, key.At)
	}
	d.at, d.waits = later(d.at, reached(key)), true
	return fsm.ReportCounted
}

// leftOut: an earlier event has to be over for the dispatcher, sync points that nobody has opened included; and the
// trigger tells of its events one after the other.
func (m *model) leftOut(f *feed, d *dispatcher, r *fsm.BarrierReport, b *event) bool {
	for _, other := range m.eventsOf(f.id) {
		if before(other.key.At, r.Key.At) && m.concerns(other, d) && before(d.at, other.key.At) {
			return true
		}
	}
	if next, ok := f.nextSync(d.at); ok && before(next, r.Key.At) {
		return true
	}
	if d.id != f.trigger || (b != nil && b.triggerSaid) {
		return false
	}
	return before(r.Earlier, f.chain) || before(d.at, r.Earlier) || !before(f.chain, r.Key.At)
}

func (m *model) saidPassed(d *dispatcher, r *fsm.BarrierReport) fsm.Reason {
	b := cmp.Or(m.events[r.Key], m.records[r.Key])
	switch {
	case !before(d.at, r.Key.At):
		return fsm.ReportInert
	case b == nil:
		return fsm.BarrierForget
	case b.status != fsm.BarrierPassing && b.status != fsm.BarrierEnded:
		return fsm.BarrierUnwritten
	case !m.concerns(b, d):
		return fsm.Malformed
	}
	d.at, d.waits = r.Key.At, false
	return fsm.ReportCounted
}

func (m *model) saidByHolder(d *dispatcher, r *fsm.BarrierReport) fsm.Reason {
	b := m.events[r.Key]
	switch {
	case m.records[r.Key] != nil, b != nil && b.status == fsm.BarrierPassing:
		return fsm.ReportInert
	case b == nil:
		return fsm.BarrierForget
	case !b.heldBy(d) || r.Permission != b.permission:
		return fsm.StalePermission
	case r.What == fsm.SaidWritten:
		d.at, d.waits = r.Key.At, false
		m.written(b, fsm.BarrierWritten)
	default:
		b.unknown, b.notBegun = r.What == fsm.SaidUnknown, r.What == fsm.SaidNotBegun
	}
	return fsm.ReportCounted
}

func (m *model) written(b *event, result fsm.BarrierResult) {
	b.status, b.result = fsm.BarrierPassing, result
	if result != fsm.BarrierWritten {
		return
	}
	f := m.feeds[b.key.Changefeed]
	if f.status == fsm.ChangefeedIsRemoving {
		return // everything goes: nothing is to be added any more
	}
	for _, ref := range b.spec.Drop {
		if t := m.live(f, ref); t != nil {
			m.drop(t)
		}
	}
	var adds []fsm.TableSpec
	for _, rename := range b.spec.Rename {
		t := m.live(f, rename.From)
		if t == nil {
			continue
		}
		spec := fsm.TableSpec{Schema: rename.To.Schema, Name: rename.To.Name}
		for _, d := range m.spansOf(t.id) {
			if d.span.Start != "" && !d.leaving {
				spec.SplitKeys = append(spec.SplitKeys, d.span.Start)
			}
		}
		adds = append(adds, spec)
		m.drop(t)
	}
	for _, spec := range append(adds, b.spec.Add...) {
		if m.target(f.sink, fsm.TableRef{Schema: spec.Schema, Name: spec.Name}) == nil {
			m.addTable(f, spec, b.key.At)
		}
	}
}

// members are those whom an event concerns.
func (m *model) members(b *event) []*dispatcher {
	var out []*dispatcher
	for _, d := range m.dispatchersOf(b.key.Changefeed) {
		if !d.leaving && m.concerns(b, d) {
			out = append(out, d)
		}
	}
	return out
}

func (m *model) endEvent(b *event, result fsm.BarrierResult) {
	b.status, b.result = fsm.BarrierEnded, result
	delete(m.events, b.key)
	m.records[b.key] = b
}

// settle looks at every event until none moves on.
func (m *model) settle() {
	for moved := true; moved; {
		moved = false
		for id := fsm.ChangefeedID(1); id <= m.lastFeed; id++ {
			for _, b := range m.eventsOf(id) {
				moved = m.moveOn(b) || moved
			}
		}
	}
}

func (m *model) moveOn(b *event) bool {
	members := m.members(b)
	all := func(goal fsm.Position) bool {
		return !slices.ContainsFunc(members, func(d *dispatcher) bool { return before(d.at, goal) })
	}
	switch {
	case b.status == fsm.BarrierInWriting:
		return false
	case b.status == fsm.BarrierPassing:
		if !all(b.key.At) {
			return false
		}
		m.endEvent(b, b.result)
	case len(members) == 0:
		m.endEvent(b, fsm.BarrierVoid)
	case b.status == fsm.BarrierCollecting && all(reached(b.key)):
		return m.grant(b, members)
	default:
		return false
	}
	return true
}

// grant gives the permission to the trigger if it takes part, else to the lowest dispatcher that can write.
func (m *model) grant(b *event, members []*dispatcher) bool {
	f := m.feeds[b.key.Changefeed]
	if f.status != fsm.ChangefeedRunning {
		return false
	}
	slices.SortFunc(members, func(a, b *dispatcher) int { return cmp.Compare(a.id, b.id) })
	for _, d := range members {
		can := d.phase == fsm.Running && d.waits && d.at == reached(b.key)
		if !can || (withTrigger(&b.spec) && (d.id != f.trigger || !b.triggerSaid)) {
			continue
		}
		b.status, b.unknown, b.notBegun = fsm.BarrierInWriting, false, false
		b.permission++
		b.writer, b.writerEpoch = d.id, d.epoch
		f.granted = later(f.granted, b.key.At)
		return true
	}
	return false
}

func (m *model) decide(c *fsm.DecideBarrier) answer {
	b := m.events[c.Key]
	skip := c.Decision == fsm.DecideSkip
	switch {
	case b == nil:
		return no(fsm.UnknownBarrier)
	case c.Decision < fsm.DecideWritten || c.Decision > fsm.DecideSkip, skip && c.Key.At.Stage != fsm.StageSyncPoint:
		return no(fsm.Malformed)
	case b.status == fsm.BarrierInWriting:
		return no(fsm.BarrierWriting)
	case c.Permission != b.permission:
		return no(fsm.StalePermission)
	case b.status != fsm.BarrierUndecided && (!skip || b.status != fsm.BarrierCollecting):
		return no(fsm.NotUndecided)
	case skip:
		m.written(b, fsm.BarrierSkipped)
	case c.Decision == fsm.DecideWritten:
		m.written(b, fsm.BarrierWritten)
	default:
		b.status, b.unknown = fsm.BarrierCollecting, false
	}
	return yes()
}

func (m *model) advance(c *fsm.AdvanceCheckpoint) answer {
	f := m.feeds[c.Changefeed]
	switch {
	case f == nil || f.run != c.Run || f.status == fsm.ChangefeedIsRemoving:
		return no(fsm.StaleCheckpoint)
	case !known(c.To):
		return no(fsm.Malformed)
	case !before(f.watermark, c.To):
		return no(fsm.StaleCheckpoint)
	}
	crew := map[fsm.Incarnation]*dispatcher{}
	for _, d := range m.dispatchersOf(f.id) {
		if d.hasRun {
			crew[d.inc] = d
		}
	}
	for _, d := range inOrder(crew) {
		_, sum := m.setHash(f.id, d.inc)
		i := slices.IndexFunc(c.Nodes, func(n fsm.NodeMinimum) bool { return n.Incarnation == d.inc })
		switch {
		case i < 0 || c.Nodes[i].SetHash != sum:
			return no(fsm.StaleCheckpoint)
		case before(c.Nodes[i].Minimum, c.To):
			return no(fsm.CheckpointTooFar)
		}
	}
	for _, d := range m.dispatchersOf(f.id) {
		if !d.hasRun && before(d.at, c.To) {
			return no(fsm.CheckpointTooFar)
		}
	}
	for _, b := range m.eventsOf(f.id) {
		if before(reached(b.key), c.To) {
			return no(fsm.CheckpointTooFar)
		}
	}
	f.watermark = c.To
	return yes()
}
