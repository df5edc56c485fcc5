package control

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// byLeader signs what the loop proposes by itself.
const byLeader = "leader"

// tickBits is the widest bitmap of one tick. Incarnations that lie further apart go into ticks of their own in the same
// entry.
const tickBits = 1 << 16

// ticks proposes one tick after another, one at a time: when one takes longer than a period, the next one captures what
// was heard meanwhile.
func (r *reign) ticks(ctx context.Context) error {
	begin := r.cfg.Clock.Now()
	var told time.Duration // of the time since begin, what ticks have carried
	return r.every(ctx, r.cfg.Timing.Tick, func(ctx context.Context) error {
		now := r.cfg.Clock.Now()
		since := clock.MinElapsed(begin, now).Truncate(time.Millisecond)
		r.tick(ctx, now, since-told)
		told = since
		return nil
	})
}

// tick captures what was heard, proposes it, and releases the acks of what the verdict accepted. The reading was taken
// before the capture; acks carry the time between captures.
func (r *reign) tick(ctx context.Context, now clock.Reading, elapsed time.Duration) {
	batch := r.tracker.Capture()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timing.LeaderGivesUpAfter())
	defer cancel()
	if r.isOver() {
		return
	}
	verdicts, err := r.cfg.Proposer.ProposeTick(ctx, r.proposals(byLeader, tickCommands(batch.Incarnations(), elapsed))...)
	if err == nil {
		err = allAccepted(verdicts)
	}
	if err != nil {
		r.counters.ticksLost.Add(1)
		r.log.Debug("tick not applied, its heartbeats are not acknowledged", "error", err)
		return
	}
	r.counters.ticks.Add(1)
	r.noteCommitted(now)
	index, refused := verdicts[0].Index, refusedNames(verdicts)
	if len(refused) > 0 {
		r.counters.refusedNames.Add(uint64(len(refused)))
		r.kick()
	}
	// An accepted tick is of the term that the state was in. If that is still this one, so was the entry's.
	term := r.fresh().Meta().Term
	r.release(r.tracker.Release(batch, term, refused, now), index, now)
}

func (r *reign) release(acks []fence.Ack, index uint64, captured clock.Reading) {
	for _, a := range acks {
		c := r.contact(fsm.Incarnation(a.Incarnation))
		if c != nil && c.acknowledge(a, index, captured) {
			r.counters.acks.Add(1)
		}
	}
}

// tickCommands names the incarnations, ascending, in as few bitmaps as their distance allows; the first carries the time.
func tickCommands(incs []uint64, elapsed time.Duration) []fsm.Command {
	first := &fsm.Tick{ElapsedMS: uint32(min(elapsed.Milliseconds(), fsm.MaxTickMS))}
	commands := []fsm.Command{first}
	t := first
	for _, inc := range incs {
		switch {
		case len(t.Bits) == 0:
			t.Base = fsm.Incarnation(inc)
		case inc-uint64(t.Base) >= tickBits:
			t = &fsm.Tick{Base: fsm.Incarnation(inc)}
			commands = append(commands, t)
		}
		bit := inc - uint64(t.Base)
		for uint64(len(t.Bits)) <= bit/8 {
			t.Bits = append(t.Bits, 0)
		}
		t.Bits[bit/8] |= 1 << (bit % 8)
	}
	return commands
}

func allAccepted(verdicts []fsm.Verdict) error {
	if len(verdicts) == 0 {
		return fmt.Errorf("the tick was answered without a verdict")
	}
	for _, v := range verdicts {
		if !v.OK() {
			return fmt.Errorf("the tick was refused: %s", v.Reason)
		}
	}
	return nil
}

func refusedNames(verdicts []fsm.Verdict) []uint64 {
	var out []uint64
	for _, v := range verdicts {
		for _, inc := range v.RefusedNames {
			out = append(out, uint64(inc))
		}
	}
	return out
}

func (r *reign) noteCommitted(at clock.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = at
}

// watch gives leadership up when no tick has been applied for half a lease, so that another leader has the other half.
func (r *reign) watch(ctx context.Context) error {
	return r.every(ctx, r.cfg.Timing.Tick, func(context.Context) error {
		r.mu.Lock()
		last := r.committed
		r.mu.Unlock()
		now, limit := r.cfg.Clock.Now(), r.cfg.Timing.LeaderGivesUpAfter()
		stuck := clock.MaxElapsed(last, now)
		if stuck < limit {
			return nil
		}
		r.noteCommitted(now) // ask again after another half lease
		r.counters.stepDowns.Add(1)
		reason := fmt.Sprintf("no tick of term %d has been applied here for %v, more than half a lease (%v): "+
			"giving up leadership before the nodes' leases end", r.term, stuck, limit)
		r.log.Warn(reason)
		r.cfg.StepDown(reason)
		return nil
	})
}
