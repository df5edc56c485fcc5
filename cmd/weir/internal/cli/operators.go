package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type operatorGroup struct {
	Connection

	Add    operatorAdd    `cmd:"" help:"Place an absent dispatcher on a node."`
	Move   operatorMove   `cmd:"" help:"Take a dispatcher to another node."`
	Remove operatorRemove `cmd:"" help:"Remove a dispatcher for good: its keys are replicated no more."`
	Split  operatorSplit  `cmd:"" help:"Cut a running dispatcher into several."`
	Merge  operatorMerge  `cmd:"" help:"Make one dispatcher of several neighbours."`
	Cancel operatorCancel `cmd:"" help:"Stop one operator."`
	List   operatorList   `cmd:"" help:"List running or finished operators."`
	Get    operatorGet    `cmd:"" help:"Show one operator."`
	Wait   operatorWait   `cmd:"" help:"Wait until an operator has ended, and say how it goes."`

	AdmitMany operatorAdmitMany `cmd:"" help:"Ask for many operators at once, from a file or standard input."`
	Explain   operatorExplain   `cmd:"" help:"Say why an operator stands, or ended, as it does."`
}

// admission are the flags of every command that asks for an operator.
type admission struct {
	Mutation

	ExpectEpoch string        `placeholder:"EPOCH" help:"Refuse unless the dispatcher's placement has this epoch."`
	Wait        bool          `help:"Wait until the operator has ended."`
	For         time.Duration `default:"5m" help:"With --wait: how long to wait."`
}

// admit asks for an operator.
func (a *admission) admit(x *call, spec *weirv1.OperatorSpec) error {
	if a.ExpectEpoch != "" {
		epoch, err := token("--expect-epoch", a.ExpectEpoch)
		if err != nil {
			return err
		}
		spec.ExpectEpoch = epoch
	}
	header, err := x.header(a.Mutation)
	if err != nil {
		return err
	}
	var admitted *weirv1.Admission
	req := &weirv1.AdmitOperatorRequest{Header: header, Operator: spec}
	err = x.change(a.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		admitted, err = p.Admit(ctx, req)
		if err != nil {
			return err
		}
		if a.Wait && admitted.GetOpId() != 0 {
			return nil
		}
		kind := show.Word(spec.GetKind().String(), "OPERATOR_KIND_")
		d := Done{
			Index: admitted.GetIndex(), Replayed: admitted.GetReplayed(), Dispatcher: max(spec.GetDispatcher(), admitted.GetDispatcher()),
			Operator: show.Token(admitted.GetOpId()), Epoch: show.Token(admitted.GetEpoch()),
		}
		if admitted.GetOpId() == 0 {
			return x.done(nil, d, "%s of dispatcher %d is done: there was nothing to wait for", kind, d.Dispatcher)
		}
		return x.done(nil, d, "%s %s of dispatcher %d is admitted; wait for it with: weir operator wait %s",
			kind, d.Operator, d.Dispatcher, d.Operator)
	})
	if err != nil || !a.Wait || admitted.GetOpId() == 0 {
		return err
	}
	return waitFor(x, admitted.GetOpId(), a.For)
}

type operatorAdd struct {
	admission

	Dispatcher uint64 `arg:"" help:"Id of an absent dispatcher."`
	To         string `required:"" placeholder:"NODE" help:"The destination."`
}

// Run carries the command out.
func (c *operatorAdd) Run(x *call) error {
	return c.admit(x, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: c.Dispatcher, To: c.To})
}

type operatorMove struct {
	admission

	Dispatcher uint64 `arg:"" help:"Id of the dispatcher."`
	From       string `placeholder:"NODE" xor:"origin" help:"Refuse unless this node owns it. Default: whichever node does."`
	FromAbsent bool   `xor:"origin" help:"Refuse unless it runs nowhere; then it acts as an add."`
	To         string `required:"" placeholder:"NODE" help:"The destination."`
}

// Run carries the command out.
func (c *operatorMove) Run(x *call) error {
	return c.admit(x, &weirv1.OperatorSpec{
		Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: c.Dispatcher, From: c.From,
		FromAny: c.From == "" && !c.FromAbsent, To: c.To,
	})
}

