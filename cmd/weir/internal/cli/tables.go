package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type tableGroup struct {
	Connection

	Add  tableAdd  `cmd:"" help:"Add tables to a changefeed."`
	Drop tableDrop `cmd:"" help:"Take tables out of a changefeed; their rows at the sink stay."`
	List tableList `cmd:"" help:"List the tables of a changefeed."`
}

type tableAdd struct {
	Mutation

	Changefeed string   `arg:"" help:"Name of the changefeed."`
	Table      []string `required:"" sep:"none" placeholder:"NAME[,split=K][,at=KEY:KEY...]" help:"A table, as for changefeed create. May be repeated."`
	Start      string   `default:"0" placeholder:"POSITION" help:"Where to begin: TS or TS/STAGE; 0 is as early as the changefeed allows."`
	Unseen     bool     `help:"Accept tables that the log does not hold yet."`
}

// Run carries the command out.
func (c *tableAdd) Run(x *call) error {
	wishes, start, err := wishesOf(c.Table, c.Start)
	if err != nil {
		return err
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		feed, err := p.Changefeed(ctx, c.Changefeed, x.read())
		if err != nil {
			return err
		}
		tables, err := planTables(ctx, feed.GetSource(), wishes, c.Unseen)
		if err != nil {
			return err
		}
		req := &weirv1.AddTablesRequest{Header: header, Changefeed: c.Changefeed, Start: show.FromPosition(start), Tables: tables}
		return x.changeWith(ctx, p, c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
			h, err := p.AddTables(ctx, req)
			if err != nil {
				return err
			}
			return x.done(h, Done{Changefeed: c.Changefeed}, "%s added to changefeed %s", count(len(tables), "table"), c.Changefeed)
		})
	})
}

type tableDrop struct {
	Mutation

	Changefeed string   `arg:"" help:"Name of the changefeed."`
	Table      []string `required:"" sep:"none" placeholder:"NAME" help:"A table, with schema or in schema public. May be repeated."`
}

// Run carries the command out.
func (c *tableDrop) Run(x *call) error {
	refs := make([]*weirv1.TableRef, 0, len(c.Table))
	for _, t := range c.Table {
		schema, name := qualified(t)
		refs = append(refs, &weirv1.TableRef{Schema: schema, Name: name})
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.DropTablesRequest{Header: header, Changefeed: c.Changefeed, Tables: refs}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		h, err := p.DropTables(ctx, req)
		if err != nil {
			return err
		}
		return x.done(h, Done{Changefeed: c.Changefeed},
			"%s dropped from changefeed %s; their ranges are held until these operators have ended: weir operator list --changefeed %s",
			strings.Join(c.Table, ", "), c.Changefeed, c.Changefeed)
	})
}

type tableList struct {
	Changefeed string `arg:"" help:"Name of the changefeed."`
}

// Run carries the command out.
func (c *tableList) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		all, err := p.Tables(ctx, c.Changefeed, x.read())
		if err != nil {
			return err
		}
		rows := make([]show.TableOf, 0, len(all))
		g := show.NewGrid("ID", "TABLE", "STATE", "DISPATCHERS", "CREATED AT")
		for _, t := range all {
			row := show.TableRow(t)
			rows = append(rows, row)
			state := "replicated"
			if row.Dropping {
				state = "dropping"
			}
			g.Add(strconv.FormatInt(row.ID, 10), row.Table, state, strconv.FormatUint(uint64(row.Dispatchers), 10), show.Entry(row.CreatedAt))
		}
		if x.asJSON() {
			return x.json(map[string]any{"tables": rows})
		}
		return x.table(g, "changefeed "+c.Changefeed+" has no tables; add one with: weir table add "+c.Changefeed+" --table NAME")
	})
}
