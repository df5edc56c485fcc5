package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type clusterGroup struct {
	Connection

	Status clusterStatus `cmd:"" help:"Show servers, leader and counters, and compare the servers' states."`
}

type clusterStatus struct{}

// Run carries the command out. States that differ are a failure: that must never be.
func (c *clusterStatus) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		r, err := p.Status(ctx, true, x.read())
		if err != nil {
			return err
		}
		row := show.ClusterRow(r)
		if x.asJSON() {
			err = x.json(row)
		} else {
			err = x.clusterTables(&row)
		}
		if err != nil || !row.Differ() {
			return err
		}
		return &plane.Error{Class: plane.Failed, Reason: "STATE_DIFFERS", Text: fmt.Sprintf(
			"the servers' states differ at entry %d: stop the server whose hash is alone, keep its data folder, and report it", row.CommonIndex)}
	})
}

func (x *call) clusterTables(c *show.Cluster) error {
	leader := show.Dash(c.Leader)
	if c.LeaderAddress != "" {
		leader += " at " + c.LeaderAddress
	}
	state := fmt.Sprintf("entry %d, log time %s", c.Index, show.Ago(int64(c.LogTimeMS)))
	if c.Stale {
		state += fmt.Sprintf(", as %s had it %s ago", c.Server, show.Ago(int64(c.AgeMS)))
	}
	if err := x.facts([][2]string{
		{"cluster", c.Cluster},
		{"leader", leader},
		{"term", number(c.Term)},
		{"generation", number(c.Generation)},
		{"feature level", strconv.FormatUint(uint64(c.Level), 10)},
		{"state", state},
		{"dispatchers", number(c.Dispatchers)},
		{"running operators", strconv.FormatUint(uint64(c.RunningOperators), 10)},
		{"nodes", strconv.FormatUint(uint64(c.Nodes), 10)},
	}); err != nil {
		return err
	}
	g := show.NewGrid("SERVER", "ADDRESS", "ROLE", "APPLIED", "CONTACT", "STATE HASH")
	for _, m := range c.Members {
		role, contact := m.Role, "no"
		if m.InContact {
			contact = "yes"
		}
		if !m.Reachable {
			role, contact = "unreachable", m.Error
		}
		g.Add(m.ID, m.Address, role, show.Entry(m.AppliedIndex), contact, m.Hash)
	}
	if err := x.say(""); err != nil {
		return err
	}
	if err := x.table(g, "no servers have announced themselves yet"); err != nil {
		return err
	}
	if c.CommonIndex == 0 || c.Differ() {
		return nil
	}
	return x.say("\nstate hashes at entry %d are equal", c.CommonIndex)
}
