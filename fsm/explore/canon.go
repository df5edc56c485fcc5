package explore

import "github.com/weir-project/weir/fsm"

// canon writes a shape down without its numbers. A test lists, field by field of every row, what it takes over and why it
// leaves out the rest, so that a new field is not forgotten.
type canon []byte

func (c *canon) num(v int)   { *c = append(*c, byte(v)) }
func (c *canon) bool(v bool) { *c = append(*c, b2i(v)) }

func (c *canon) text(s string) {
	c.num(len(s))
	*c = append(*c, s...)
}

func (c *canon) position(p fsm.Position) {
	*c = append(*c, byte(p.TS), byte(p.TS>>8), byte(p.Stage))
}

func b2i(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func canonOf(sh *shape) []byte {
	var c canon
	for i := range sh.nodes {
		c.node(&sh.nodes[i])
	}
	c.num(len(sh.feeds))
	for i := range sh.feeds {
		c.feed(sh, &sh.feeds[i])
	}
	c.num(len(sh.tabs))
	for i := range sh.tabs {
		c.table(&sh.tabs[i])
	}
	c.num(len(sh.ops))
	for i := range sh.ops {
		c.operator(sh, &sh.ops[i])
	}
	for _, barriers := range [...][]fsm.Barrier{sh.open, sh.over} {
		c.num(len(barriers))
		for i := range barriers {
			c.barrier(sh, &barriers[i])
		}
	}
	c.num(len(sh.rows))
	for i := range sh.rows {
		c.row(&sh.rows[i])
	}
	return c
}

func (c *canon) node(n *nodeShape) {
	c.num(int(n.status))
	c.bool(n.draining)
	c.bool(n.drained)
}

func (c *canon) feed(sh *shape, f *fsm.Changefeed) {
	c.text(f.Name)
	c.num(int(f.Status))
	c.position(f.Watermark)
	c.position(f.Chain)
	c.position(f.Granted)
	c.num(sh.rank(f.Trigger))
	c.num(int(f.SyncPointEvery))
	c.position(f.SyncPointAfter)
}

func (c *canon) table(t *tableShape) {
	c.num(t.feed)
	c.text(t.Name)
	c.bool(t.Dropping)
	c.bool(t.Trigger)
}

func (c *canon) operator(sh *shape, op *fsm.Operator) {
	c.num(int(op.Kind))
	c.num(sh.rank(op.Dispatcher))
	c.life(sh, op.From, op.FromIncarnation)
	c.life(sh, op.To, op.ToIncarnation)
	c.bool(op.Moved)
	c.bool(op.Aborting)
	c.bool(op.Drop)
	c.bool(op.StuckAt != 0)
	c.num(len(op.Spans))
	for _, span := range op.Spans {
		c.text(span.Start)
		c.text(span.End)
	}
	c.num(len(op.Targets))
	for _, to := range op.Targets {
		c.life(sh, to.Node, to.Incarnation)
	}
	c.num(len(op.Sources))
	for _, id := range op.Sources {
		c.num(sh.rank(id))
	}
}

// barrier: the number of a permission only tells it from earlier ones of the same event, whose holders have ended.
func (c *canon) barrier(sh *shape, b *fsm.Barrier) {
	c.num(int(sh.feeds[0].Run - b.Key.Run))
	c.position(b.Key.At)
	c.num(int(b.Status))
	if b.Status == fsm.BarrierEnded {
		return
	}
	c.num(int(b.Result))
	c.bool(b.TriggerSaid)
	c.bool(b.NotBegun)
	c.bool(b.Unknown)
	c.bool(b.StuckAt != 0)
	if b.Status == fsm.BarrierInWriting {
		c.num(sh.rank(b.Writer))
	}
}

// life of a node: whose it is, and whether it is the newest.
func (c *canon) life(sh *shape, name fsm.NodeName, inc fsm.Incarnation) {
	c.num(nodeIndex(name))
	c.bool(inc != 0 && sh.nodeOf(inc) >= 0)
}

func (c *canon) row(r *rowShape) {
	c.num(r.table)
	c.text(r.Span.Start)
	c.text(r.Span.End)
	c.position(r.Position)
	c.num(int(r.Phase))
	c.bool(r.HasRun)
	c.bool(r.Waits)
	c.bool(r.Leaving)
	c.num(r.node)
	c.num(r.op)
}

// rank is the place of a dispatcher in the order of ids, -1 if it is gone.
func (sh *shape) rank(id fsm.DispatcherID) int {
	for i := range sh.rows {
		if sh.rows[i].ID == id {
			return i
		}
	}
	return -1
}
