package scenario

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// world is what a script acts on: one state machine, its log's next index and term, and the names that were given.
type world struct {
	state *fsm.State
	cell  func(fsm.Cell)
	index uint64
	term  uint64
	names map[string]memory
	last  memory
	// holds checks the invariants; they are checked after every entry.
	holds func(v *fsm.View) error
}

// memory is what $NAME stands for: a verdict, and the dispatchers that its entry made. What a use of the name means
// (operator, epoch, node, index, dispatcher) is decided where it is used.
type memory struct {
	verdict fsm.Verdict
	born    []fsm.DispatcherID
}

func newWorld(cell func(fsm.Cell)) *world {
	w := &world{state: fsm.New(), cell: cell, term: firstTerm, names: map[string]memory{}, holds: (*fsm.View).CheckInvariants}
	w.trace()
	return w
}

// trace tells of visited cells of the admission table, also after the state was exchanged.
func (w *world) trace() {
	if w.cell != nil {
		w.state.TraceAdmissions(w.cell)
	}
}

// begin opens the first term and generation in one entry, as bootstrap does.
func (w *world) begin() error {
	_, err := w.apply(w.term, []fsm.Proposal{
		{Term: w.term, Command: &fsm.BeginTerm{Server: firstServer}},
		{Term: w.term, Command: &fsm.BeginGeneration{
			Generation: firstGeneration, Cluster: clusterName, Why: fsm.GenerationBootstrap,
		}},
	})
	return err
}

// apply carries out one entry, through its bytes as every server does.
func (w *world) apply(term uint64, proposals []fsm.Proposal) ([]fsm.Verdict, error) {
	data, err := logcodec.AppendEntry(nil, proposals)
	if err != nil {
		return nil, fmt.Errorf("encode the entry: %w", err)
	}
	w.index++
	entry, err := logcodec.DecodeEntry(w.index, term, data)
	if err != nil {
		return nil, fmt.Errorf("read the entry back: %w", err)
	}
	return w.state.Apply(entry), nil
}

// violation is a broken invariant.
type violation struct{ err error }

func (v violation) Error() string { return "an invariant is broken: " + v.err.Error() }

// Unwrap gives the broken invariant itself.
func (v violation) Unwrap() error { return v.err }

func (w *world) checkInvariants() error {
	if err := w.holds(w.state.View()); err != nil {
		return violation{err}
	}
	return nil
}

// proposal builds one command with its envelope. The term is filled in when the whole entry has been built, since a
// begin-term in it opens the term of all.
func (w *world) proposal(c call) (fsm.Proposal, error) {
	v, err := verbNamed(c.verb)
	if err != nil {
		return fsm.Proposal{}, err
	}
	if v.build == nil {
		return fsm.Proposal{}, fmt.Errorf("%s is no command of the log: a batch holds only those", c.verb)
	}
	a := newArgs(w, c)
	p := fsm.Proposal{Command: v.build(a)}
	if err := a.finish(); err != nil {
		return fsm.Proposal{}, fmt.Errorf("%w; usage: %s", err, strings.TrimSpace(v.name+" "+v.usage))
	}
	return p, w.stamp(&p, c.envelope)
}

// stamp fills in what the proposer of a command says besides it.
func (w *world) stamp(p *fsm.Proposal, envelope []parameter) error {
	a := &args{world: w, keys: envelope}
	p.Term = a.number("term", 0, 64)
	p.Level = uint32(a.number("level", 0, 32))
	p.Request = fsm.RequestID(a.text("req", ""))
	p.RequestTimeMS = a.number("time", w.state.Meta().TimeMS, 64)
	p.WallMS = int64(a.number("wall", 0, 63))
	p.By = a.text("by", "")
	if p.Request == "" {
		p.RequestTimeMS = 0
	}
	if a.err == nil && len(a.keys) > 0 {
		a.fail("%s= is not known before a verb: want term, level, req, time, wall or by (entry-term and times before a verb that stands alone)", a.keys[0].key)
	}
	return a.err
}
