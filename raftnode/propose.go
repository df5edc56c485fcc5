package raftnode

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// Limits of group commit.
const (
	// MaxEntryCommands is how many commands one entry holds at most; urgent ones do not count.
	MaxEntryCommands = 256
	// MaxEntryBytes is how large an entry grows by packing; a single command may be larger.
	MaxEntryBytes = 64 << 10
	// MaxCommandBytes is the largest command.
	MaxCommandBytes = 512 << 10

	maxQueued       = 16384 // commands that may wait
	entriesInFlight = 4
	retryDelay      = 20 * time.Millisecond
	levelRetries    = 3 // how often a FEATURE_LEVEL refusal is tried again
)

// proposer packs what is waiting into log entries. One goroutine packs; each entry in flight has one that waits for it.
type proposer struct {
	cfg *Config
	// apply hands an entry to Raft; it blocks until Raft's main loop takes it, at most for the timeout.
	apply func(data []byte, timeout time.Duration) raft.ApplyFuture
	// leading is the term in which proposals may be made now.
	leading func() (term uint64, ok bool)
	// committed is told that an entry of this server has been applied.
	committed func()

	wake     chan struct{} // one slot: something to look at
	slots    chan struct{} // one per entry in flight
	routines group

	mu            sync.Mutex
	urgent, queue []*pending
	closed        bool
	flying        map[*flight]struct{}
}

// flight is an entry in flight.
type flight struct {
	since clock.Reading
	batch []*pending
}

func newProposer(cfg *Config) *proposer {
	return &proposer{
		cfg: cfg, wake: make(chan struct{}, 1), slots: make(chan struct{}, entriesInFlight),
		flying: make(map[*flight]struct{}),
	}
}

// propose queues commands and waits for their verdicts.
func (p *proposer) propose(ctx context.Context, urgent bool, proposals []fsm.Proposal) ([]fsm.Verdict, error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	term, ok := p.leading()
	if !ok {
		return nil, classError(ClassNotLeader, "")
	}
	c, err := newCall(proposals, term)
	if err != nil {
		return nil, err
	}
	if err := p.enqueue(c, urgent); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.ProposeTimeout)
	defer cancel()
	select {
	case <-c.done:
		return c.result()
	case <-ctx.Done():
		return c.withdraw(ctx)
	}
}

func (p *proposer) enqueue(c *call, urgent bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return classError(ClassShuttingDown, "")
	case !urgent && len(p.queue)+len(c.items) > max(maxQueued, len(c.items)):
		return classError(ClassOverloaded, fmt.Sprintf("%d commands are waiting", len(p.queue)))
	}
	for i := range c.items {
		if urgent {
			p.urgent = append(p.urgent, &c.items[i])
		} else {
			p.queue = append(p.queue, &c.items[i])
		}
	}
	p.poke()
	return nil
}

// poke makes the packer look again.
func (p *proposer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run packs until the context ends; then nothing is taken any more, and what is queued is answered.
func (p *proposer) run(ctx context.Context) {
	defer p.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for p.waiting() {
			select {
			case <-ctx.Done():
				return
			case p.slots <- struct{}{}:
			}
			p.dispatch(ctx, p.take())
		}
	}
}

func (p *proposer) close() {
	p.mu.Lock()
	p.closed = true
	left := slices.Concat(p.urgent, p.queue)
	p.urgent, p.queue = nil, nil
	p.mu.Unlock()
	for _, item := range left {
		item.call.fail(item, classError(ClassShuttingDown, ""))
	}
}

func (p *proposer) waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.urgent)+len(p.queue) > 0
}

// take removes from the queue what goes into the next entry: everything urgent, then what fits. Commands whose callers
// have given up are left out.
func (p *proposer) take() []*pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []*pending
	for _, item := range p.urgent {
		if item.call.claim(item) {
			batch = append(batch, item)
		}
	}
	p.urgent = nil
	used, size, room := 0, 0, MaxEntryCommands
	for _, item := range p.queue {
		if room == 0 || (size > 0 && size+item.size > MaxEntryBytes) {
			break
		}
		used++
		if !item.call.claim(item) {
			continue
		}
		batch = append(batch, item)
		size += item.size
		room--
	}
	p.queue = p.queue[used:]
	if len(p.queue) == 0 {
		p.queue = nil // give the array free
	}
	return batch
}

