package raftnode

import (
	"context"
	"fmt"
	"sync"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// pending is one command on its way. Its call's lock guards what; the goroutine that has it claimed owns the rest.
type pending struct {
	call     *call
	slot     int // position in the call
	what     stage
	proposal fsm.Proposal
	size     int
	term     uint64 // in which it may be proposed
	fixed    bool   // the caller chose the term
	retries  int
}

// stage is how far a pending command has come.
type stage uint8

const (
	stageQueued  stage = iota + 1 // not proposed
	stageClaimed                  // may have been proposed
	stageDone                     // has its verdict or its error
)

// call is one Propose.
type call struct {
	items []pending
	done  chan struct{} // closed when every command has ended

	mu       sync.Mutex
	verdicts []fsm.Verdict // zero for commands without one
	decided  int           // commands with a verdict
	left     int           // commands that have not ended
	err      *Error        // the worst
}

func newCall(proposals []fsm.Proposal, term uint64) (*call, error) {
	c := &call{
		items: make([]pending, len(proposals)), verdicts: make([]fsm.Verdict, len(proposals)),
		left: len(proposals), done: make(chan struct{}),
	}
	for i, p := range proposals {
		size := logcodec.Size(p)
		if size > MaxCommandBytes {
			return nil, classError(ClassTooLarge, fmt.Sprintf("a command has %d bytes, at most %d fit", size, MaxCommandBytes))
		}
		item := pending{call: c, slot: i, what: stageQueued, proposal: p, size: size, term: term}
		if p.Term != 0 {
			item.term, item.fixed = p.Term, true
		}
		c.items[i] = item
	}
	return c, nil
}

// claim takes a command out of the queue; false if its caller has given up.
func (c *call) claim(item *pending) bool { return c.step(item, stageQueued, stageClaimed) }

// unclaim returns a command to the queue that was refused without a trace; false if its caller has given up.
func (c *call) unclaim(item *pending) bool { return c.step(item, stageClaimed, stageQueued) }

func (c *call) step(item *pending, from, to stage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item.what != from {
		return false
	}
	item.what = to
	return true
}

func (c *call) deliver(item *pending, v fsm.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item.what == stageDone {
		return
	}
	c.verdicts[item.slot] = v
	c.decided++
	c.end(item)
}

func (c *call) fail(item *pending, err *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item.what == stageDone {
		return
	}
	c.blame(err)
	c.end(item)
}

// blame keeps the worst error. Requires c.mu.
func (c *call) blame(err *Error) {
	if c.err == nil || (err.Class.MaybeProposed() && !c.err.Class.MaybeProposed()) {
		c.err = err
	}
}

// end counts a command as ended. Requires c.mu.
func (c *call) end(item *pending) {
	item.what = stageDone
	c.left--
	if c.left == 0 {
		close(c.done)
	}
}

// withdraw ends the call when its context has ended. Commands still in the queue will not be proposed.
func (c *call) withdraw(ctx context.Context) ([]fsm.Verdict, error) {
	c.mu.Lock()
	for i := range c.items {
		item := &c.items[i]
		switch item.what {
		case stageQueued:
			c.blame(contextError(ctx, ClassOverloaded, "the command waited in the queue until its time was over"))
			c.end(item)
		case stageClaimed:
			c.blame(contextError(ctx, ClassUnknownOutcome, "the entry was not known to be committed when the time was over"))
			c.end(item)
		case stageDone:
		}
	}
	c.mu.Unlock()
	return c.result()
}

// result joins the ends of all commands. A call of which only a part was proposed has an unknown outcome as a whole; the
// verdicts tell which part.
func (c *call) result() ([]fsm.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil:
		return c.verdicts, nil
	case c.decided > 0 && !c.err.Class.MaybeProposed():
		e := *c.err
		e.Class = ClassUnknownOutcome
		e.Detail = fmt.Sprintf("%d of %d commands were decided, the others not proposed: %s", c.decided, len(c.items), c.err.Detail)
		return c.verdicts, &e
	case c.decided > 0:
		return c.verdicts, c.err
	default:
		return nil, c.err
	}
}
