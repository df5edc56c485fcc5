package dispatcher

import (
	"context"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// barriers applies what a node says of events, and answers.
func (c *smallCluster) barriers(e *nodeEnd, m *session.BarrierReport, h session.Hello) {
	v := c.do(&fsm.ReportBarrier{Node: h.Node, Incarnation: h.Incarnation, Reports: m.Reports})
	if v.OK() && !e.k.lost(true) && !e.k.drops() {
		e.down <- session.FromLeader{Barrier: &session.BarrierAnswer{Term: c.term, Index: v.Index, Seq: m.Seq, Answers: v.Reports}}
	}
}

// barrierOrders sends every node what it has to do about events, again and again.
func (c *smallCluster) barrierOrders(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		c.mu.Lock()
		cables := c.cables
		c.mu.Unlock()
		for _, k := range cables {
			k.mu.Lock()
			p, inc := k.newest, k.hello.Incarnation
			k.mu.Unlock()
			if p == nil || k.lost(true) || k.drops() || isBroken(p) {
				continue
			}
			view := c.View()
			var orders []fsm.BarrierOrder
			for o := range view.BarrierOrders(inc) {
				orders = append(orders, o)
			}
			if len(orders) > 0 {
				p.down <- session.FromLeader{Orders: &session.Orders{
					Term: c.term, Index: view.Meta().Index, Barriers: orders,
				}}
			}
		}
	}
}