// dispatch stamps a batch with the present term and hands it to Raft. It holds a slot, which it or the flight gives back.
func (p *proposer) dispatch(ctx context.Context, batch []*pending) {
	term, ok := p.leading()
	batch = p.ofTerm(batch, term, ok)
	if len(batch) == 0 {
		<-p.slots
		return
	}
	data, err := p.encode(batch, term)
	if err != nil {
		p.failAll(batch, classError(ClassTooLarge, err.Error()))
		<-p.slots
		return
	}
	p.cfg.Faults.proposed(term, len(batch))
	f := &flight{since: p.cfg.Clock.Now(), batch: batch}
	p.mu.Lock()
	p.flying[f] = struct{}{}
	p.mu.Unlock()
	future := p.apply(data, p.cfg.CommitTimeout/2)
	p.routines.Go(func() {
		defer func() { <-p.slots }()
		verdicts, err := unwrap(future, len(batch))
		p.land(ctx, f, verdicts, err)
	})
}

// ofTerm answers those that were asked for in another term: what was decided by a leader dies with its term.
func (p *proposer) ofTerm(batch []*pending, term uint64, leading bool) []*pending {
	kept := batch[:0]
	for _, item := range batch {
		if leading && item.term == term {
			kept = append(kept, item)
			continue
		}
		item.call.fail(item, classError(ClassNotLeader, "leadership changed while the command waited"))
	}
	return kept
}

func (p *proposer) encode(batch []*pending, term uint64) ([]byte, error) {
	proposals := make([]fsm.Proposal, len(batch))
	size := 0
	for i, item := range batch {
		proposals[i] = item.proposal
		proposals[i].Term = term
		if proposals[i].WallMS == 0 {
			proposals[i].WallMS = p.cfg.Wall()
		}
		size += item.size
	}
	return logcodec.AppendEntry(make([]byte, 0, size+64), proposals)
}

func (p *proposer) failAll(batch []*pending, err *Error) {
	for _, item := range batch {
		item.call.fail(item, err)
	}
}

// land answers the callers of an entry. Refusals that say nothing about the command itself are tried again.
func (p *proposer) land(ctx context.Context, f *flight, verdicts []fsm.Verdict, err *Error) {
	p.mu.Lock()
	delete(p.flying, f)
	p.mu.Unlock()
	if err != nil {
		p.failAll(f.batch, err)
		return
	}
	p.committed()
	var again []*pending
	for i, item := range f.batch {
		if p.mayRetry(item, verdicts[i]) {
			again = append(again, item)
			continue
		}
		item.call.deliver(item, verdicts[i])
	}
	if len(again) > 0 {
		p.routines.Go(func() { p.retry(ctx, again) })
	}
}

func (p *proposer) mayRetry(item *pending, v fsm.Verdict) bool {
	switch {
	case v.Reason == fsm.StaleTerm:
		return true
	case v.Reason == fsm.FeatureLevel && item.retries < levelRetries:
		item.retries++
		return true
	default:
		return false
	}
}

// retry queues refused commands again in the term that this server leads by then; while it does not lead they have not
// been proposed, since their refusal left no trace.
func (p *proposer) retry(ctx context.Context, items []*pending) {
	stopped := clock.Sleep(ctx, p.cfg.Timers, retryDelay) != nil
	term, leading := p.leading()
	for _, item := range items {
		switch {
		case stopped:
			item.call.fail(item, classError(ClassShuttingDown, ""))
		case !leading || (item.fixed && item.term != term):
			item.call.fail(item, classError(ClassNotLeader, "leadership changed while the command waited"))
		default:
			p.requeue(item, term)
		}
	}
}

func (p *proposer) requeue(item *pending, term uint64) {
	if !item.call.unclaim(item) {
		return
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		item.term = term
		p.queue = append(p.queue, item)
	}
	p.mu.Unlock()
	if closed {
		item.call.fail(item, classError(ClassShuttingDown, ""))
		return
	}
	p.poke()
}

// oldest is how long the entry that was handed to Raft first has been waiting; zero if none is in flight.
func (p *proposer) oldest(now clock.Reading) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var age time.Duration
	for f := range p.flying {
		age = max(age, clock.MaxElapsed(f.since, now))
	}
	return age
}

// unwrap is the only place that looks at what the state machine answered through Raft: the library returns a refusal
// beside a nil error, so that whoever looks at the error alone takes it for success.
func unwrap(f raft.ApplyFuture, n int) ([]fsm.Verdict, *Error) {
	if err := f.Error(); err != nil {
		return nil, translate(err)
	}
	a, ok := f.Response().(answer)
	switch {
	case !ok:
		return nil, classError(ClassUnknownOutcome, "the state machine gave no answer")
	case a.fault != nil:
		return nil, classError(ClassUnknownOutcome, a.fault.Error())
	case len(a.verdicts) != n:
		return nil, classError(ClassUnknownOutcome, fmt.Sprintf("the state machine gave %d answers to %d commands", len(a.verdicts), n))
	default:
		return a.verdicts, nil
	}
}
