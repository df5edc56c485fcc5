package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

type changefeedGroup struct {
	Connection

	Create changefeedCreate `cmd:"" help:"Start a replication job."`
	List   changefeedList   `cmd:"" help:"List the changefeeds."`
	Get    changefeedGet    `cmd:"" help:"Show one changefeed."`
	Pause  changefeedPause  `cmd:"" help:"Stop every dispatcher of a changefeed and keep its state."`
	Update changefeedUpdate `cmd:"" help:"Change settings of a paused or failed changefeed."`
	Resume changefeedResume `cmd:"" help:"Let the dispatchers of a paused or failed changefeed be placed again, or set it back."`
	Remove changefeedRemove `cmd:"" help:"Drop everything of a changefeed."`
}

type changefeedCreate struct {
	Mutation

	Name   string   `arg:"" help:"Name of the new changefeed."`
	Source string   `required:"" placeholder:"wal2json:PATH" help:"Where changes come from: wal2json:PATH, or wal2json:PATH?follow=true for a file that grows."`
	Sink   string   `required:"" placeholder:"sqlite:PATH" help:"Where changes go: sqlite:PATH."`
	Table  []string `sep:"none" placeholder:"NAME[,split=K][,at=KEY:KEY...]" help:"A table, with schema or in schema public; cut into K spans of about equally many keys, or at the keys given. May be repeated. Default: none; they come with the source's events, or with weir table add."`
	Start  string   `default:"0" placeholder:"POSITION" help:"Where to begin: TS or TS/STAGE; 0 is the beginning."`
	Unseen bool     `help:"Accept tables that the log does not hold yet."`
	Sync   uint64   `name:"sync-point-every" placeholder:"TS" help:"Make a sync point at each multiple of so many units of ts. Default: none."`
}

// Run carries the command out.
func (c *changefeedCreate) Run(x *call) error {
	wishes, start, err := wishesOf(c.Table, c.Start)
	if err != nil {
		return err
	}
	source, err := absoluteURI("--source", c.Source, sources())
	if err != nil {
		return err
	}
	sink, err := absoluteURI("--sink", c.Sink, sinks())
	if err != nil {
		return err
	}
	promises, err := sinkPromises()
	if err != nil {
		return err
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		tables, err := planTables(ctx, source, wishes, c.Unseen)
		if err != nil {
			return err
		}
		req := &weirv1.CreateChangefeedRequest{
			Header: header, Name: c.Name, Source: source, Sink: sink, SinkFenced: promises.Fenced,
			SinkMaxWriteMs: promises.MaxWriteMS, Start: show.FromPosition(start), Tables: tables, SyncPointEvery: c.Sync,
		}
		return x.changeWith(ctx, p, c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
			r, err := p.CreateChangefeed(ctx, req)
			if err != nil {
				return err
			}
			return x.done(r.GetHeader(), Done{Changefeed: c.Name, ChangefeedID: r.GetChangefeedId()},
				"changefeed %s is created with %s; watch its dispatchers with: weir dispatcher list --changefeed %s", c.Name, count(len(tables), "table"), c.Name)
		})
	})
}

func wishesOf(texts []string, startText string) ([]tableWish, fsm.Position, error) {
	start, err := fsm.ParsePosition(startText)
	if err != nil {
		return nil, fsm.Position{}, usage("--start: %v", err)
	}
	wishes := make([]tableWish, 0, len(texts))
	for _, t := range texts {
		w, err := parseTable(t)
		if err != nil {
			return nil, fsm.Position{}, err
		}
		wishes = append(wishes, w)
	}
	return wishes, start, nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

type changefeedList struct{}

// Run carries the command out.
func (c *changefeedList) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		all, err := p.Changefeeds(ctx, x.read())
		if err != nil {
			return err
		}
		rows := make([]show.Changefeed, 0, len(all))
		g := show.NewGrid("NAME", "STATUS", "SOURCE", "SINK", "WATERMARK", "RUN", "CREATED AT")
		for _, f := range all {
			row := show.ChangefeedRow(f, false)
			rows = append(rows, row)
			g.Add(row.Name, row.Status, row.Source, row.Sink, row.Watermark, strconv.FormatUint(row.Run, 10), show.Entry(row.CreatedAt))
		}
		if x.asJSON() {
			return x.json(map[string]any{"changefeeds": rows})
		}
		return x.table(g, "no changefeeds; create one with: weir changefeed create")
	})
}

type changefeedGet struct {
	Name string `arg:"" help:"Name of the changefeed."`
}

