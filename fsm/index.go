package fsm

// The functions below are the only ones that write rows which secondary indexes follow from: each stores the row and
// keeps every index, so that no rule can forget one.

func (s *State) setNode(n Node) {
	old, had := s.nodes.put(&s.hash, n)
	if had {
		s.unindexNode(old)
	}
	s.indexNode(n)
}

func (d *derived) indexNode(n Node) {
	d.nodeOf.set(n.Incarnation, n.Name)
	if n.ended() && !n.Draining {
		d.gone.set(n.Incarnation, n.Name)
	}
}

func (d *derived) unindexNode(n Node) {
	d.nodeOf.del(n.Incarnation)
	d.gone.del(n.Incarnation)
}

func (s *State) forgetNode(n Node) {
	s.nodes.drop(&s.hash, n)
	s.unindexNode(n)
}

func (s *State) setChangefeed(f Changefeed) {
	s.changefeeds.put(&s.hash, f)
	s.feeds.set(f.Name, f.ID)
}

func (s *State) dropChangefeed(f Changefeed) {
	s.changefeeds.drop(&s.hash, f)
	s.feeds.del(f.Name)
}

func (s *State) setTable(t Table) {
	s.tables.put(&s.hash, t)
	s.indexTable(t)
}

func (s *State) indexTable(t Table) {
	s.tablesOf.add(uint64(t.Changefeed), uint64(t.ID))
	s.titles.set(t.ID, TableRef{t.Schema, t.Name}.String())
	switch {
	case t.Trigger:
	case t.Dropping:
		s.unindexTarget(t)
	default:
		s.targets.set(s.targetOf(t), t.ID)
	}
}

// unindexTarget frees the downstream name, unless another table has it by now.
func (s *State) unindexTarget(t Table) {
	if id, ok := s.targets.get(s.targetOf(t)); ok && id == t.ID {
		s.targets.del(s.targetOf(t))
	}
}

func (s *State) dropTable(t Table) {
	s.unindexTarget(t)
	s.tables.drop(&s.hash, t)
	s.titles.del(t.ID)
	s.tablesOf.del(uint64(t.Changefeed), uint64(t.ID))
}

func (s *State) setDispatcher(row Dispatcher) {
	old, had := s.dispatchers.put(&s.hash, row)
	if had {
		s.count(old, -1)
	} else {
		s.spans.add(row)
	}
	s.moveInIndexes(old, row, s.feedOf(row))
	s.count(row, 1)
}

func (s *State) dropDispatcher(row Dispatcher) {
	old, _ := s.dispatchers.drop(&s.hash, row.ID)
	s.moveInIndexes(old, Dispatcher{}, s.feedOf(old))
	s.count(old, -1)
	s.spans.del(old)
	s.removals.del(s.heldRange(old))
}

func (d *data) heldRange(row Dispatcher) heldRange {
	t, _ := d.Table(row.Table)
	return heldRange{target: d.targetOf(t), span: row.Span, id: row.ID}
}

// moveInIndexes makes the indexes of placements follow from row, where they followed from old; the zero Dispatcher
// stands in none. Most changes of a dispatcher leave most indexes as they are.
func (d *data) moveInIndexes(old, row Dispatcher, feed uint64) {
	d.placed.move(old.placedAt(), row.placedAt())
	d.pending.move(old.pendingAt(), row.pendingAt())
	d.waiting.move(old.waitingAt(), row.waitingAt())
	d.absent.move(old.absentIn(feed), row.absentIn(feed))
	d.quiet.move(old.quietIn(feed), row.quietIn(feed))
	if was, is := old.share(), row.share(); was != is {
		d.carry(was, feed, -1)
		d.carry(is, feed, 1)
	}
}

// The functions below say where a dispatcher stands in an index; the zero value means that it does not.

func (d *Dispatcher) placedAt() pair { return d.onNode(d.Phase != Absent) }

func (d *Dispatcher) pendingAt() pair { return d.onNode(d.Phase == Starting || d.Phase == Stopping) }

