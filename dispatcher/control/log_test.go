package control

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

var (
	errNotProposed = errors.New("not proposed")
	errUnknown     = errors.New("outcome unknown")
)

// hooks are what a test puts in the way of proposals; each is called with the first proposal of an entry.
type hooks struct {
	delay  func(fsm.Proposal) time.Duration       // before the entry is applied
	refuse func(fsm.Proposal) error               // instead of applying it
	answer func(fsm.Proposal) (fsm.Verdict, bool) // instead of applying it
	before func(fsm.Proposal)                     // right before it is applied: puts others ahead of it
	lose   func(fsm.Proposal) error               // instead of answering, after it was applied
	// restamp breaks the contract of a proposer: what comes late is put under the term that is there by then.
	restamp bool
}

// fakeLog is a Raft log of one server: it applies what is proposed to a real state machine, after the delays and with the
// losses that a test asks for. It applies under its own term, whatever a proposal says.
type fakeLog struct {
	clk     clock.Clock
	appends *fence.Appends

	mu      sync.Mutex
	s       *fsm.State
	index   uint64
	term    uint64
	frozen  *fsm.View // what View shows instead of the state
	entries []fsm.Entry
	hooks
}

func newFakeLog(clk clock.Clock) *fakeLog {
	l := &fakeLog{clk: clk, appends: fence.NewAppends(), s: fsm.New(), term: 1}
	l.do(&fsm.BeginTerm{Server: "s1"})
	l.do(&fsm.BeginGeneration{Generation: 7, Cluster: "test", Why: fsm.GenerationBootstrap})
	return l
}

func (l *fakeLog) View() *fsm.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		return l.frozen
	}
	return l.s.View()
}

// freeze makes the views stand still, as on a server that applies no more.
func (l *fakeLog) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = l.s.View()
}

func (l *fakeLog) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = nil
}

// do applies one command of somebody else.
func (l *fakeLog) do(c fsm.Command) fsm.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.apply([]fsm.Proposal{{Term: l.term, Command: c}})[0]
}

// begin lets another leader begin a term.
func (l *fakeLog) begin(server fsm.ServerID) uint64 {
	l.mu.Lock()
	l.term++
	term := l.term
	l.mu.Unlock()
	l.do(&fsm.BeginTerm{Server: server})
	return term
}

func (l *fakeLog) apply(proposals []fsm.Proposal) []fsm.Verdict {
	l.index++
	l.appends.NoteAppend(l.index, l.clk.Now())
	e := fsm.Entry{Index: l.index, Term: l.term, Proposals: proposals}
	l.entries = append(l.entries, e)
	return l.s.Apply(e)
}

// hook sets hooks.
func (l *fakeLog) hook(h hooks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hooks = h
}

func (l *fakeLog) hooked() hooks {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hooks
}

func (l *fakeLog) ProposeTick(ctx context.Context, p ...fsm.Proposal) ([]fsm.Verdict, error) {
	return l.Propose(ctx, p...)
}

func (l *fakeLog) Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error) {
	h := l.hooked()
	first := proposals[0]
	if h.delay != nil {
		if err := clock.Sleep(ctx, clock.SystemTimers{}, h.delay(first)); err != nil {
			return nil, err
		}
	}
	if h.refuse != nil {
		if err := h.refuse(first); err != nil {
			return nil, err
		}
	}
	if h.answer != nil {
		if v, ok := h.answer(first); ok {
			return slices.Repeat([]fsm.Verdict{v}, len(proposals)), nil
		}
	}
	if h.before != nil {
		h.before(first)
	}
	l.mu.Lock()
	for i := range proposals {
		if h.restamp {
			proposals[i].Term = l.term
		}
	}
	verdicts := l.apply(proposals)
	l.mu.Unlock()
	if h.lose != nil {
		if err := h.lose(first); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// of returns the applied commands of one type, with the index of their entries.
func of[C fsm.Command](l *fakeLog) (out []C, at []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		for _, p := range e.Proposals {
			if c, ok := p.Command.(C); ok {
				out, at = append(out, c), append(at, e.Index)
			}
		}
	}
	return out, at
}

// names says which incarnations a tick names.
func names(t *fsm.Tick) []fsm.Incarnation {
	var out []fsm.Incarnation
	for i := range len(t.Bits) * 8 {
		if t.Bits[i/8]>>(i%8)&1 == 1 {
			out = append(out, t.Base+fsm.Incarnation(i))
		}
	}
	return out
}