type operatorRemove struct {
	admission

	Dispatcher uint64 `arg:"" help:"Id of the dispatcher."`
}

// Run carries the command out.
func (c *operatorRemove) Run(x *call) error {
	return c.admit(x, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_REMOVE, Dispatcher: c.Dispatcher})
}

type operatorCancel struct {
	Mutation

	Operator string `arg:"" help:"Id of the operator."`
}

// Run carries the command out.
func (c *operatorCancel) Run(x *call) error {
	id, err := token("operator", c.Operator)
	if err != nil {
		return err
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.CancelOperatorRequest{Header: header, OpId: id}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		h, err := p.Cancel(ctx, header, id)
		if err != nil {
			return err
		}
		return x.done(h, Done{Operator: show.Token(id)},
			"operator %s is cancelled; it ends when what may run has stopped: weir operator wait %s", show.Token(id), show.Token(id))
	})
}

type operatorList struct {
	Finished   bool   `help:"List operators that have ended and are still remembered, newest first."`
	Changefeed string `placeholder:"NAME" help:"Only those of a changefeed."`
	Dispatcher uint64 `placeholder:"ID" help:"Only those of a dispatcher."`
	Node       string `placeholder:"NAME" help:"Only those from or to a node."`
	Limit      int    `default:"100" help:"Show at most so many; 0 is no limit."`
}

// Run carries the command out.
func (c *operatorList) Run(x *call) error {
	filters := &weirv1.ListOperatorsRequest{
		State: weirv1.OperatorState_OPERATOR_STATE_RUNNING, Changefeed: c.Changefeed, Dispatcher: c.Dispatcher, Node: c.Node,
	}
	none := "no operators run; see those that have ended with: weir operator list --finished"
	if c.Finished {
		filters.State, none = weirv1.OperatorState_OPERATOR_STATE_FINISHED, "no ended operators are remembered"
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		filters.Read = x.read()
		all, more, err := collect(p.Operators(ctx, filters), c.Limit)
		if err != nil {
			return err
		}
		rows := make([]show.Operator, 0, len(all))
		g := show.NewGrid("ID", "KIND", "DISPATCHER", "TABLE", "FROM", "TO", "BY", "SINCE", "STATE")
		for _, o := range all {
			row := show.OperatorRow(o)
			rows = append(rows, row)
			g.Add(row.ID, row.Kind, number(row.Dispatcher), row.Table, row.From, row.To, row.By, show.Entry(row.Since), stateOf(&row))
		}
		if x.asJSON() {
			return x.json(map[string]any{"operators": rows, "more": more})
		}
		defer x.limitNote(more, len(rows))
		return x.table(g, none)
	})
}

// stateOf says in a few words how an operator stands or ended.
func stateOf(o *show.Operator) string {
	text := o.Result
	if o.StuckAt != 0 && o.Ended == 0 {
		text += ", stuck since " + show.Entry(o.StuckAt)
	}
	if o.Aborting {
		text += ", aborting"
	}
	switch {
	case o.WaitsFor != "":
		text += ", waits for " + o.WaitsFor
	case o.ReplacedBy != "":
		text += " by " + o.ReplacedBy
	case o.Reason != "" && o.Detail != "":
		text += ": " + o.Reason + ": " + o.Detail
	case o.Reason != "":
		text += ": " + o.Reason
	}
	return text
}

type operatorGet struct {
	Operator string `arg:"" help:"Id of the operator."`
}

// Run carries the command out.
func (c *operatorGet) Run(x *call) error {
	id, err := token("operator", c.Operator)
	if err != nil {
		return err
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		o, err := p.Operator(ctx, id, x.read())
		if err != nil {
			return err
		}
		row := show.OperatorRow(o)
		if x.asJSON() {
			return x.json(row)
		}
		pairs := [][2]string{
			{"id", row.ID},
			{"kind", row.Kind},
			{"dispatcher", fmt.Sprintf("%d (%s of changefeed %s)", row.Dispatcher, row.Table, row.Changefeed)},
			{"from", place(row.From, row.FromIncarnation)},
			{"to", place(row.To, row.ToIncarnation)},
			{"epoch", row.Epoch},
			{"asked by", row.By},
			{"admitted at", show.Entry(row.Since)},
			{"state", stateOf(&row)},
			{"due to a drop", strconv.FormatBool(row.Drop)},
			{"deadline", "log time " + show.Ago(int64(row.DeadlineMS))},
			{"ended at", show.Entry(row.Ended)},
		}
		return x.facts(append(pairs, partsOf(&row)...))
	})
}