func (d *Dispatcher) waitingAt() pair { return d.onNode(d.Phase != Absent && d.Waits) }

func (d *Dispatcher) onNode(stands bool) pair {
	if !stands || d.ID == 0 {
		return pair{}
	}
	return pair{uint64(d.Incarnation), uint64(d.ID)}
}

func (d *Dispatcher) absentIn(feed uint64) pair {
	if d.Phase != Absent {
		return pair{}
	}
	return pair{feed, uint64(d.ID)}
}

func (d *Dispatcher) quietIn(feed uint64) quietKey {
	if d.HasRun || d.ID == 0 {
		return quietKey{}
	}
	return quietKey{feed, d.Position, d.ID}
}

// share is what a placement adds to its incarnation's load.
type share struct {
	inc    Incarnation
	hasRun bool
	hash   uint64
}

func (d *Dispatcher) share() share {
	if d.Phase == Absent || d.ID == 0 {
		return share{}
	}
	if !d.HasRun {
		return share{inc: d.Incarnation}
	}
	return share{d.Incarnation, true, PairHash(d.ID, d.Epoch)}
}

func (d *data) feedOf(row Dispatcher) uint64 {
	t, _ := d.Table(row.Table)
	return uint64(t.Changefeed)
}

// carry adds a placement's share to its incarnation's load, or takes it off.
func (d *data) carry(x share, feed uint64, sign int32) {
	if x == (share{}) {
		return
	}
	l := d.Load(x.inc)
	l.Placements += uint32(sign)
	if x.hasRun {
		hash := uint64(int64(sign)) * x.hash
		l.Set += uint32(sign)
		l.SetHash += hash
		c := d.crews.get(ChangefeedID(feed), x.inc)
		c.set += uint32(sign)
		c.hash += hash
		d.crews.set(c)
	}
	if l == (Load{}) {
		d.loads.del(x.inc)
		return
	}
	d.loads.set(x.inc, l)
}

// count adds a dispatcher to the tallies of the open barriers that concern it, or takes it off, and notes that those may
// have moved on.
func (s *State) count(row Dispatcher, sign int32) {
	if s.barriers.len() == 0 || row.Leaving {
		return
	}
	t, _ := s.Table(row.Table)
	for b := range s.Barriers(t.Changefeed) {
		if !b.Spec.concerns(t) {
			continue
		}
		s.tallies.set(s.tallies.get(b.Key).with(row, sign))
		s.touch(b.Key)
	}
}

// with counts a row that the barrier concerns.
func (t tally) with(row Dispatcher, sign int32) tally {
	t.members += uint32(sign)
	if row.Position.Less(t.key.Before()) {
		t.behind += uint32(sign)
	}
	if row.Position.Less(t.key.At) {
		t.unpassed += uint32(sign)
	}
	return t
}

// recount makes the tally of a barrier from scratch.
func (d *data) recount(b Barrier) tally {
	sum := tally{key: b.Key}
	for t := range d.Tables(b.Key.Changefeed) {
		if !b.Spec.concerns(t) {
			continue
		}
		for row := range d.DispatchersOfTable(t.ID) {
			if !row.Leaving {
				sum = sum.with(row, 1)
			}
		}
	}
	return sum
}

func (s *State) setOperator(op Operator) {
	if old, had := s.operators.put(&s.hash, op); had {
		s.unindexOperator(old)
	}
	s.indexOperator(op)
}

func (d *derived) indexOperator(op Operator) {
	if op.ToIncarnation != 0 {
		d.bound.add(uint64(op.ToIncarnation), uint64(op.ID))
	}
	if op.StuckAt == 0 {
		d.due.add(op.DeadlineMS, uint64(op.ID))
	}
	if op.onItsWay() {
		n, _ := d.incoming.get(op.ToIncarnation)
		d.incoming.set(op.ToIncarnation, n+1)
	}
}

