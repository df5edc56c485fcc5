package control

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// looks derives orders whenever the state has moved on.
func (r *reign) looks(ctx context.Context) error {
	t := r.cfg.Timers.NewTimer(lookEvery)
	defer t.Stop()
	for {
		began := r.cfg.Clock.Now()
		if err := r.look(began); err != nil {
			return err
		}
		rest := idleShare * clock.MaxElapsed(began, r.cfg.Clock.Now())
		if rest > 0 && clock.Sleep(ctx, r.cfg.Timers, rest) != nil {
			return nil
		}
		t.Reset(lookEvery)
		select {
		case <-t.C():
		case <-r.kicked:
		case <-ctx.Done():
			return nil
		}
	}
}

// look brings the sessions in line with the newest state.
func (r *reign) look(now clock.Reading) error {
	view := r.fresh()
	switch term := view.Meta().Term; {
	case term > r.term:
		return ErrTermOver
	case term < r.term:
		return errors.New("the view is older than the term; it must contain the term's first entry")
	}
	for _, c := range r.known() {
		k := c.connected()
		node, ok := view.NodeOf(c.inc)
		if !ok || ended(node.Status) {
			r.forget(c.inc)
			if k != nil {
				node, ok = view.Node(k.hello.Node)
				k.close(staleIncarnation(k.hello, node, ok))
			}
			continue
		}
		if k != nil {
			r.counters.orders.Add(uint64(k.order(view, now)))
		}
	}
	return nil
}

// outgoing is what one session has been ordered. Of a state each order is sent once and then repeated at long intervals;
// what the writer has not taken when a newer state is looked at is taken back and derived anew. At most ordersWindow
// orders are out at a time: those behind them wait until the node has carried some out.
type outgoing struct {
	batch  []session.Orders // not yet taken by the writer; all of one state
	sent   map[orderKey]mark
	told   told
	strays map[session.Pair]struct{}
	due    uint64 // index of the newest batch, 0 when nothing is ordered
	newest uint64 // index of the newest batch of the session
	seen   uint64 // index of the view looked at last
	dirty  bool   // strays were added
	oldest mark   // the one that is to be repeated first; its round is 0 if there is none
	round  uint64
}

func newOutgoing() outgoing {
	return outgoing{sent: make(map[orderKey]mark), told: make(told), strays: make(map[session.Pair]struct{})}
}

type orderKey struct {
	kind fsm.OrderKind
	pair session.Pair
}

type mark struct {
	at    clock.Reading
	round uint64 // the newest look that still found the order
}

func keyOf(o fsm.Order) orderKey {
	return orderKey{o.Kind, session.Pair{Dispatcher: o.Dispatcher, Epoch: o.Epoch}}
}

func (g *outgoing) take() *session.Orders {
	first := g.batch[0]
	g.batch = g.batch[1:]
	return &first
}

// stray adds pairs to stop.
func (g *outgoing) stray(pairs []session.Pair) (added int) {
	for _, p := range pairs {
		if _, known := g.strays[p]; known || len(g.strays) >= strayLimit {
			continue
		}
		g.strays[p] = struct{}{}
		g.dirty = true
		added++
	}
	return added
}

// derive replaces the batch by what must be sent now; it returns how many orders that is.
func (g *outgoing) derive(view *fsm.View, inc fsm.Incarnation, now clock.Reading) int {
	index := view.Meta().Index
	repeat := g.oldest.round != 0 && clock.MinElapsed(g.oldest.at, now) >= repeatEvery
	if index == g.seen && !g.dirty && !repeat {
		return 0
	}
	g.takeBack()
	g.seen, g.dirty, g.oldest = index, false, mark{}
	g.round++
	say, events := g.barriers(view, inc, now)
	g.packBarriers(view.Meta(), say)
	if !view.HasPending(inc) && len(g.strays) == 0 {
		clear(g.sent)
		if !events {
			g.due = 0
		}
		return g.seal(view.Meta(), len(say))
	}
	p := picker{out: g, now: now}
	for o := range g.wanted(view, inc) {
		if p.found+len(p.first) >= ordersWindow {
			break
		}
		p.pick(o)
	}
	g.forget(p.found)
	return g.seal(view.Meta(), len(say)+g.pack(view.Meta(), p.chosen(), now))
}

// wanted yields the strays' stops and then the orders of the state.
func (g *outgoing) wanted(view *fsm.View, inc fsm.Incarnation) iter.Seq[fsm.Order] {
	return func(yield func(fsm.Order) bool) {
		for _, pair := range slices.SortedFunc(maps.Keys(g.strays), comparePairs) {
			if !yield(fsm.Order{Kind: fsm.OrderStop, Dispatcher: pair.Dispatcher, Epoch: pair.Epoch}) {
				return
			}
		}
		view.Orders(inc)(yield)
	}
}

func comparePairs(a, b session.Pair) int {
	return cmp.Or(cmp.Compare(a.Dispatcher, b.Dispatcher), cmp.Compare(a.Epoch, b.Epoch))
}

// takeBack forgets that what has not been taken was to be sent.
func (g *outgoing) takeBack() {
	for _, m := range g.batch {
		for _, o := range m.Orders {
			delete(g.sent, keyOf(o))
		}
		for i := range m.Barriers {
			delete(g.told, m.Barriers[i].Key)
		}
	}
	g.batch = nil
}

// forget drops the marks of orders that the state no longer has.
func (g *outgoing) forget(found int) {
	if len(g.sent) <= found {
		return
	}
	maps.DeleteFunc(g.sent, func(_ orderKey, m mark) bool { return m.round != g.round })
}

// mark notes when an order was sent that is not sent now.
func (g *outgoing) mark(key orderKey, m mark) {
	g.sent[key] = m
	g.remind(m)
}

// remind sees to it that what was sent at a mark is looked at again when it is to be repeated.
func (g *outgoing) remind(m mark) {
	if g.oldest.round == 0 || clock.MinElapsed(m.at, g.oldest.at) > 0 {
		g.oldest = m
	}
}

func (g *outgoing) pack(meta fsm.Meta, orders []fsm.Order, now clock.Reading) int {
	for part := range slices.Chunk(orders, ordersPerMessage) {
		for _, o := range part {
			g.mark(keyOf(o), mark{at: now, round: g.round})
		}
		g.batch = append(g.batch, session.Orders{Term: meta.Term, Index: meta.Index, Orders: part, More: true})
	}
	return len(orders)
}

// seal ends the batch; it returns how many orders are in it.
func (g *outgoing) seal(meta fsm.Meta, orders int) int {
	if n := len(g.batch); n > 0 {
		g.batch[n-1].More = false
		g.due, g.newest = meta.Index, meta.Index
	}
	return orders
}

// picker chooses among the orders of a state: those never sent go before those to repeat.
type picker struct {
	out          *outgoing
	now          clock.Reading
	first, again []fsm.Order
	found        int // orders that had been sent before
}

func (p *picker) pick(o fsm.Order) {
	key := keyOf(o)
	m, sent := p.out.sent[key]
	if !sent {
		p.first = append(p.first, o)
		return
	}
	p.found++
	m.round = p.out.round
	if clock.MinElapsed(m.at, p.now) >= repeatEvery {
		p.again = append(p.again, o)
		p.out.sent[key] = m
		return
	}
	p.out.mark(key, m)
}

func (p *picker) chosen() []fsm.Order { return append(p.first, p.again...) }
