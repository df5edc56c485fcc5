package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/history"
)

// Doer carries an operation out and records it.
type Doer interface {
	Do(ctx context.Context, r caller.Request, spec history.Spec) *history.Operation
}

// BatchDoer carries many admissions out in one call.
type BatchDoer interface {
	DoBatch(ctx context.Context, r caller.Request, specs []history.Spec) []*history.Operation
}

// Client is one client of the workload.
type Client struct {
	Name string
	Doer Doer
	// Twin sends some of the requests a second time, through other connections.
	Twin Doer
	// Clock tells the log time that requests carry.
	Clock func(context.Context) (uint64, error)
	// NoCancel: this client cannot cancel.
	NoCancel bool
	// Batch, if more than 1, is how many operators it asks for in one call, through Doer and Twin as BatchDoers.
	Batch int
	Rand  *rand.Rand
}

// Admissions is many clients that race for the same dispatchers.
type Admissions struct {
	Clients []*Client
	Board   *Board
	// Rate is how many new requests a second all clients make together, at most.
	Rate int
	// TwinShare of 100 requests are sent twice on purpose.
	TwinShare int
	// Most is how many requests are made at most; 0: no bound. A cluster remembers a bounded number of answers, and all
	// of them are asked for again after the run.
	Most int

	requests sync.Mutex
	count    int
}

// Run asks until the context ends and returns when every client has had its last answer.
func (a *Admissions) Run(ctx context.Context) error {
	pace := NewPace(a.Rate)
	var wait sync.WaitGroup
	errs := make(chan error, len(a.Clients))
	for _, c := range a.Clients {
		wait.Go(func() {
			for pace.Turns(ctx, max(1, c.Batch)) && !a.enough() {
				ask := a.one
				if c.Batch > 1 {
					ask = a.many
				}
				if err := ask(ctx, c); err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(errs)
	return <-errs
}

// one makes one request. It is not cut off when the run ends: an answer that nobody waits for proves nothing.
func (a *Admissions) one(ctx context.Context, c *Client) error {
	spec, ok := a.choose(c)
	if !ok {
		return nil
	}
	request, err := a.request(ctx, c, 1)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	wait := a.twin(c, request, func() { c.Twin.Do(ctx, request, spec) })
	a.learn(c.Doer.Do(ctx, request, spec))
	wait()
	return nil
}

// many makes one call with many requests.
func (a *Admissions) many(ctx context.Context, c *Client) error {
	mine, can := c.Doer.(BatchDoer)
	twin, twinCan := c.Twin.(BatchDoer)
	if !can || !twinCan {
		return fmt.Errorf("client %s cannot ask for batches", c.Name)
	}
	var specs []history.Spec
	for range c.Batch {
		if spec, ok := a.choose(c); ok && spec.Kind != history.Cancel {
			specs = append(specs, spec)
		}
	}
	if len(specs) == 0 {
		return nil
	}
	request, err := a.request(ctx, c, len(specs))
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	wait := a.twin(c, request, func() { twin.DoBatch(ctx, request, specs) })
	for _, op := range mine.DoBatch(ctx, request, specs) {
		a.learn(op)
	}
	wait()
	return nil
}

// request names a request, which stands for n.
func (a *Admissions) request(ctx context.Context, c *Client, n int) (caller.Request, error) {
	now, err := c.Clock(ctx)
	if err != nil {
		return caller.Request{}, fmt.Errorf("client %s: %w", c.Name, err)
	}
	a.requests.Lock()
	defer a.requests.Unlock()
	a.count += n
	return caller.Request{ID: fmt.Sprintf("%s-%d", c.Name, a.count), TimeMS: now, Twin: c.Rand.IntN(100) < a.TwinShare}, nil
}

// twin sends the request a second time, a little later, if it is one of those; wait returns when it has been answered.
func (a *Admissions) twin(c *Client, r caller.Request, send func()) (wait func()) {
	var twin sync.WaitGroup
	if r.Twin {
		delay := time.Duration(c.Rand.IntN(40)) * time.Millisecond
		twin.Go(func() {
			time.Sleep(delay)
			send()
		})
	}
	return twin.Wait
}

func (a *Admissions) learn(op *history.Operation) {
	if op.Answer.Outcome == history.OK && op.Answer.Operator != 0 {
		a.Board.Admitted(op.Answer.Operator)
	}
}

func (a *Admissions) enough() bool {
	a.requests.Lock()
	defer a.requests.Unlock()
	return a.Most > 0 && a.count >= a.Most
}

// choose picks what to ask for: mostly moves and adds of the small dispatchers, which all clients race for.
func (a *Admissions) choose(c *Client) (history.Spec, bool) {
	r := c.Rand
	if r.IntN(100) < 2 {
		d, ok := a.Board.Any(r, Busy)
		return history.Spec{Kind: history.Move, Dispatcher: d.ID, FromAny: true, To: a.Board.Node(r)}, ok
	}
	d, ok := a.Board.Any(r, Small)
	if !ok {
		return history.Spec{}, false
	}
	spec := history.Spec{Dispatcher: d.ID, To: a.Board.Node(r)}
	switch dice := r.IntN(100); {
	case dice < 35:
		spec.Kind, spec.FromAny = history.Move, true
	case dice < 55:
		spec.Kind, spec.From = history.Move, d.Owner
	case dice < 60:
		spec.Kind = history.Move // from nowhere: acts as an add
	case dice < 80 || c.NoCancel:
		spec.Kind = history.Add
	default:
		operator, known := a.Board.Operator(r)
		return history.Spec{Kind: history.Cancel, Operator: operator}, known
	}
	return spec, true
}

// Pace hands out turns at a rate; turns that were missed while nothing went are made up for, within a bound.
type Pace struct {
	mu     sync.Mutex
	period time.Duration
	next   time.Time
}

// NewPace hands out so many turns a second.
func NewPace(rate int) *Pace {
	return &Pace{period: time.Second / time.Duration(rate), next: time.Now()}
}

// Turns takes some turns and returns at the last of them; false when the context ends first.
func (p *Pace) Turns(ctx context.Context, n int) bool {
	const behind = 4 * time.Second
	p.mu.Lock()
	now := time.Now()
	if now.Sub(p.next) > behind {
		p.next = now.Add(-behind)
	}
	p.next = p.next.Add(time.Duration(n) * p.period)
	at := p.next
	p.mu.Unlock()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
