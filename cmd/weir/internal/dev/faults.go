package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

// faultLimit bounds the wait for the cluster to get over one fault.
const faultLimit = 60 * time.Second

// plan says at which share of the feed what happens; chosen by the seed. Faults that hit an event wait for it instead.
type plan struct {
	move, split, owner, leader, merge float64
	// leaderAtEvent: the leader is killed while an event is open.
	leaderAtEvent bool
	rng           *rand.Rand
}

func newPlan(seed int64) plan {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	return plan{
		move: 0.08 + 0.06*rng.Float64(), split: 0.18 + 0.08*rng.Float64(), owner: 0.36 + 0.08*rng.Float64(),
		leader: 0.56 + 0.06*rng.Float64(), merge: 0.70 + 0.06*rng.Float64(), leaderAtEvent: rng.IntN(2) == 0, rng: rng,
	}
}

// The schema changes of the log, by their order in it.
const (
	eventCreateOrders = iota
	eventCreateItems
	eventAddColumn
	eventTruncate
	eventRename
	eventDrop
	eventCount
)

// done is what the faults did.
type done struct {
	moved uint64
	// from and to are the epochs of the moved dispatcher before and after.
	from, to uint64
	victims  []*weirv1.Dispatcher // what the killed owner had, as it was
	words    []string
}

// step is one fault: at a share of the feed, or, with an event, as soon as that is open.
type step struct {
	share float64
	event fsm.Position // zero: none
	what  string
	do    func(context.Context, *done) error
}

// steps are the faults in the order in which they happen.
func (d *demo) steps() []step {
	at := func(n int, what string, do func(context.Context, *done) error) step {
		e := d.feed.events[n]
		return step{d.feed.before(e), fsm.Position{TS: e.ts, Stage: fsm.StageDDL}, what, do}
	}
	steps := []step{
		{d.plan.move, fsm.Position{}, "move a dispatcher", d.move},
		{d.plan.split, fsm.Position{}, "split a dispatcher", d.split},
		{d.plan.owner, fsm.Position{}, "kill the node with most work", d.killOwner},
		at(eventAddColumn, "kill the node of the trigger while a column is added", d.killTrigger),
		{d.plan.leader, fsm.Position{}, "kill the leader", d.killLeader},
		{d.plan.merge, fsm.Position{}, "merge dispatchers", d.merge},
		at(eventRename, "move the trigger while a table is renamed", d.moveTrigger),
	}
	if d.plan.leaderAtEvent {
		steps[4] = at(eventTruncate, "kill the leader while a table is truncated", d.killLeader)
	}
	return steps
}

// faults carries out the plan. The feed stops before each of them until the one before it is over, so that each hits work
// under way. An error says which planned fault did not happen or was not got over.
func (d *demo) faults(ctx context.Context) (done, error) {
	var r done
	defer d.feed.hold(1)
	if n := len(d.feed.events); n != eventCount {
		return r, fmt.Errorf("the demo's log has %d schema changes, %d are known", n, eventCount)
	}
	steps := d.steps()
	for i, s := range steps {
		d.feed.hold(s.share)
		if err := d.until(ctx, d.cfg.Pace+faultLimit, func(context.Context) (bool, error) { return d.feed.due(s.share), nil }); err != nil {
			return r, fmt.Errorf("%s: wait for the feed: %w", s.what, err)
		}
		next := lastShare
		if i+1 < len(steps) {
			next = steps[i+1].share
		}
		d.feed.hold(next)
		if s.event != (fsm.Position{}) {
			b, err := d.sight(ctx, s.event)
			switch {
			case errors.Is(err, errOver):
				r.words = append(r.words, fmt.Sprintf("the event at %s was over before it was seen", s.event))
			case err != nil:
				return r, fmt.Errorf("%s: wait for the event at %s: %w", s.what, s.event, err)
			default:
				row := show.BarrierRow(b)
				r.words = append(r.words, fmt.Sprintf("the event at %s was %s when the next fault hit it", s.event, row.State()))
			}
		}
		if err := s.do(ctx, &r); err != nil {
			return r, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return r, nil
}

// lastShare is how far the feed goes while the last fault is not over.
const lastShare = 0.95

// until asks until it is so, or the time is over; errors of asking are what a fault looks like from outside, and are
// told only then.
func (d *demo) until(ctx context.Context, limit time.Duration, so func(context.Context) (bool, error)) error {
	return d.untilEvery(ctx, 25*time.Millisecond, limit, so)
}

func (d *demo) untilEvery(ctx context.Context, period, limit time.Duration, so func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last error
	for {
		ok, err := so(ctx)
		if err == nil && ok {
			return nil
		}
		if err != nil {
			last = err
		}
		if err := sleep(ctx, period); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("not so after %s: %w", limit, errors.Join(last, err))
			}
			return err
		}
	}
}

