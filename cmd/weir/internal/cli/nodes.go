package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type nodeGroup struct {
	Connection

	List  nodeList  `cmd:"" help:"List the nodes and how their leases stand."`
	Get   nodeGet   `cmd:"" help:"Show one node."`
	Drain nodeDrain `cmd:"" help:"Take a node's work away step by step, and give it no new one."`
	Clear nodeClear `cmd:"" help:"End a node's drain: it may be given work again."`
	Fence nodeFence `cmd:"" help:"End a node's lease: it stops writing, and its work is given away when that is certain."`
}

type nodeList struct{}

// Run carries the command out.
func (c *nodeList) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		all, err := p.Nodes(ctx, x.read())
		if err != nil {
			return err
		}
		rows := make([]show.Node, 0, len(all))
		g := show.NewGrid("NAME", "INCARNATION", "STATUS", "LEASE", "HEARD", "DISPATCHERS", "LAST TICK")
		for _, n := range all {
			row := show.NodeRow(n)
			rows = append(rows, row)
			heard := ""
			if row.Lease != nil {
				heard = show.Ago(int64(row.Lease.HeardAgeMS)) + " ago"
			}
			g.Add(row.Name, row.Incarnation, statusOf(&row), row.Words(), heard, strconv.FormatUint(uint64(row.Placements), 10), show.Entry(row.LastTick))
		}
		if x.asJSON() {
			return x.json(map[string]any{"nodes": rows})
		}
		return x.table(g, "no nodes have registered; start one with: weir agent --node NAME")
	})
}

// statusOf says in a word or two how a node stands.
func statusOf(n *show.Node) string {
	switch {
	case n.Drain == nil:
		return n.Status
	case n.Drain.Over():
		return n.Status + ", drained"
	default:
		return n.Status + ", draining"
	}
}

type nodeGet struct {
	Name string `arg:"" help:"Name of the node."`
}

// Run carries the command out.
func (c *nodeGet) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		n, err := p.Node(ctx, c.Name, x.read())
		if err != nil {
			return err
		}
		row := show.NodeRow(n)
		if x.asJSON() {
			return x.json(row)
		}
		pairs := [][2]string{
			{"name", row.Name},
			{"incarnation", row.Incarnation},
			{"status", row.Status},
			{"lease", fmt.Sprintf("%s, of %s", row.Words(), show.Ago(int64(row.LeaseMS)))},
			{"address", row.Address},
			{"boot id", row.BootID},
			{"registered at", show.Entry(row.RegisteredAt)},
			{"last tick", show.Entry(row.LastTick)},
			{"dispatchers", strconv.FormatUint(uint64(row.Placements), 10)},
			{"orders not carried out", strconv.FormatUint(uint64(row.Pending), 10)},
			{"fenced because", row.FenceWhy},
			{"ended at", show.Entry(row.EndedAt)},
		}
		if row.Drain != nil {
			pairs = append(pairs, [2]string{"drain", row.Drain.Words()},
				[2]string{"drained since", fmt.Sprintf("%s, by %s, from %d dispatchers", show.Entry(row.Drain.Since), show.Dash(row.Drain.By), row.Drain.From)})
		}
		if l := row.Lease; l != nil {
			pairs = append(pairs, [2]string{"heard", show.Ago(int64(l.HeardAgeMS)) + " ago"})
		}
		return x.facts(pairs)
	})
}

type nodeFence struct {
	Mutation

	Name        string `arg:"" help:"Name of the node."`
	Incarnation string `placeholder:"INCARNATION" help:"Refuse unless this incarnation is the live one."`
	Why         string `default:"asked for on the command line" help:"Shown as the reason."`
}

// Run carries the command out.
func (c *nodeFence) Run(x *call) error {
	var incarnation uint64
	if c.Incarnation != "" {
		var err error
		if incarnation, err = token("--incarnation", c.Incarnation); err != nil {
			return err
		}
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.FenceNodeRequest{Header: header, Name: c.Name, Incarnation: incarnation, Why: c.Why}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		fenced, err := p.Fence(ctx, header, c.Name, incarnation, c.Why)
		if err != nil {
			return err
		}
		return x.done(nil, Done{Node: c.Name, Incarnation: show.Token(fenced)},
			"node %s, incarnation %s, is fenced; its work is given away when its lease must be over: weir node get %s", c.Name, show.Token(fenced), c.Name)
	})
}
