package control

import (
	"context"
	"maps"
	"slices"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fsm"
)

// planning is what one plan leaves for the next.
type planning struct {
	next    scheduler.Cursor
	refused map[subject]refusal
}

// subject is what a proposal is about; one field is set.
type subject struct {
	dispatcher  fsm.DispatcherID
	operator    fsm.OpID
	incarnation fsm.Incarnation
}

// fact is how a subject looked when a proposal about it was refused.
type fact struct {
	row      fsm.Dispatcher
	moved    bool
	aborting bool
	status   fsm.NodeStatus
}

// refusal remembers a proposal that Apply refused: while its subject has not changed it is made again only after a wait
// that doubles, since what stood in the way may have been something else.
type refusal struct {
	fact    fact
	untilMS uint64
	waitMS  uint64
}

func (p *planning) skip(s subject, f fact, nowMS uint64) bool {
	r, ok := p.refused[s]
	return ok && r.fact == f && nowMS < r.untilMS
}

func (p *planning) refuse(s subject, f fact, nowMS uint64) {
	wait := uint64(refusalMS)
	if r, ok := p.refused[s]; ok && r.fact == f {
		wait = min(2*r.waitMS, refusalMaxMS)
	}
	p.refused[s] = refusal{fact: f, untilMS: nowMS + wait, waitMS: wait}
}

// sweep forgets refusals of what has changed or gone, and those that no plan has come back to.
func (p *planning) sweep(view *fsm.View) {
	nowMS := view.Meta().TimeMS
	maps.DeleteFunc(p.refused, func(s subject, r refusal) bool {
		f, ok := factOf(view, s)
		return !ok || f != r.fact || nowMS > r.untilMS+refusalMaxMS
	})
}

// factOf is how a subject looks in the view; false if it is not there any more.
func factOf(view *fsm.View, s subject) (fact, bool) {
	switch {
	case s.dispatcher != 0:
		row, ok := view.Dispatcher(s.dispatcher)
		return fact{row: row}, ok
	case s.operator != 0:
		op, ok := view.Operator(s.operator)
		return fact{moved: op.Moved, aborting: op.Aborting}, ok && op.Result == 0
	default:
		n, ok := view.NodeOf(s.incarnation)
		return fact{status: n.Status}, ok
	}
}

// subjectsOf lists what a planned command is about.
func subjectsOf(c fsm.Command) []subject {
	switch c := c.(type) {
	case *fsm.CancelOperator:
		return []subject{{operator: c.Op}}
	case *fsm.FenceNode:
		return []subject{{incarnation: c.Incarnation}}
	case *fsm.AdmitOperator:
		if c.Op != fsm.OpMerge {
			return []subject{{dispatcher: c.Dispatcher}}
		}
		out := make([]subject, len(c.Sources))
		for i, id := range c.Sources {
			out[i] = subject{dispatcher: id}
		}
		return out
	default:
		return nil
	}
}

// plans runs the scheduler.
func (r *reign) plans(ctx context.Context) error { return r.every(ctx, planEvery, r.plan) }

func (r *reign) plan(ctx context.Context) error {
	view := r.fresh()
	if !r.owns(view) {
		return nil
	}
	if len(r.planning.refused) >= refusalsKept/2 {
		r.planning.sweep(view)
	}
	if len(r.planning.refused) >= refusalsKept {
		return nil // whatever refuses so many has to end first
	}
	plan := scheduler.Make(r.input(view))
	r.planning.next = plan.Next
	for batch := range slices.Chunk(plan.Proposals, perProposal) {
		if !r.proposePlan(ctx, view, batch) {
			return nil
		}
	}
	return nil
}

func (r *reign) input(view *fsm.View) scheduler.Input {
	nowMS := view.Meta().TimeMS
	return scheduler.Input{
		View: view, Limits: r.cfg.Limits, From: r.planning.next, Usable: r.usable(),
		Skip: func(row fsm.Dispatcher) bool {
			return r.planning.skip(subject{dispatcher: row.ID}, fact{row: row}, nowMS)
		},
		SkipOperator: func(op fsm.Operator) bool {
			return r.planning.skip(subject{operator: op.ID}, fact{moved: op.Moved, aborting: op.Aborting}, nowMS) ||
				r.skipFence(view, op, nowMS)
		},
		Loads: r.loads(view, r.cfg.Clock.Now()), SplitKeys: r.cfg.SplitKeys,
	}
}

// skipFence says whether fencing the node that an operator waits for has been refused.
func (r *reign) skipFence(view *fsm.View, op fsm.Operator, nowMS uint64) bool {
	row, waits := view.WaitsFor(op)
	s := subject{incarnation: row.Incarnation}
	f, there := factOf(view, s)
	return waits && there && r.planning.skip(s, f, nowMS)
}

// usable says which nodes get work: those that can be reached. A node that is about to expire would only delay it.
func (r *reign) usable() func(fsm.Node) bool {
	now := r.cfg.Clock.Now()
	silenced := r.tracker.Silenced(now)
	return func(n fsm.Node) bool {
		if _, is := slices.BinarySearch(silenced, uint64(n.Incarnation)); is {
			return false
		}
		c := r.contact(n.Incarnation)
		return c != nil && c.alive(now, leaseOf(n))
	}
}

func (r *reign) proposePlan(ctx context.Context, view *fsm.View, batch []fsm.Proposal) bool {
	commands := make([]fsm.Command, len(batch))
	for i := range batch {
		commands[i] = batch[i].Command
	}
	verdicts, err := r.propose(ctx, scheduler.By, commands...)
	if err != nil || len(verdicts) != len(batch) {
		r.log.Debug("plan not applied, the next one starts from the state", "error", err)
		return false
	}
	for i, v := range verdicts {
		r.settlePlan(view, commands[i], v)
	}
	r.kick()
	return true
}

func (r *reign) settlePlan(view *fsm.View, command fsm.Command, v fsm.Verdict) {
	if v.OK() {
		r.counters.planned.Add(1)
		for _, s := range subjectsOf(command) {
			delete(r.planning.refused, s)
		}
		return
	}
	r.counters.plansRefused.Add(1)
	r.log.Debug("planned command refused", "command", command.Kind(), "about", subjectsOf(command), "reason", v.Reason)
	for _, s := range subjectsOf(command) {
		if f, there := factOf(view, s); there {
			r.planning.refuse(s, f, view.Meta().TimeMS)
		}
	}
}