func (d *derived) unindexOperator(op Operator) {
	if op.ToIncarnation != 0 {
		d.bound.del(uint64(op.ToIncarnation), uint64(op.ID))
	}
	if op.StuckAt == 0 {
		d.due.del(op.DeadlineMS, uint64(op.ID))
	}
	if !op.onItsWay() {
		return
	}
	if n, _ := d.incoming.get(op.ToIncarnation); n > 1 {
		d.incoming.set(op.ToIncarnation, n-1)
	} else {
		d.incoming.del(op.ToIncarnation)
	}
}

// onItsWay: a Move whose destination will get a placement that it does not have yet.
func (o *Operator) onItsWay() bool { return o.Kind == OpMove && !o.Moved && !o.Aborting }

// setFinished moves an operator from the running to the remembered ones and forgets the oldest beyond the policy.
func (s *State) setFinished(op Operator) {
	if running, had := s.operators.drop(&s.hash, op); had {
		s.unindexOperator(running)
	}
	s.finished.put(&s.hash, op)
	s.ended.add(op.Ended, uint64(op.ID))
	if s.finished.len() <= int(s.meta.Policy.KeepOperators) {
		return
	}
	if oldest, ok := s.ended.least(); ok {
		s.ended.del(oldest.a, oldest.b)
		s.finished.drop(&s.hash, Operator{ID: OpID(oldest.b)})
	}
}

// addRecord keeps an ended placement and forgets the oldest beyond the policy, of its dispatcher and of all.
func (s *State) addRecord(r PlacementRecord) {
	s.meta.LastRecord++
	r.Seq = s.meta.LastRecord
	s.history.put(&s.hash, r)
	s.past.set(r.Seq, recordKey{r.Dispatcher, r.Epoch})
	n, first := uint32(0), PlacementRecord{}
	for old := range s.history.from(PlacementRecord{Dispatcher: r.Dispatcher}) {
		if old.Dispatcher != r.Dispatcher {
			break
		}
		if n++; n == 1 {
			first = old
		}
	}
	if n > s.meta.Policy.KeepHistoryEach {
		s.dropRecord(first)
	}
	if s.history.len() > int(s.meta.Policy.KeepHistory) {
		_, k, _ := s.past.oldest()
		oldest, _ := s.history.get(PlacementRecord{Dispatcher: k.dispatcher, Epoch: k.epoch})
		s.dropRecord(oldest)
	}
}

func (s *State) dropRecord(r PlacementRecord) {
	s.history.drop(&s.hash, r)
	s.past.del(r.Seq)
}

// setBarrier stores an open barrier. A new one is counted from scratch.
func (s *State) setBarrier(b Barrier) {
	if _, had := s.barriers.put(&s.hash, b); !had {
		s.tallies.set(s.recount(b))
	}
	s.touch(b.Key)
}

// setBarrierRecord moves a barrier from the open ones to the remembered ones.
func (s *State) setBarrierRecord(b Barrier) {
	s.barriers.drop(&s.hash, b)
	s.tallies.del(b.Key)
	s.meta.LastRecord++
	b.Seq = s.meta.LastRecord
	s.records.put(&s.hash, b)
	s.over.set(b.Seq, b.Key)
	s.forgetBarriers()
}

// forgetBarriers drops the oldest records beyond the policy, but none that a dispatcher may still ask about: those at
// or below the watermark alone, whose keys everybody has passed, and those of changefeeds and runs that are over.
func (s *State) forgetBarriers() {
	for range forgetAtOnce {
		seq, key, ok := s.over.oldest()
		if !ok || s.records.len() <= int(s.meta.Policy.KeepBarriers) {
			return
		}
		feed, there := s.ChangefeedByID(key.Changefeed)
		if there && feed.Run == key.Run && feed.Watermark.Less(key.At) {
			return
		}
		s.dropBarrierRecord(key, seq)
	}
}

func (s *State) dropBarrierRecord(key BarrierKey, seq uint64) {
	s.records.drop(&s.hash, Barrier{Key: key})
	s.over.del(seq)
}
