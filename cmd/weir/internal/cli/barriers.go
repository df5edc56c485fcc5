package cli

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

type barrierGroup struct {
	Connection

	List    barrierList    `cmd:"" help:"List the events that dispatchers wait for, or those that are over."`
	Get     barrierGet     `cmd:"" help:"Show one event: who is missing, and who may write it."`
	Explain barrierExplain `cmd:"" help:"Say what has happened to an event, and what it waits for."`
	Decide  barrierDecide  `cmd:"" help:"Say whether an event was written, when its last writer could not; or skip a sync point."`
}

type barrierList struct {
	Changefeed string `placeholder:"NAME" help:"Only those of a changefeed."`
	Ended      bool   `help:"List those that have ended and are still remembered, newest first."`
	Limit      int    `default:"100" help:"Show at most so many; 0 is no limit."`
}

// Run carries the command out.
func (c *barrierList) Run(x *call) error {
	none := "no events are open; see those that are over with: weir barrier list --ended"
	if c.Ended {
		none = "no ended events are remembered"
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		all, more, err := collect(p.Barriers(ctx, &weirv1.ListBarriersRequest{Read: x.read(), Changefeed: c.Changefeed, Ended: c.Ended}), c.Limit)
		if err != nil {
			return err
		}
		rows := make([]show.Barrier, 0, len(all))
		g := show.NewGrid("CHANGEFEED", "RUN", "AT", "CONCERNS", "STATE", "WAITS FOR", "OPENED AT")
		for _, b := range all {
			row := show.BarrierRow(b)
			rows = append(rows, row)
			g.Add(row.Changefeed, number(row.Run), row.At, row.Concerns(), row.State(), row.WaitsFor, show.Entry(row.OpenedAt))
		}
		if x.asJSON() {
			return x.json(map[string]any{"barriers": rows, "more": more})
		}
		defer x.limitNote(more, len(rows))
		return x.table(g, none)
	})
}

// barrierName are the arguments that name an event.
type barrierName struct {
	Changefeed string `arg:"" help:"Name of the changefeed."`
	Position   string `arg:"" help:"Where the event stands: TS/ddl, or TS alone for a sync point."`
	InRun      uint64 `name:"run" placeholder:"RUN" help:"The changefeed's run. Default: the present one."`
}

func (n *barrierName) at() (*weirv1.Position, error) {
	at, err := fsm.ParsePosition(n.Position)
	if err != nil {
		return nil, usage("%v", err)
	}
	if at.Stage != fsm.StageDDL && at.Stage != fsm.StageSyncPoint {
		return nil, usage("no event stands at %s: want TS/ddl, or TS alone for a sync point", n.Position)
	}
	return show.FromPosition(at), nil
}

type barrierGet struct {
	barrierName

	Missing uint32 `default:"20" help:"Name at most so many of those that are missing."`
}

// Run carries the command out.
func (c *barrierGet) Run(x *call) error {
	at, err := c.at()
	if err != nil {
		return err
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		b, err := p.Barrier(ctx, &weirv1.GetBarrierRequest{Read: x.read(), Changefeed: c.Changefeed, Run: c.InRun, At: at, Missing: c.Missing})
		if err != nil {
			return err
		}
		row := show.BarrierRow(b)
		if x.asJSON() {
			return x.json(row)
		}
		if err := x.facts(barrierFacts(&row)); err != nil {
			return err
		}
		return x.missing(&row)
	})
}

