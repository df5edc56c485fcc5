package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/raftnode"
)

// logGroup reads the log, of a running cluster or of the folder of a server that is stopped.
type logGroup struct {
	Connection

	Replay logReplay `cmd:"" help:"Rebuild the state at a log entry and sum it up."`
	Show   logShow   `cmd:"" help:"Print log entries out of a stopped server's folder."`
}

// dataDir names the folder of a stopped server.
type dataDir struct {
	DataDir string `type:"path" placeholder:"FOLDER" help:"Data folder of a server that is stopped; it is only read."`
}

type logReplay struct {
	dataDir

	To uint64 `placeholder:"INDEX" help:"The log entry after which the state is wanted. Default: the last one."`
}

// Run carries the command out.
func (c *logReplay) Run(x *call) error {
	if c.DataDir == "" {
		return x.ask(func(ctx context.Context, p plane.Plane) error {
			s, err := p.StateAt(ctx, c.To, x.read())
			if err != nil {
				return err
			}
			row := show.StateRow(s)
			return x.state(&row)
		})
	}
	return x.offline(c.DataDir, func(ctx context.Context, o *raftnode.Offline) error {
		to := c.To
		if to == 0 {
			var err error
			if _, to, err = o.Range(); err != nil {
				return err
			}
			x.note("weir: the last entries of a log may never have been committed; the other servers know")
		}
		view, err := o.StateAt(ctx, to)
		if err != nil {
			return err
		}
		row := show.StateRow(server.Summary(view))
		return x.state(&row)
	})
}

func (x *call) state(s *show.State) error {
	if x.asJSON() {
		return x.json(s)
	}
	return x.facts(s.Pairs())
}

// offline opens a stopped server's folder. What is wrong with it is a failure; an index that is not kept a refusal.
func (x *call) offline(dir string, do func(ctx context.Context, o *raftnode.Offline) error) (err error) {
	o, err := raftnode.OpenOffline(dir)
	if err != nil {
		return failed("%v", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	err = do(x.Context, o)
	if e, ok := errors.AsType[*raftnode.IndexError](err); ok {
		return &plane.Error{Class: plane.Rejected, Reason: e.Code.String(), Text: e.Error(), Facts: map[string]string{}, Err: err}
	}
	return err
}

type logShow struct {
	dataDir

	From uint64 `placeholder:"INDEX" help:"The first entry. Default: the first one that is kept."`
	To   uint64 `placeholder:"INDEX" help:"The last entry. Default: the last one."`
}

// Run carries the command out.
func (c *logShow) Run(x *call) error {
	if c.DataDir == "" {
		return usage("--data-dir is missing: want the data folder of a server that is stopped")
	}
	return x.offline(c.DataDir, func(ctx context.Context, o *raftnode.Offline) error {
		first, last, err := o.LogRange()
		if err != nil {
			return err
		}
		if last == 0 {
			return x.say("the log is empty")
		}
		if c.From != 0 {
			first = c.From
		}
		if c.To != 0 {
			last = c.To
		}
		return x.records(o.Entries(ctx, first, last))
	})
}

// records prints log entries as they come, or as one document.
func (x *call) records(entries iter.Seq2[raftnode.Record, error]) error {
	rows := []show.Record{}
	for r, err := range entries {
		if err != nil {
			return err
		}
		row := show.RecordRow(r.Index, r.Term, r.Kind.String(), r.Entry)
		if x.asJSON() {
			rows = append(rows, row)
		} else if err := x.record(&row); err != nil {
			return err
		}
	}
	if x.asJSON() {
		return x.json(map[string]any{"entries": rows})
	}
	return nil
}

func (x *call) record(r *show.Record) error {
	if len(r.Commands) == 0 {
		return x.say("%d  term %d  %s", r.Index, r.Term, r.Kind)
	}
	for _, c := range r.Commands {
		line := strings.Join(append([]string{fmt.Sprintf("%d  term %d  %s", r.Index, r.Term, c.Kind)}, c.Fields...), " ")
		if c.By != "" {
			line += "  by " + c.By
		}
		if c.RequestID != "" {
			line += "  request " + c.RequestID
		}
		if err := x.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}