// move takes a dispatcher of the split table to another node and waits for it.
func (d *demo) move(ctx context.Context, r *done) error {
	var chosen *weirv1.Dispatcher
	var to string
	err := d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		var err error
		chosen, to, err = d.choose(ctx)
		return chosen != nil, err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	admitted, err := d.plane.AdmitOperator(ctx, &weirv1.OperatorSpec{
		Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: chosen.GetId(), From: chosen.GetNode(), To: to, ExpectEpoch: chosen.GetEpoch(),
	})
	if err != nil {
		return err
	}
	d.say("moving dispatcher %d, keys %s, from %s to %s (operator %s)", chosen.GetId(), show.Keys(chosen.GetSpan()), chosen.GetNode(), to, show.Token(admitted.GetOpId()))
	waited, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	o, err := d.plane.WaitOperator(waited, admitted.GetOpId())
	if err != nil {
		return err
	}
	if o.GetResult() != weirv1.OperatorResult_OPERATOR_RESULT_DONE {
		return fmt.Errorf("operator %s ended %s: %s %s", show.Token(o.GetId()), show.OperatorRow(o).Result, o.GetReason(), o.GetDetail())
	}
	r.moved, r.from, r.to = chosen.GetId(), chosen.GetEpoch(), o.GetEpoch()
	text := fmt.Sprintf("dispatcher %d was moved from %s to %s in %s", chosen.GetId(), chosen.GetNode(), to, since(began))
	r.words = append(r.words, text)
	d.say("%s, epoch %s -> %s", text, show.Token(r.from), show.Token(r.to))
	return nil
}

// choose picks a running dispatcher of the split table, and a destination.
func (d *demo) choose(ctx context.Context) (*weirv1.Dispatcher, string, error) {
	return d.chooseFrom(ctx, func(one *weirv1.Dispatcher) bool { return one.GetTable() == splitTable })
}

// chooseFrom picks a running dispatcher among the wanted ones, and a live node that does not have it.
func (d *demo) chooseFrom(ctx context.Context, wanted func(*weirv1.Dispatcher) bool) (*weirv1.Dispatcher, string, error) {
	all, err := d.dispatchers(ctx)
	if err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(one *weirv1.Dispatcher) bool {
		return !wanted(one) || one.GetPhase() != weirv1.Phase_PHASE_RUNNING || one.GetOperator() != 0
	})
	nodes, err := d.plane.Nodes(ctx, nil)
	if err != nil || len(all) == 0 {
		return nil, "", err
	}
	chosen := all[d.plan.rng.IntN(len(all))]
	var others []string
	for _, n := range nodes {
		if n.GetStatus() == weirv1.NodeStatus_NODE_STATUS_LIVE && n.GetName() != chosen.GetNode() {
			others = append(others, n.GetName())
		}
	}
	if len(others) == 0 {
		return nil, "", nil
	}
	return chosen, others[d.plan.rng.IntN(len(others))], nil
}

// split cuts a dispatcher of the split table in two, in the middle of the rows that the log has of it.
func (d *demo) split(ctx context.Context, r *done) error {
	return d.admit(ctx, r, "split", func(ctx context.Context) (*weirv1.OperatorSpec, error) {
		chosen, to, err := d.choose(ctx)
		if err != nil || chosen == nil {
			return nil, err
		}
		key, ok := d.middle(chosen.GetSpan())
		if !ok {
			return nil, fmt.Errorf("dispatcher %d has no key to be split at", chosen.GetId())
		}
		return &weirv1.OperatorSpec{
			Kind: weirv1.OperatorKind_OPERATOR_KIND_SPLIT, Dispatcher: chosen.GetId(), SplitKeys: [][]byte{[]byte(key)},
			Targets: []string{"", to}, ExpectEpoch: chosen.GetEpoch(),
		}, nil
	})
}

