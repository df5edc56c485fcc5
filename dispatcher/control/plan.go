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
	refused map[fsm.DispatcherID]refusal
}

// refusal remembers a proposal that Apply refused: while the dispatcher has not changed it is made again only after a
// wait that doubles, since what stood in the way may have been something else.
type refusal struct {
	row     fsm.Dispatcher
	untilMS uint64
	waitMS  uint64
}

func (p *planning) skip(row fsm.Dispatcher, nowMS uint64) bool {
	f, ok := p.refused[row.ID]
	return ok && f.row == row && nowMS < f.untilMS
}

func (p *planning) refuse(row fsm.Dispatcher, nowMS uint64) {
	wait := uint64(refusalMS)
	if f, ok := p.refused[row.ID]; ok && f.row == row {
		wait = min(2*f.waitMS, refusalMaxMS)
	}
	p.refused[row.ID] = refusal{row: row, untilMS: nowMS + wait, waitMS: wait}
}

// sweep forgets refusals of dispatchers that have changed or gone, and those that no plan has come back to.
func (p *planning) sweep(view *fsm.View) {
	nowMS := view.Meta().TimeMS
	maps.DeleteFunc(p.refused, func(id fsm.DispatcherID, f refusal) bool {
		row, ok := view.Dispatcher(id)
		return !ok || row != f.row || nowMS > f.untilMS+refusalMaxMS
	})
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
	nowMS := view.Meta().TimeMS
	plan := scheduler.Place(scheduler.Input{
		View: view, Limits: r.cfg.Limits, From: r.planning.next, Usable: r.usable(),
		Skip: func(row fsm.Dispatcher) bool { return r.planning.skip(row, nowMS) },
	})
	r.planning.next = plan.Next
	for batch := range slices.Chunk(plan.Proposals, perProposal) {
		if !r.proposePlan(ctx, view, batch) {
			return nil
		}
	}
	return nil
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
	admit, ok := command.(*fsm.AdmitOperator)
	if !ok {
		return
	}
	if v.OK() {
		r.counters.planned.Add(1)
		delete(r.planning.refused, admit.Dispatcher)
		return
	}
	r.counters.plansRefused.Add(1)
	r.log.Debug("planned operator refused", "dispatcher", admit.Dispatcher, "to", admit.To, "reason", v.Reason)
	if row, there := view.Dispatcher(admit.Dispatcher); there {
		r.planning.refuse(row, view.Meta().TimeMS)
	}
}
