package cluster

import (
	"strconv"
	"strings"
)

// ID is the cluster's id.
const ID = "jepsen"

// serverArgs is the command line of a server.
func (c *Cluster) serverArgs(i int) []string {
	me := c.addresses[i]
	args := []string{"server", "--stop-on-stdin-eof", "--id", me.id, "--data", c.DataDir(me.id), "--cluster", ID}
	for _, a := range c.addresses {
		args = append(args, "--peer", a.id+"="+a.raft+"="+a.grpc)
	}
	if n := c.config.SnapshotThreshold; n > 0 {
		args = append(args, "--snapshot-threshold", strconv.Itoa(n))
	}
	if d := c.config.SnapshotInterval; d > 0 {
		args = append(args, "--snapshot-interval", d.String())
	}
	if n := c.config.TrailingLogs; n > 0 {
		args = append(args, "--trailing-logs", strconv.Itoa(n))
	}
	return c.withLogLevel(args)
}

// agentArgs is the command line of an agent.
func (c *Cluster) agentArgs(name string) []string {
	return c.withLogLevel([]string{
		"agent", "--stop-on-stdin-eof", "--wait-for-name", "30s", "--node", name, "--data", c.DataDir(name), "--cluster", ID,
		"--servers", strings.Join(c.Addresses(), ","), "--ledger", c.Ledger(name),
	})
}

func (c *Cluster) withLogLevel(args []string) []string {
	if c.config.LogLevel == "" {
		return args
	}
	return append(args, "--log-level", c.config.LogLevel)
}
