package scenario

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weir-project/weir/fsm"
)

var errBatch = errors.New("write batch alone on its line (entry-term= may stand before it), and its commands indented below it")

// Options change how a script is run. The zero value is right for users.
type Options struct {
	// Cell is called for each cell of the admission table that the script visits; nil is allowed.
	Cell func(cell fsm.Cell)
}

// Result is what running a script gave.
type Result struct {
	// Script is the script with the output that it really gave; what Run read up to a mistake, if there was one.
	Script string
	// Mismatches are the blocks whose expected output was another one.
	Mismatches []Mismatch
	// Entries counts the log entries.
	Entries uint64
}

// Mismatch is a block that printed something else than the script expects.
type Mismatch struct {
	Name      string // of the script
	Line      int    // where the block begins
	Want, Got []string
}

// Run reads a script and carries it out. Blocks with expected output are compared; a difference is a Mismatch, not an
// error, and the script goes on. An error is a mistake in the script or a broken invariant: it names the script and the
// line, and ends the run.
func Run(r io.Reader, name string, o Options) (Result, error) {
	pieces, err := readScript(r)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	run := runner{name: name, world: newWorld(o.Cell)}
	return run.all(pieces)
}

// runner carries out one script.
type runner struct {
	name    string
	world   *world
	started bool
	out     printer
	result  Result
}

func (r *runner) all(pieces []piece) (Result, error) {
	var err error
	for _, p := range pieces {
		if p.block == nil {
			r.out.line("%s", p.between.text)
			continue
		}
		if err = r.block(p.block); err != nil {
			break
		}
	}
	r.result.Script = r.out.text()
	r.result.Entries = r.world.index
	if at := (lineError{}); errors.As(err, &at) {
		err = fmt.Errorf("%s:%d: %w", r.name, at.number, at.err)
	}
	return r.result, err
}

// block carries out a block, copies it, and compares its output.
func (r *runner) block(b *block) error {
	for _, l := range b.commands {
		r.out.line("%s", l.text)
	}
	statements, err := b.statements()
	if err != nil {
		return err
	}
	if len(statements) == 0 && !b.expects {
		return nil
	}
	var p printer
	for _, s := range statements {
		if err = r.statement(s, &p); err != nil {
			err = r.complain(s, err, &p)
			break
		}
	}
	r.out.line("%s", separator)
	r.out.lines = append(r.out.lines, p.lines...)
	if err == nil && b.expects {
		r.compare(b, p.lines)
	}
	return err
}

// complain says at which line a statement went wrong; a broken invariant is part of the output.
func (r *runner) complain(s statement, err error, p *printer) error {
	if broken := (violation{}); errors.As(err, &broken) {
		p.line("%s", broken.Error())
	}
	if at := (lineError{}); errors.As(err, &at) {
		return err
	}
	return lineError{s.number, err}
}

func (r *runner) compare(b *block, got []string) {
	var want []string
	for _, l := range b.expected {
		want = append(want, l.text)
	}
	if !slices.Equal(want, got) {
		m := Mismatch{Name: r.name, Want: want, Got: got}
		if len(b.commands) > 0 {
			m.Line = b.commands[0].number
		} else if len(b.expected) > 0 {
			m.Line = b.expected[0].number - 1
		}
		r.result.Mismatches = append(r.result.Mismatches, m)
	}
}

func (r *runner) statement(s statement, p *printer) error {
	c, err := parseCall(s.line)
	if err != nil {
		return err
	}
	if !r.started {
		r.started = true
		if c.verb == bareVerb {
			p.line("bare: no term and no generation yet")
			return nil
		}
		if err := r.world.begin(); err != nil {
			return err
		}
	}
	if c.verb == batchVerb {
		return r.world.batch(c, s.inner, p)
	}
	v, err := verbNamed(c.verb)
	if len(s.inner) > 0 && !v.nests {
		return lineError{s.inner[0].number, errNotBatch}
	}
	if err != nil {
		return err
	}
	for _, l := range s.inner {
		item, err := parseCall(l)
		if err != nil {
			return lineError{l.number, err}
		}
		c.inner = append(c.inner, item)
	}
	if v.build != nil {
		return r.world.command(c, p)
	}
	return r.world.look(v, c, p)
}

// look carries out a verb that is no command of the log.
func (w *world) look(v verb, c call, p *printer) error {
	if len(c.envelope) > 0 || c.name != "" {
		return fmt.Errorf("%s takes nothing before it: it is no command of the log", c.verb)
	}
	a := newArgs(w, c)
	err := v.act(w, a, p)
	if fault := a.finish(); fault != nil {
		return fmt.Errorf("%w; usage: %s", fault, strings.TrimSpace(v.name+" "+v.usage))
	}
	return err
}

// outer takes what stands before a verb and belongs to the entry.
func (w *world) outer(c *call) (term, times uint64, err error) {
	a := &args{world: w, keys: c.envelope}
	term, times = a.number("entry-term", 0, 64), a.number("times", 1, 32)
	c.envelope = a.keys
	if times == 0 {
		a.fail("times=0: want at least one")
	}
	return term, times, a.err
}

// command carries out one command in an entry of its own, as often as it says.
func (w *world) command(c call, p *printer) error {
	entryTerm, times, err := w.outer(&c)
	if err != nil {
		return err
	}
	done := entryPrint{calls: []call{c}, before: w.state.View()}
	for done.times < times {
		again := c
		again.envelope = slices.Clone(c.envelope)
		proposal, err := w.proposal(again)
		if err != nil {
			return err
		}
		if done.verdicts, err = w.enter(entryTerm, []fsm.Proposal{proposal}); err != nil {
			return err
		}
		done.times++
		if err = w.checkInvariants(); err != nil {
			w.printEntry(p, done)
			return err
		}
	}
	w.printEntry(p, done)
	return nil
}

// batch carries out several commands in one entry. All of them are built from the state before it.
func (w *world) batch(outer call, inner []line, p *printer) error {
	entryTerm, times, err := w.outer(&outer)
	switch {
	case err != nil:
		return err
	case len(inner) == 0 || times != 1 || outer.name != "" || len(outer.envelope) > 0 || len(outer.params) > 0:
		return errBatch
	}
	done := entryPrint{before: w.state.View(), times: 1, batch: true}
	var proposals []fsm.Proposal
	for _, l := range inner {
		c, err := parseCall(l)
		if err != nil {
			return lineError{l.number, err}
		}
		proposal, err := w.proposal(c)
		if err != nil {
			return lineError{l.number, err}
		}
		done.calls, proposals = append(done.calls, c), append(proposals, proposal)
	}
	if done.verdicts, err = w.enter(entryTerm, proposals); err != nil {
		return err
	}
	w.printEntry(p, done)
	return w.checkInvariants()
}

// enter fills in the term and applies.
func (w *world) enter(entryTerm uint64, proposals []fsm.Proposal) ([]fsm.Verdict, error) {
	if entryTerm == 0 {
		entryTerm = w.term
	}
	for i := range proposals {
		if proposals[i].Term == 0 {
			proposals[i].Term = w.term
		}
	}
	return w.apply(entryTerm, proposals)
}
