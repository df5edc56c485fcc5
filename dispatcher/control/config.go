package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Proposer puts commands into the log. Both methods return when the entry has been applied on this server, with one
// verdict for each proposal, or with an error, after which the outcome may be unknown; they return soon after ctx ends.
//
// Every proposal carries the term in which it was thought of. A proposer never puts it into the log under another one.
type Proposer interface {
	Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error)
	// ProposeTick goes ahead of everything that waits and is outside limits, since leases hang on it.
	ProposeTick(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error)
}

// Viewer looks at the applied state of this server. It is cheap, never goes back, and contains whatever a Proposer has
// answered.
type Viewer interface {
	View() *fsm.View
}

// Config is what a Leader works with.
type Config struct {
	Proposer Proposer
	Viewer   Viewer
	// Appends holds when this process received log entries; it outlives terms.
	Appends *fence.Appends
	Clock   clock.Clock
	Timers  clock.Timers
	Timing  fence.Timing
	// Limits bound the scheduler; the zero value means scheduler.DefaultLimits.
	Limits scheduler.Limits
	// SplitKeys knows where a dispatcher's rows are best cut, as the scheduler asks for it; nil means that nothing is split.
	// It is called from the loop and must return soon.
	SplitKeys func(fsm.Dispatcher) ([]string, bool)
	// SharePercent of the live nodes may expire together without being slowed down; at least one may.
	SharePercent int
	// StepDown gives leadership up, for a reason in words. It is called from the loop and must not wait for Run to return.
	StepDown func(reason string)
	// LeaderAddress is the gRPC address of the present leader, for nodes whose session is closed; empty if unknown. Nil
	// means never known.
	LeaderAddress func() string
	// WallMS is the wall clock in Unix milliseconds, for display.
	WallMS func() int64
	Logger hclog.Logger
}

// Validate returns what is missing or does not fit, all of it.
func (c *Config) Validate() error {
	var errs []error
	for _, p := range []struct {
		name string
		set  bool
	}{
		{"Proposer", c.Proposer != nil},
		{"Viewer", c.Viewer != nil},
		{"Appends", c.Appends != nil},
		{"Clock", c.Clock != nil},
		{"Timers", c.Timers != nil},
		{"StepDown", c.StepDown != nil},
		{"WallMS", c.WallMS != nil},
		{"Logger", c.Logger != nil},
	} {
		if !p.set {
			errs = append(errs, fmt.Errorf("control needs %s; set it", p.name))
		}
	}
	if c.SharePercent < 0 || c.SharePercent > 100 {
		errs = append(errs, fmt.Errorf("SharePercent is %d; set it from 0 to 100", c.SharePercent))
	}
	return errors.Join(append(errs, c.Timing.Validate(), c.Limits.Validate())...)
}

// Periods and bounds of the loop. None of them is part of the protocol.
const (
	// lookEvery is how often the loop looks whether the state has moved on.
	lookEvery = 20 * time.Millisecond
	// repeatEvery is how often an order is repeated until the state changes.
	repeatEvery = 500 * time.Millisecond
	// idleShare: after a look that took t the loop rests for at least idleShare times t, so that huge backlogs of orders
	// cost a bounded part of a core.
	idleShare = 3
	// ordersPerMessage bounds a message, ordersWindow how many orders one node has been sent and not carried out.
	ordersPerMessage = 500
	ordersWindow     = 4_000
	// planEvery is the scheduler's period, perProposal how many of its commands go into one call of the proposer.
	planEvery   = 200 * time.Millisecond
	perProposal = 256
	// reportsPerEntry and reportBytes bound one entry of reports, reportsWaiting what waits of one node: what is beyond is
	// dropped, since nodes repeat reports until they are acknowledged.
	reportsPerEntry = 500
	reportBytes     = 48 << 10
	reportsWaiting  = 1 << 16
	// barrierMessagesWaiting bounds the messages about events of one node that wait to be dealt with, to be answered, or to
	// be asked; nodes repeat what is not answered.
	barrierMessagesWaiting = 1_024
	// barriersPerMessage bounds what one message says about events, barriersPerLook what one look has to say.
	barriersPerMessage = 16
	barriersPerLook    = 256
	// askMissingAfter is how long an event must have been open before those that it waits for are asked again, every
	// askMissingEvery at most asksPerRound of them, each about one event not more often than each askAgainAfter.
	askMissingAfter = 2 * time.Second
	askMissingEvery = time.Second
	askAgainAfter   = 5 * time.Second
	asksPerRound    = 4_096
	// checkpointEvery is the period of watermarks. One whose sets have changed on its way into the log is made anew at
	// once, checkpointTries times in all.
	checkpointEvery = time.Second
	checkpointTries = 5
	// marksKept bounds what is remembered of the sets of one changefeed on one node, additionsKept what has come into the
	// sets of one node.
	marksKept     = 64
	additionsKept = 1 << 12
	// drainsEvery is how often drains are looked at.
	drainsEvery = 500 * time.Millisecond
	// rateWindow is the time over which rows a second are counted; a rate is forgotten when nothing has been reported for
	// rateStale. What a node has said nothing of is known to be idle once it has been heard for rateKnown.
	rateWindow = 2 * time.Second
	rateStale  = 10 * time.Second
	rateKnown  = 10 * time.Second
	// busiestKept is how many of a node's busiest placements the scheduler is told of.
	busiestKept = 16
	// acksWaiting bounds the acknowledged reports that wait to be sent to one node; a repeated report is answered again.
	acksWaiting = 1 << 16
	// strayLimit bounds the pairs of one node that must be stopped beside what the state orders; half of the window is left
	// for the state's own. What is beyond is found again by the set hash.
	strayLimit = ordersWindow / 2
	// askAfter is how long set hashes must differ, with nothing ordered, before a node is asked for its list; askAfterBusy
	// while orders are pending, when differences are usual but do not last.
	askAfter     = time.Second
	askAfterBusy = 5 * time.Second
	// closeWithin bounds the sending of the message that closes a session.
	closeWithin = 100 * time.Millisecond
	// refusalMS and refusalMaxMS are the first and the longest wait before the scheduler's refused proposal is made again
	// for a dispatcher that has not changed, in state-machine time; refusalsKept bounds how many are remembered.
	refusalMS    = 1_000
	refusalMaxMS = 30_000
	refusalsKept = 1 << 16
)
