package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Leader serves the nodes while its server leads. All methods are safe for concurrent use.
type Leader struct {
	cfg      Config
	counters counters

	mu    sync.Mutex
	reign *reign // nil between terms
}

// New returns a Leader that does not lead. An error names every setting that is missing or wrong.
func New(cfg Config) (*Leader, error) {
	if cfg.Limits == (scheduler.Limits{}) {
		cfg.Limits = scheduler.DefaultLimits()
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if cfg.LeaderAddress == nil {
		cfg.LeaderAddress = func() string { return "" }
	}
	return &Leader{cfg: cfg}, nil
}

// ErrTermOver ends a Run whose term has been succeeded by another one in the applied state.
var ErrTermOver = errors.New("the applied state is of a newer term")

// Run leads in term until ctx ends, and returns its cause, or ErrTermOver when the applied state shows a newer term. Call
// it once the term's own first entry has been applied, for one term at a time. When it has returned every goroutine of
// the term is gone, but for those of sessions that wait for a stream to break; they do nothing any more.
func (l *Leader) Run(ctx context.Context, term uint64) error {
	r, err := newReign(&l.cfg, &l.counters, term)
	if err != nil {
		return fmt.Errorf("lead in term %d: %w", term, err)
	}
	if err := l.begin(r); err != nil {
		return err
	}
	err = r.run(ctx)
	l.mu.Lock()
	l.reign = nil
	l.mu.Unlock()
	r.end()
	return err
}

func (l *Leader) begin(r *reign) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reign != nil {
		return fmt.Errorf("lead in term %d: term %d has not ended; wait for its Run to return", r.term, l.reign.term)
	}
	l.reign = r
	return nil
}

func (l *Leader) current() *reign {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reign
}

// Serve handles one session until it ends: nil when a Close has been sent to the node, else the error that broke the
// stream. Hello has been received already. The caller breaks the stream when Serve has returned: a Recv and perhaps a
// Send that are under way end with that.
//
// The end of ctx closes the session as SERVER_STOPPING.
func (l *Leader) Serve(ctx context.Context, stream session.LeaderStream, hello session.Hello) error {
	r := l.current()
	if r == nil {
		return l.refuse(stream, l.notLeader())
	}
	if c := r.admit(hello); c != nil {
		return l.refuse(stream, *c)
	}
	k := newLink(stream, hello)
	if !r.join(k) {
		return l.refuse(stream, l.notLeader())
	}
	defer r.leave(k)
	return r.serve(ctx, k)
}

func (l *Leader) refuse(stream session.LeaderStream, c session.Close) error {
	l.counters.refusedSessions.Add(1)
	if err := stream.Send(session.FromLeader{Close: &c}); err != nil {
		return fmt.Errorf("refuse session as %s: %w", c.Reason, err)
	}
	return nil
}

func (l *Leader) notLeader() session.Close { return notLeader(l.cfg.LeaderAddress()) }

// Progress is the newest word of the owner about how far a dispatcher is under its current epoch; soft state of this
// term. False: nothing is known, or this server does not lead.
func (l *Leader) Progress(id fsm.DispatcherID) (session.Progress, bool) {
	r := l.current()
	if r == nil {
		return session.Progress{}, false
	}
	return r.progressOf(id)
}

// Leases describes every live or fenced node as this leader sees it, by name; nil when this server does not lead.
func (l *Leader) Leases() []LeaseInfo {
	r := l.current()
	if r == nil {
		return nil
	}
	return r.leases()
}

// Counters returns what this Leader has done since it was made, in all terms.
func (l *Leader) Counters() Counters { return l.counters.read() }