func barrierFacts(b *show.Barrier) [][2]string {
	pairs := [][2]string{
		{"event", fmt.Sprintf("of changefeed %s at %s, run %d", b.Changefeed, b.At, b.Run)},
		{"concerns", b.Concerns()},
		{"statement", b.Statement},
		{"state", b.State()},
		{"waits for", b.WaitsFor},
		{"first reported", fmt.Sprintf("by dispatcher %d at %s", b.OpenedBy, show.Entry(b.OpenedAt))},
	}
	if b.Permission != 0 {
		pairs = append(pairs, [2]string{"permission to write", fmt.Sprintf("number %d, to dispatcher %d on node %s under epoch %s at %s",
			b.Permission, b.Writer, show.Dash(b.WriterNode), b.WriterEpoch, show.Entry(b.GrantedAt))})
	}
	for _, list := range []struct {
		name   string
		tables []string
	}{{"drops", b.Drop}, {"adds", b.Add}, {"renames", b.Rename}} {
		for _, t := range list.tables {
			pairs = append(pairs, [2]string{list.name, t})
		}
	}
	for _, p := range [][2]string{
		{"its last word", b.LastWord},
		{"written at", show.Entry(b.WrittenAt)},
		{"ended at", show.Entry(b.EndedAt)},
		{"notes", b.Notes},
	} {
		if p[1] != "" {
			pairs = append(pairs, p)
		}
	}
	if b.Members != 0 {
		pairs = append(pairs, [2]string{"dispatchers", fmt.Sprintf("%d, of which %d have not reached it and %d have not passed it", b.Members, b.Behind, b.Unpassed)})
	}
	return pairs
}

// missing prints whom an event waits for.
func (x *call) missing(b *show.Barrier) error {
	if len(b.Missing) == 0 {
		return nil
	}
	if err := x.say(""); err != nil {
		return err
	}
	g := show.NewGrid("MISSING", "TABLE", "KEYS", "PHASE", "NODE", "POSITION", "OPERATOR")
	for _, m := range b.Missing {
		g.Add(number(m.Dispatcher), m.Table, m.Keys, m.Phase, m.Node, m.Position, m.Operator)
	}
	if b.MissingMore {
		x.note("weir: there are more than these %d; --missing shows more", len(b.Missing))
	}
	return x.table(g, "")
}

type barrierExplain struct{ barrierName }

// Run carries the command out.
func (c *barrierExplain) Run(x *call) error {
	at, err := c.at()
	if err != nil {
		return err
	}
	return x.explained(func(ctx context.Context, p plane.Plane) (*weirv1.Explanation, error) {
		return p.ExplainBarrier(ctx, &weirv1.ExplainBarrierRequest{Read: x.read(), Changefeed: c.Changefeed, Run: c.InRun, At: at})
	})
}

type barrierDecide struct {
	Mutation
	barrierName

	As         string `enum:",written,write-again,skip" default:"" help:"What to take for true: written (it is downstream), write-again (it is not, or repeating it is harmless), skip (sync points only)."`
	Permission uint64 `placeholder:"NUMBER" help:"Number of the last permission, as weir barrier get shows it: refused if it is another by now. Default: the present one."`
}

// Run carries the command out.
func (c *barrierDecide) Run(x *call) error {
	at, err := c.at()
	if err != nil {
		return err
	}
	if c.As == "" {
		return usage("what was it? look at the sink and at weir barrier get %s %s, then add --as written (it is downstream), --as write-again (it is not, or repeating it is harmless) or --as skip (a sync point that nobody needs)",
			c.Changefeed, c.Position)
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	decision := map[string]weirv1.BarrierDecision{
		"written": weirv1.BarrierDecision_BARRIER_DECISION_WRITTEN, "write-again": weirv1.BarrierDecision_BARRIER_DECISION_WRITE_AGAIN,
		"skip": weirv1.BarrierDecision_BARRIER_DECISION_SKIP,
	}[c.As]
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		req := &weirv1.DecideBarrierRequest{
			Header: header, Changefeed: c.Changefeed, Run: c.InRun, At: at, Permission: c.Permission, Decision: decision,
		}
		if req.GetPermission() == 0 {
			b, err := p.Barrier(ctx, &weirv1.GetBarrierRequest{Read: x.read(), Changefeed: c.Changefeed, Run: c.InRun, At: at, Missing: 1})
			if err != nil {
				return err
			}
			req.Permission = b.GetPermission()
		}
		return x.changeWith(ctx, p, c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
			h, err := p.DecideBarrier(ctx, req)
			if err != nil {
				return err
			}
			return x.done(h, Done{Changefeed: c.Changefeed}, "the event of changefeed %s at %s is decided: %s; see how it goes on with: weir barrier get %s %s",
				c.Changefeed, c.Position, c.As, c.Changefeed, c.Position)
		})
	})
}
