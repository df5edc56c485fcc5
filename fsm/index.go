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
	if n.Status == NodeStatusExpired || n.Status == NodeStatusGone {
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
	if t.Dropping {
		s.unindexTarget(t)
	} else {
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
	s.tablesOf.del(uint64(t.Changefeed), uint64(t.ID))
}

func (s *State) setDispatcher(row Dispatcher) {
	old, had := s.dispatchers.put(&s.hash, row)
	if had {
		s.unindexPlacement(old)
	} else {
		s.spans.add(row)
	}
	s.indexPlacement(row)
}

func (s *State) dropDispatcher(row Dispatcher) {
	s.dispatchers.drop(&s.hash, row.ID)
	s.unindexPlacement(row)
	s.spans.del(row)
	s.removals.del(s.heldRange(row))
}

func (d *data) heldRange(row Dispatcher) heldRange {
	t, _ := d.Table(row.Table)
	return heldRange{target: d.targetOf(t), span: row.Span, id: row.ID}
}

func (d *data) indexPlacement(row Dispatcher) {
	id, inc := uint64(row.ID), uint64(row.Incarnation)
	if row.Phase == Absent {
		d.absent.add(d.feedOf(row), id)
		return
	}
	d.placed.add(inc, id)
	if row.Phase != Running {
		d.pending.add(inc, id)
	}
	d.carry(row, 1)
}

func (d *data) unindexPlacement(row Dispatcher) {
	id, inc := uint64(row.ID), uint64(row.Incarnation)
	if row.Phase == Absent {
		d.absent.del(d.feedOf(row), id)
		return
	}
	d.placed.del(inc, id)
	d.pending.del(inc, id)
	d.carry(row, -1)
}

func (d *data) feedOf(row Dispatcher) uint64 {
	t, _ := d.Table(row.Table)
	return uint64(t.Changefeed)
}

// carry adds a placement to its incarnation's load, or takes it off.
func (d *data) carry(row Dispatcher, sign int32) {
	l := d.Load(row.Incarnation)
	l.Placements += uint32(sign)
	if row.HasRun {
		l.Set += uint32(sign)
		l.SetHash += uint64(int64(sign)) * PairHash(row.ID, row.Epoch)
	}
	if l == (Load{}) {
		d.loads.del(row.Incarnation)
		return
	}
	d.loads.set(row.Incarnation, l)
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
	if op.onItsWay() {
		n, _ := d.incoming.get(op.ToIncarnation)
		d.incoming.set(op.ToIncarnation, n+1)
	}
}

func (d *derived) unindexOperator(op Operator) {
	d.bound.del(uint64(op.ToIncarnation), uint64(op.ID))
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
	if oldest, ok := s.ended.tree.DeleteMin(); ok {
		s.finished.drop(&s.hash, Operator{ID: OpID(oldest.b)})
	}
}

// addRecord keeps an ended placement and forgets the oldest beyond the policy, of its dispatcher and of all.
func (s *State) addRecord(r PlacementRecord) {
	s.meta.LastRecord++
	r.Seq = s.meta.LastRecord
	s.history.put(&s.hash, r)
	s.records.set(r.Seq, recordKey{r.Dispatcher, r.Epoch})
	n, first := uint32(0), PlacementRecord{}
	for old := range s.History(r.Dispatcher) {
		if n++; n == 1 {
			first = old
		}
	}
	if n > s.meta.Policy.KeepHistoryEach {
		s.dropRecord(first)
	}
	if s.history.len() > int(s.meta.Policy.KeepHistory) {
		_, k, _ := s.records.oldest()
		oldest, _ := s.history.get(PlacementRecord{Dispatcher: k.dispatcher, Epoch: k.epoch})
		s.dropRecord(oldest)
	}
}

func (s *State) dropRecord(r PlacementRecord) {
	s.history.drop(&s.hash, r)
	s.records.del(r.Seq)
}