// Run carries the command out.
func (c *changefeedGet) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		feed, err := p.Changefeed(ctx, c.Name, x.read())
		if err != nil {
			return err
		}
		row := show.ChangefeedRow(feed, true)
		if x.asJSON() {
			return x.json(row)
		}
		fenced := "no: writes take at most " + show.Ago(int64(row.SinkMaxWriteMS))
		if row.SinkFenced {
			fenced = "yes"
		}
		return x.facts([][2]string{
			{"name", row.Name},
			{"status", feedStatus(&row)},
			{"source", row.Source},
			{"sink", row.Sink},
			{"sink checks tokens", fenced},
			{"start", row.Start},
			{"run", strconv.FormatUint(row.Run, 10)},
			{"watermark", row.Watermark + ", since " + show.Dash(show.Entry(row.WatermarkAt))},
			{"held by", holdText(row.Hold)},
			{"sync points every", show.Dash(unlessZero(row.SyncPointEvery))},
			{"trigger", show.Dash(unlessZero(row.Trigger))},
			{"open barriers", strconv.FormatUint(uint64(*row.Barriers), 10)},
			{"created at", show.Entry(row.CreatedAt)},
			{"tables", strconv.FormatUint(uint64(*row.Tables), 10)},
			{"dispatchers", fmt.Sprintf("%d, of which %d run nowhere", *row.Dispatchers, *row.Absent)},
		})
	})
}

// feedStatus says how a changefeed stands, since when, by whom, and why.
func feedStatus(f *show.Changefeed) string {
	text := f.Status
	if f.StatusAt != 0 {
		text += ", since " + show.Entry(f.StatusAt)
	}
	if f.StatusBy != "" {
		text += ", by " + f.StatusBy
	}
	if f.Reason != "" {
		text += fmt.Sprintf(": %s: %s (dispatcher %d)", f.Reason, f.Detail, f.FailedBy)
	}
	return text
}

func holdText(h *show.Hold) string {
	if h == nil {
		return ""
	}
	return h.Text
}

func unlessZero(n uint64) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

// facts prints names and values, one pair a line.
func (x *call) facts(pairs [][2]string) error {
	g := show.NewGrid(pairs[0][0], show.Dash(pairs[0][1]))
	for _, p := range pairs[1:] {
		g.Add(p[0], p[1])
	}
	return x.table(g, pairs[0][0]+"  "+show.Dash(pairs[0][1]))
}

type changefeedPause struct {
	Mutation

	Name string `arg:"" help:"Name of the changefeed."`
}

// Run carries the command out.
func (c *changefeedPause) Run(x *call) error {
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.PauseChangefeedRequest{Header: header, Name: c.Name}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		h, err := p.Pause(ctx, header, c.Name)
		if err != nil {
			return err
		}
		return x.done(h, Done{Changefeed: c.Name},
			"changefeed %s is paused; its dispatchers stop as these operators end: weir operator list --changefeed %s", c.Name, c.Name)
	})
}

type changefeedUpdate struct {
	Mutation

	Name   string  `arg:"" help:"Name of the changefeed."`
	Source string  `placeholder:"wal2json:PATH" help:"Where changes come from, from now on."`
	Sync   *uint64 `name:"sync-point-every" placeholder:"TS" help:"Make a sync point at each multiple of so many units of ts; 0: none."`
}

// Run carries the command out.
func (c *changefeedUpdate) Run(x *call) error {
	if c.Source == "" && c.Sync == nil {
		return usage("nothing is to be changed; want --source or --sync-point-every")
	}
	req := &weirv1.UpdateChangefeedRequest{Name: c.Name, SyncPointEvery: c.Sync}
	var err error
	if c.Source != "" {
		if req.Source, err = absoluteURI("--source", c.Source, sources()); err != nil {
			return err
		}
	}
	if req.Header, err = x.header(c.Mutation); err != nil {
		return err
	}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		h, err := p.UpdateChangefeed(ctx, req)
		if err != nil {
			return err
		}
		return x.done(h, Done{Changefeed: c.Name}, "changefeed %s is changed; go on with: weir changefeed resume %s", c.Name, c.Name)
	})
}

type changefeedResume struct {
	Mutation

	Name  string `arg:"" help:"Name of the changefeed."`
	From  string `placeholder:"POSITION" help:"Go on from TS or TS/STAGE, at or below the watermark. Default: from where every dispatcher stands."`
	Force bool   `help:"Allow --from below the watermark: everything after it is written again, in a new run."`
}

// Run carries the command out.
func (c *changefeedResume) Run(x *call) error {
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.ResumeChangefeedRequest{Header: header, Name: c.Name, Force: c.Force}
	if c.From != "" {
		from, err := fsm.ParsePosition(c.From)
		if err != nil {
			return usage("--from: %v", err)
		}
		req.From = show.FromPosition(from)
	}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		r, err := p.ResumeFrom(ctx, req)
		if err != nil {
			return err
		}
		where := ""
		if c.From != "" {
			where = fmt.Sprintf(" from %s, in run %d", c.From, r.GetRun())
		}
		return x.done(r.GetHeader(), Done{Changefeed: c.Name, Run: r.GetRun()}, "changefeed %s runs again%s", c.Name, where)
	})
}

type changefeedRemove struct {
	Mutation

	Name string `arg:"" help:"Name of the changefeed."`
}

// Run carries the command out.
func (c *changefeedRemove) Run(x *call) error {
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.RemoveChangefeedRequest{Header: header, Name: c.Name}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		h, err := p.Remove(ctx, header, c.Name)
		if err != nil {
			return err
		}
		return x.done(h, Done{Changefeed: c.Name},
			"changefeed %s is being removed; its name is free when these operators have ended: weir operator list --changefeed %s", c.Name, c.Name)
	})
}