// middle is a key inside the span, from those by which the log would be cut finer.
func (d *demo) middle(span *weirv1.Span) (string, bool) {
	for _, key := range d.cuts {
		if string(span.GetStart()) < key && (len(span.GetEnd()) == 0 || key < string(span.GetEnd())) {
			return key, true
		}
	}
	return "", false
}

// merge makes one dispatcher of two neighbours of the split table.
func (d *demo) merge(ctx context.Context, r *done) error {
	return d.admit(ctx, r, "merge", func(ctx context.Context) (*weirv1.OperatorSpec, error) {
		all, err := d.dispatchers(ctx)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(one *weirv1.Dispatcher) bool { return one.GetTable() != splitTable })
		slices.SortFunc(all, func(a, b *weirv1.Dispatcher) int {
			return bytes.Compare(a.GetSpan().GetStart(), b.GetSpan().GetStart())
		})
		if len(all) < 2 || !running(all) {
			return nil, nil
		}
		n := d.plan.rng.IntN(len(all) - 1)
		return &weirv1.OperatorSpec{
			Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Sources: []uint64{all[n].GetId(), all[n+1].GetId()},
		}, nil
	})
}

// moveTrigger takes the trigger to another node. While it may be writing an event that is refused, and asked again.
func (d *demo) moveTrigger(ctx context.Context, r *done) error {
	return d.admit(ctx, r, "move of the trigger", func(ctx context.Context) (*weirv1.OperatorSpec, error) {
		chosen, to, err := d.chooseFrom(ctx, func(one *weirv1.Dispatcher) bool { return one.GetTrigger() })
		if err != nil || chosen == nil {
			return nil, err
		}
		return &weirv1.OperatorSpec{
			Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: chosen.GetId(), From: chosen.GetNode(), To: to, ExpectEpoch: chosen.GetEpoch(),
		}, nil
	})
}

// admit asks for an operator until it is admitted, and waits until it has ended well.
func (d *demo) admit(ctx context.Context, r *done, what string, make func(context.Context) (*weirv1.OperatorSpec, error)) error {
	began := time.Now()
	var admitted *weirv1.Admission
	err := d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		spec, err := make(ctx)
		if err != nil || spec == nil {
			return false, err
		}
		admitted, err = d.plane.AdmitOperator(ctx, spec)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	d.say("%s: operator %s is admitted", what, show.Token(admitted.GetOpId()))
	waited, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	o, err := d.plane.WaitOperator(waited, admitted.GetOpId())
	if err != nil {
		return err
	}
	if o.GetResult() != weirv1.OperatorResult_OPERATOR_RESULT_DONE {
		return fmt.Errorf("operator %s ended %s: %s %s", show.Token(o.GetId()), show.OperatorRow(o).Result, o.GetReason(), o.GetDetail())
	}
	text := fmt.Sprintf("%s of dispatcher %d was done in %s", what, o.GetDispatcher(), since(began))
	r.words = append(r.words, text)
	d.say("%s", text)
	return nil
}

// killTrigger kills the node on which the trigger runs.
func (d *demo) killTrigger(ctx context.Context, r *done) error {
	return d.killNode(ctx, r, func(all []*weirv1.Dispatcher) string {
		for _, one := range all {
			if one.GetTrigger() {
				return one.GetNode()
			}
		}
		return ""
	})
}

// killOwner kills the node with most work.
func (d *demo) killOwner(ctx context.Context, r *done) error { return d.killNode(ctx, r, busiest) }

