package dev

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// faultLimit bounds the wait for the cluster to get over one fault.
const faultLimit = 60 * time.Second

// holdShare is how far the feed goes while faults are still to come: each of them hits work under way.
const holdShare = 0.9

// plan says at which share of the feed what happens; chosen by the seed.
type plan struct {
	move, owner, leader float64
	rng                 *rand.Rand
}

func newPlan(seed int64) plan {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	return plan{move: 0.15 + 0.1*rng.Float64(), owner: 0.38 + 0.12*rng.Float64(), leader: 0.62 + 0.12*rng.Float64(), rng: rng}
}

// done is what the faults did.
type done struct {
	moved uint64
	// from and to are the epochs of the moved dispatcher before and after.
	from, to uint64
	victims  []*weirv1.Dispatcher // what the killed owner had, as it was
	words    []string
}

// faults carries out the plan. An error says which planned fault did not happen or was not got over.
func (d *demo) faults(ctx context.Context) (done, error) {
	var r done
	defer d.feed.hold(1)
	steps := []struct {
		share float64
		what  string
		do    func(context.Context, *done) error
	}{
		{d.plan.move, "move a dispatcher", d.move},
		{d.plan.owner, "kill the node with most work", d.killOwner},
		{d.plan.leader, "kill the leader", d.killLeader},
	}
	for _, s := range steps {
		if err := d.until(ctx, d.cfg.Pace+faultLimit, func(context.Context) (bool, error) { return d.feed.share() >= s.share, nil }); err != nil {
			return r, fmt.Errorf("%s: wait for the feed: %w", s.what, err)
		}
		if err := s.do(ctx, &r); err != nil {
			return r, fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return r, nil
}

// until asks until it is so, or the time is over; errors of asking are what a fault looks like from outside, and are
// told only then.
func (d *demo) until(ctx context.Context, limit time.Duration, so func(context.Context) (bool, error)) error {
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
		if err := sleep(ctx, 25*time.Millisecond); err != nil {
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
	all, err := d.dispatchers(ctx)
	if err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(one *weirv1.Dispatcher) bool {
		return one.GetTable() != splitTable || one.GetPhase() != weirv1.Phase_PHASE_RUNNING || one.GetOperator() != 0
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

// killOwner kills the node with most work, waits until all of it runs elsewhere, and starts the node again.
func (d *demo) killOwner(ctx context.Context, r *done) error {
	var victim *child
	err := d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) {
		all, err := d.dispatchers(ctx)
		if err != nil {
			return false, err
		}
		name := busiest(all)
		r.victims = slices.DeleteFunc(all, func(one *weirv1.Dispatcher) bool { return one.GetNode() != name })
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
	d.say("kill -9 of node %s (pid %d), the owner of %d dispatchers: %s", victim.name, pid, len(r.victims), ids(r.victims))
	err = d.until(ctx, faultLimit, func(ctx context.Context) (bool, error) { return d.takenOver(ctx, r.victims) })
	if err != nil {
		return fmt.Errorf("the dispatchers %s of node %s do not run elsewhere: %w", ids(r.victims), victim.name, err)
	}
	text := fmt.Sprintf("%d dispatchers of killed node %s ran elsewhere after %s", len(r.victims), victim.name, since(began))
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

// takenOver says whether each of the dispatchers runs under a later epoch.
func (d *demo) takenOver(ctx context.Context, before []*weirv1.Dispatcher) (bool, error) {
	all, err := d.dispatchers(ctx)
	if err != nil {
		return false, err
	}
	left := len(before)
	for _, one := range all {
		if slices.ContainsFunc(before, func(b *weirv1.Dispatcher) bool {
			return b.GetId() == one.GetId() && one.GetEpoch() > b.GetEpoch() && one.GetPhase() == weirv1.Phase_PHASE_RUNNING
		}) {
			left--
		}
	}
	return left == 0, nil
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
