package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type nodeDrain struct {
	Mutation

	Name string        `arg:"" help:"Name of the node."`
	Wait bool          `help:"Wait until the node holds nothing, and say how it goes."`
	For  time.Duration `default:"10m" help:"With --wait: how long to wait."`
}

// Run carries the command out. A node that is being drained already is waited for all the same.
func (c *nodeDrain) Run(x *call) error {
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	err = x.change(c.Mutation, &weirv1.StartDrainRequest{Header: header, Name: c.Name}, func(ctx context.Context, p plane.Plane) error {
		h, err := p.StartDrain(ctx, header, c.Name)
		if err != nil && (!c.Wait || explain(err).Reason != "NODE_DRAINING") {
			return err
		}
		if c.Wait {
			return nil
		}
		return x.done(h, Done{Node: c.Name},
			"node %s is being drained: its work moves away, and it gets no new work; see how far it is with: weir node get %s", c.Name, c.Name)
	})
	if err != nil || !c.Wait || c.DryRun {
		return err
	}
	return waitDrained(x, c.Name, c.For)
}

// drainPoll is how often a drain is looked at.
const drainPoll = 500 * time.Millisecond

// waitDrained waits until a node holds nothing and has confirmed it, and says on standard error how it goes.
func waitDrained(x *call, name string, limit time.Duration) error {
	p, err := x.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.Context, limit)
	defer cancel()
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	said, last := "", ""
	for {
		row, err := drainOnce(ctx, p, name)
		switch {
		case err == nil && row.Drain == nil:
			return failed("the drain of node %s was ended meanwhile; start it again with: weir node drain %s", name, name)
		case err == nil && row.Drain.Over():
			return x.drained(row)
		case err == nil:
			last = row.Drain.Words()
			x.progress(&said, fmt.Sprintf("node %s: %s", name, last))
		case ctx.Err() != nil:
		case explain(err).Class == plane.NotReached:
			x.progress(&said, "the control plane cannot be asked right now: "+explain(err).Error())
		default:
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if x.Err() != nil {
				return x.Err()
			}
			return failed("node %s is not drained after %s: %s; wait longer with --for, or end it with: weir node clear %s", name, limit, show.Dash(last), name)
		}
	}
}

func drainOnce(ctx context.Context, p plane.Plane, name string) (*show.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, waitPoll)
	defer cancel()
	n, err := p.Node(ctx, name, &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_LINEARIZABLE})
	if err != nil {
		return nil, err
	}
	row := show.NodeRow(n)
	return &row, nil
}

func (x *call) drained(n *show.Node) error {
	if x.asJSON() {
		return x.json(n)
	}
	return x.say("node %s is drained: it held %d dispatchers, and its incarnation %s has confirmed at %s that it holds none; it gets no work until: weir node clear %s",
		n.Name, n.Drain.From, n.Incarnation, show.Entry(n.Drain.ConfirmedAt), n.Name)
}

type nodeClear struct {
	Mutation

	Name string `arg:"" help:"Name of the node."`
}

// Run carries the command out.
func (c *nodeClear) Run(x *call) error {
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	return x.change(c.Mutation, &weirv1.ClearDrainRequest{Header: header, Name: c.Name}, func(ctx context.Context, p plane.Plane) error {
		h, err := p.ClearDrain(ctx, header, c.Name)
		if err != nil {
			return err
		}
		return x.done(h, Done{Node: c.Name}, "node %s may be given work again", c.Name)
	})
}