// killNode kills the chosen node, waits until all of it runs elsewhere, and starts the node again.
func (d *demo) killNode(ctx context.Context, r *done, choose func([]*weirv1.Dispatcher) string) error {
	var victim *child
	var victims []*weirv1.Dispatcher
	err := d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		all, err := d.dispatchers(ctx)
		if err != nil {
			return false, err
		}
		name := choose(all)
		victims = slices.DeleteFunc(all, func(one *weirv1.Dispatcher) bool { return one.GetNode() != name })
		victim = d.fleet.byName(name)
		return victim != nil && victim.running(), nil
	})
	if err != nil {
		return err
	}
	pid, began := victim.pid(), time.Now()
	if !victim.kill() {
		return fmt.Errorf("node %s (pid %d) had ended before it could be killed: %s", victim.name, pid, victim.how())
	}
	d.say("kill -9 of node %s (pid %d), the owner of %d dispatchers: %s", victim.name, pid, len(victims), ids(victims))
	r.victims = append(r.victims, victims...)
	err = d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) { return d.takenOver(ctx, victims) })
	if err != nil {
		return fmt.Errorf("the dispatchers %s of node %s do not run elsewhere: %w", ids(victims), victim.name, err)
	}
	text := fmt.Sprintf("%d dispatchers of killed node %s ran elsewhere after %s", len(victims), victim.name, since(began))
	r.words = append(r.words, text)
	d.say("%s", text)
	return d.restart(ctx, victim, func(ctx context.Context) (bool, error) {
		nodes, err := d.plane.Nodes(ctx, nil)
		return slices.ContainsFunc(nodes, func(n *weirv1.Node) bool {
			return n.GetName() == victim.name && n.GetStatus() == weirv1.NodeStatus_NODE_STATUS_LIVE && n.GetLease().GetGateOpen()
		}), err
	})
}

func busiest(all []*weirv1.Dispatcher) string {
	load := map[string]int{}
	for _, one := range all {
		if one.GetPhase() == weirv1.Phase_PHASE_RUNNING {
			load[one.GetNode()]++
		}
	}
	name := ""
	for _, one := range all { // in the order of ids, so that equals are chosen alike
		if n := one.GetNode(); n != "" && (name == "" || load[n] > load[name]) {
			name = n
		}
	}
	return name
}

func ids(all []*weirv1.Dispatcher) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = fmt.Sprint(one.GetId())
	}
	return strings.Join(words, ", ")
}

// takenOver says whether each of the dispatchers that are still there runs under a later epoch.
func (d *demo) takenOver(ctx context.Context, before []*weirv1.Dispatcher) (bool, error) {
	all, err := d.dispatchers(ctx)
	if err != nil {
		return false, err
	}
	for _, b := range before {
		at := slices.IndexFunc(all, func(one *weirv1.Dispatcher) bool { return one.GetId() == b.GetId() })
		if at < 0 {
			continue // its table was dropped meanwhile
		}
		if one := all[at]; one.GetEpoch() <= b.GetEpoch() || one.GetPhase() != weirv1.Phase_PHASE_RUNNING {
			return false, nil
		}
	}
	return true, nil
}

// killLeader kills the leader, waits for the next one, and starts the server again.
func (d *demo) killLeader(ctx context.Context, r *done) error {
	var victim *child
	var term uint64
	err := d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		status, err := d.plane.Status(ctx, false, nil)
		victim, term = d.fleet.byName(status.GetLeader()), status.GetTerm()
		return victim != nil && victim.running(), err
	})
	if err != nil {
		return err
	}
	pid, began := victim.pid(), time.Now()
	if !victim.kill() {
		return fmt.Errorf("server %s (pid %d) had ended before it could be killed: %s", victim.name, pid, victim.how())
	}
	d.say("kill -9 of server %s (pid %d), the leader of term %d", victim.name, pid, term)
	var next *weirv1.GetStatusResponse
	err = d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		var err error
		next, err = d.plane.Status(ctx, false, nil)
		return next.GetTerm() > term && next.GetLeader() != "" && next.GetLeader() != victim.name, err
	})
	if err != nil {
		return fmt.Errorf("no other server leads: %w", err)
	}
	text := fmt.Sprintf("server %s led, in term %d, %s after the leader %s was killed", next.GetLeader(), next.GetTerm(), since(began), victim.name)
	r.words = append(r.words, text)
	d.say("%s", text)
	return d.restart(ctx, victim, func(ctx context.Context) (bool, error) {
		status, err := d.plane.Status(ctx, true, nil)
		return slices.ContainsFunc(status.GetMembers(), func(m *weirv1.Member) bool {
			return m.GetId() == victim.name && m.GetReachable() && m.GetInContact()
		}), err
	})
}

// restart starts a killed child as a new process and waits until it has joined.
func (d *demo) restart(ctx context.Context, c *child, joined func(context.Context) (bool, error)) error {
	if err := d.fleet.start(c); err != nil {
		return err
	}
	d.say("%s %s is started again (pid %d)", c.role, c.name, c.pid())
	if err := d.until(ctx, faultLimit, joined); err != nil {
		return fmt.Errorf("%s %s has not joined again: %w", c.role, c.name, err)
	}
	return nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
