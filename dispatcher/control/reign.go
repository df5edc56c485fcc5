package control

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// reign is everything that lives exactly as long as one term.
type reign struct {
	cfg      *Config
	counters *counters
	term     uint64
	log      hclog.Logger
	tracker  *fence.Tracker
	guard    *fence.Guard   // of the expiry loop alone
	planning planning       // of the scheduler's loop alone
	kicked   chan struct{}  // asks the order loop to look now
	served   sync.WaitGroup // sessions
	view     atomic.Pointer[fsm.View]

	mu        sync.Mutex
	over      bool
	contacts  map[fsm.Incarnation]*contact
	holders   map[fsm.ChangefeedID]holding // what holds each watermark
	committed clock.Reading                // when the newest tick that was applied had been captured; the term's begin before that
}

func newReign(cfg *Config, n *counters, term uint64) (*reign, error) {
	tracker, err := fence.NewTracker(fence.TrackerConfig{Term: term, Class: clock.ClassOf(cfg.Clock), Appends: cfg.Appends})
	if err != nil {
		return nil, err
	}
	guard, err := fence.NewGuard(fence.GuardConfig{SharePercent: cfg.SharePercent})
	if err != nil {
		return nil, err
	}
	return &reign{
		cfg: cfg, counters: n, term: term, log: cfg.Logger.With("term", term), tracker: tracker, guard: guard,
		planning: planning{refused: make(map[subject]refusal)}, kicked: make(chan struct{}, 1),
		contacts: make(map[fsm.Incarnation]*contact), holders: make(map[fsm.ChangefeedID]holding), committed: cfg.Clock.Now(),
	}, nil
}

// run keeps the loops of the term until ctx ends or one of them finds that the term is over.
func (r *reign) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ctx, r.close)()
	r.fresh()
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{r.ticks, r.watch, r.looks, r.expiries, r.plans, r.checkpoints, r.asks, r.drains} {
		loops.Go(func() {
			if err := loop(ctx); err != nil {
				stop(err)
			}
		})
	}
	loops.Wait()
	return context.Cause(ctx)
}

// close ends every session; from here on nothing of the term is sent or proposed.
func (r *reign) close() {
	c := notLeader(r.cfg.LeaderAddress())
	r.mu.Lock()
	r.over = true
	links := r.linksLocked()
	r.mu.Unlock()
	for _, k := range links {
		k.close(c)
	}
}

// end waits until the sessions are gone.
func (r *reign) end() {
	r.close()
	r.served.Wait()
}

func (r *reign) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// join adds a session; it takes the place of an older one of the same incarnation. False: the term is over.
func (r *reign) join(k *link) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	c := r.contacts[k.inc]
	if c == nil {
		c = newContact(k.inc)
		r.contacts[k.inc] = c
	}
	k.contact = c
	if old := c.connect(k); old != nil {
		old.close(replaced())
	}
	r.served.Add(1)
	r.counters.sessions.Add(1)
	r.kick()
	return true
}

func (r *reign) leave(k *link) {
	k.contact.disconnect(k)
	r.served.Done()
}

// contact returns what is known of an incarnation, nil for nothing.
func (r *reign) contact(inc fsm.Incarnation) *contact {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contacts[inc]
}

// known returns all contacts, by incarnation.
func (r *reign) known() []*contact {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*contact, 0, len(r.contacts))
	for _, c := range r.contacts {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *contact) int { return compare(a.inc, b.inc) })
	return out
}

func (r *reign) linksLocked() []*link {
	var out []*link
	for _, c := range r.contacts {
		if k := c.connected(); k != nil {
			out = append(out, k)
		}
	}
	return out
}

func (r *reign) forget(inc fsm.Incarnation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.contacts, inc)
}

// fresh takes a view that contains all that has been applied, and keeps it for those who do not need the newest.
func (r *reign) fresh() *fsm.View {
	v := r.cfg.Viewer.View()
	for {
		old := r.view.Load()
		if old != nil && old.Meta().Index >= v.Meta().Index {
			return v
		}
		if r.view.CompareAndSwap(old, v) {
			return v
		}
	}
}

// recent is a view at most a look old, and not older than any order that has been sent.
func (r *reign) recent() *fsm.View { return r.view.Load() }

// owns says whether the view is of this term.
func (r *reign) owns(v *fsm.View) bool { return v.Meta().Term == r.term }

// propose proposes in this term, unless it is over.
func (r *reign) propose(ctx context.Context, by string, commands ...fsm.Command) ([]fsm.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timing.LeaderGivesUpAfter())
	defer cancel()
	if r.isOver() {
		return nil, ErrTermOver
	}
	return r.cfg.Proposer.Propose(ctx, r.proposals(by, commands)...)
}

func (r *reign) proposals(by string, commands []fsm.Command) []fsm.Proposal {
	wall := r.cfg.WallMS()
	out := make([]fsm.Proposal, len(commands))
	for i, c := range commands {
		out[i] = fsm.Proposal{Term: r.term, WallMS: wall, By: by, Command: c}
	}
	return out
}

func (r *reign) kick() {
	select {
	case r.kicked <- struct{}{}:
	default:
	}
}

// every calls f at once and then each period, until ctx ends or f fails.
func (r *reign) every(ctx context.Context, period time.Duration, f func(context.Context) error) error {
	t := r.cfg.Timers.NewTicker(period)
	defer t.Stop()
	for {
		if err := f(ctx); err != nil {
			return err
		}
		select {
		case <-t.C():
		case <-ctx.Done():
			return nil
		}
	}
}
