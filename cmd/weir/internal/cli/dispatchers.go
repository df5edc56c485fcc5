package cli

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type dispatcherGroup struct {
	Connection

	List    dispatcherList    `cmd:"" help:"List dispatchers: who replicates which keys."`
	Get     dispatcherGet     `cmd:"" help:"Show one dispatcher."`
	Explain dispatcherExplain `cmd:"" help:"Say why a dispatcher is where it is, since when, and what it waits for."`
	History dispatcherHistory `cmd:"" help:"Show the last placements of a dispatcher, each with the entry that caused it."`
}

type dispatcherList struct {
	Changefeed string `placeholder:"NAME" help:"Only those of a changefeed."`
	Table      string `placeholder:"NAME" help:"Only those of a table of that changefeed."`
	Node       string `placeholder:"NAME" help:"Only those that a node owns."`
	Phase      string `enum:",absent,starting,running,stopping" default:"" help:"Only those in a phase: absent, starting, running or stopping."`
	Limit      int    `default:"100" help:"Show at most so many; 0 is no limit."`
}

// Run carries the command out.
func (c *dispatcherList) Run(x *call) error {
	if c.Table != "" && c.Changefeed == "" {
		return usage("--table %s: want --changefeed too, since a table belongs to one", c.Table)
	}
	filters := &weirv1.ListDispatchersRequest{Changefeed: c.Changefeed, Node: c.Node, Phase: phaseOf(c.Phase)}
	if c.Table != "" {
		filters.Schema, filters.Table = qualified(c.Table)
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		filters.Read = x.read()
		all, more, err := collect(p.Dispatchers(ctx, filters), c.Limit)
		if err != nil {
			return err
		}
		rows := make([]show.Dispatcher, 0, len(all))
		g := show.NewGrid("ID", "CHANGEFEED", "TABLE", "KEYS", "PHASE", "NODE", "EPOCH", "POSITION", "LAG", "OPERATOR")
		for _, d := range all {
			row := show.DispatcherRow(d)
			rows = append(rows, row)
			position, lag := reached(&row)
			g.Add(number(row.ID), row.Changefeed, row.Table, row.Keys, row.Phase, row.Node, row.Epoch, position, lag, row.Operator)
		}
		if x.asJSON() {
			return x.json(map[string]any{"dispatchers": rows, "more": more})
		}
		defer x.limitNote(more, len(rows))
		return x.table(g, "no dispatchers fit")
	})
}

// collect takes at most limit of the rows; more says that there are others. Limit 0 is no limit.
func collect[T any](rows iter.Seq2[T, error], limit int) (all []T, more bool, err error) {
	for row, err := range rows {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(all) == limit {
			return all, true, nil
		}
		all = append(all, row)
	}
	return all, false, nil
}

// reached is how far a dispatcher is known to be: what the leader heard, else what is stored.
func reached(d *show.Dispatcher) (position, lag string) {
	if d.Progress == nil {
		return d.Position, ""
	}
	return d.Progress.Position, show.Ago(d.Progress.LagMS)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func phaseOf(word string) weirv1.Phase {
	switch word {
	case "absent":
		return weirv1.Phase_PHASE_ABSENT
	case "starting":
		return weirv1.Phase_PHASE_STARTING
	case "running":
		return weirv1.Phase_PHASE_RUNNING
	case "stopping":
		return weirv1.Phase_PHASE_STOPPING
	default:
		return weirv1.Phase_PHASE_UNSPECIFIED
	}
}

type dispatcherGet struct {
	Dispatcher uint64 `arg:"" help:"Id of the dispatcher."`
}

// Run carries the command out.
func (c *dispatcherGet) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		d, err := p.Dispatcher(ctx, c.Dispatcher, x.read())
		if err != nil {
			return err
		}
		row := show.DispatcherRow(d)
		if x.asJSON() {
			return x.json(row)
		}
		pairs := [][2]string{
			{"id", number(row.ID)},
			{"changefeed", row.Changefeed},
			{"table", fmt.Sprintf("%s (id %d)", row.Table, row.TableID)},
			{"keys", row.Keys},
			{"phase", row.Phase + ", since " + show.Entry(row.PhaseAt)},
			{"node", row.Node},
			{"incarnation", row.Incarnation},
			{"epoch", row.Epoch},
			{"placed at", show.Entry(row.PlacedAt)},
			{"operator", row.Operator},
			{"held by removal", row.HeldBy},
			{"stored position", row.Position},
			{"failures", strconv.FormatUint(uint64(row.Failures), 10)},
		}
		if pr := row.Progress; pr != nil {
			idle := ""
			if pr.Idle {
				idle = ", at the end of the source"
			}
			pairs = append(pairs, [2]string{"progress", fmt.Sprintf("%s, %d rows, lag %s%s", pr.Position, pr.Rows, show.Ago(pr.LagMS), idle)})
		}
		return x.facts(pairs)
	})
}

type dispatcherHistory struct {
	Dispatcher uint64 `arg:"" help:"Id of the dispatcher, also of one that is gone."`
}

// Run carries the command out.
func (c *dispatcherHistory) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		r, err := p.History(ctx, c.Dispatcher, x.read())
		if err != nil {
			return err
		}
		rows := show.History(r)
		if x.asJSON() {
			return x.json(map[string]any{"dispatcher": c.Dispatcher, "exists": r.GetDispatcher() != nil, "placements": rows})
		}
		if err := x.table(show.HistoryGrid(rows), fmt.Sprintf("dispatcher %d has had no placement yet", c.Dispatcher)); err != nil {
			return err
		}
		if r.GetDispatcher() == nil {
			x.note("weir: dispatcher %d is gone; this is what is remembered of it", c.Dispatcher)
		}
		return nil
	})
}