// partsOf lists what a split or a merge is made of.
func partsOf(o *show.Operator) [][2]string {
	var pairs [][2]string
	for i, keys := range o.Spans {
		to := ""
		if i < len(o.Targets) && o.Targets[i] != "" {
			to = " to " + o.Targets[i]
		}
		pairs = append(pairs, [2]string{"child " + strconv.Itoa(i+1), keys + to})
	}
	for _, list := range []struct {
		name string
		ids  []uint64
	}{{"source", o.Sources}, {"made", o.Made}} {
		for _, id := range list.ids {
			pairs = append(pairs, [2]string{list.name, "dispatcher " + number(id)})
		}
	}
	return pairs
}

func place(node, incarnation string) string {
	if node == "" {
		return ""
	}
	return node + ", incarnation " + incarnation
}

type operatorWait struct {
	Operator string        `arg:"" help:"Id of the operator."`
	For      time.Duration `default:"5m" help:"How long to wait."`
}

// Run carries the command out.
func (c *operatorWait) Run(x *call) error {
	id, err := token("operator", c.Operator)
	if err != nil {
		return err
	}
	return waitFor(x, id, c.For)
}

// waitPoll is how long one question waits; after each the progress is looked at anew.
const waitPoll = 2 * time.Second

// waitFor waits until the operator has ended, and says on standard error how it goes whenever that changes. Servers that
// come and go meanwhile do not end the wait.
func waitFor(x *call, id uint64, limit time.Duration) error {
	p, err := x.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.Context, limit)
	defer cancel()
	said, last := "", show.Operator{ID: show.Token(id)}
	for ctx.Err() == nil {
		o, err := waitOnce(ctx, p, id)
		if o != nil {
			last = show.OperatorRow(o)
		}
		if err == nil {
			return x.ended(&last)
		}
		switch e := explain(err); {
		case ctx.Err() != nil, e.Reason == client.ReasonStillRunning:
			x.progress(&said, fmt.Sprintf("%s %s of dispatcher %d: %s", last.Kind, last.ID, last.Dispatcher, stateOf(&last)))
		case e.Class == plane.NotReached:
			x.progress(&said, "the control plane cannot be asked right now: "+e.Error())
		default:
			return err
		}
	}
	if x.Err() != nil {
		return x.Err()
	}
	return notEnded(&last, limit)
}

func waitOnce(ctx context.Context, p plane.Plane, id uint64) (*weirv1.Operator, error) {
	ctx, cancel := context.WithTimeout(ctx, waitPoll)
	defer cancel()
	return p.WaitOperator(ctx, id)
}

func notEnded(o *show.Operator, limit time.Duration) error {
	text := fmt.Sprintf("operator %s has not ended after %s", o.ID, limit)
	if o.WaitsFor != "" {
		text += ": it waits for " + o.WaitsFor
	}
	return failed("%s; wait longer with --for, or stop it with: weir operator cancel %s", text, o.ID)
}

// progress says a line unless it was the last one said.
func (x *call) progress(said *string, text string) {
	if text != *said && !x.asJSON() {
		x.note("%s", text)
	}
	*said = text
}

// ended prints the operator; one that did not do what it was for is a failure.
func (x *call) ended(o *show.Operator) error {
	var err error
	if x.asJSON() {
		err = x.json(o)
	} else {
		err = x.say("%s %s of dispatcher %d has ended: %s", o.Kind, o.ID, o.Dispatcher, stateOf(o))
	}
	if err != nil || o.Result == "done" {
		return err
	}
	reason := o.Reason
	if reason == "" {
		reason = "OPERATOR_" + strings.ToUpper(o.Result)
	}
	return &plane.Error{
		Class: plane.Failed, Reason: reason,
		Text: fmt.Sprintf("operator %s did not do what it was for; see where dispatcher %d is with: weir dispatcher history %d", o.ID, o.Dispatcher, o.Dispatcher),
	}
}
