package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/cluster"
	"github.com/weir-project/weir/jepsen/evidence"
	"github.com/weir-project/weir/jepsen/history"
)

// bench is a cluster with what every run needs around it.
type bench struct {
	options  *Options
	summary  *Summary
	cluster  *cluster.Cluster
	recorder *history.Recorder
	admin    *client.Client
	servers  []caller.Server
	links    []*caller.Links
}

// stopPatience is how long a process may take to stop when it is asked.
const stopPatience = 20 * time.Second

// newBench builds the program, starts the cluster and waits until it serves.
func newBench(ctx context.Context, o *Options, name string, tune func(*cluster.Config)) (*bench, error) {
	dir, binary, err := o.folder(ctx, name)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, summary: &Summary{
		Run: name, Seed: o.Seed, Folder: dir, Rerun: o.Rerun(name),
	}}
	o.say("%s: seed %d, folder %s", name, o.Seed, dir)
	cfg := cluster.Config{Dir: dir, Binary: binary, Servers: 3, Agents: 3}
	if tune != nil {
		tune(&cfg)
	}
	if b.recorder, err = history.NewRecorder(filepath.Join(dir, "history.jsonl")); err != nil {
		return nil, err
	}
	if b.cluster, err = cluster.New(cfg); err != nil {
		return nil, err
	}
	for i, address := range b.cluster.Addresses() {
		b.servers = append(b.servers, caller.Server{ID: b.cluster.Servers[i].Name, Address: address})
	}
	if b.admin, err = client.New(client.Config{Addresses: b.cluster.Addresses(), By: "jepsen-admin"}); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.cluster.Start(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.serving(ctx, 60*time.Second); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// dial makes the connections of one more client.
func (b *bench) dial() (*caller.Links, error) {
	l, err := caller.Dial(b.servers)
	if err != nil {
		return nil, err
	}
	b.links = append(b.links, l)
	return l, nil
}

// serving waits until a leader serves and every agent is registered and live.
func (b *bench) serving(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		live, err := b.liveNodes(ctx)
		if err == nil && live == len(b.cluster.Agents) {
			return nil
		}
		if crashed := b.cluster.Crashed(); len(crashed) > 0 {
			return fmt.Errorf("start the cluster: %s", crashed[0])
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start the cluster: after %v %d of %d agents are live: %w", bound, live, len(b.cluster.Agents), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (b *bench) liveNodes(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	nodes, err := b.admin.Nodes(ctx, nil)
	live := 0
	for _, n := range nodes {
		if n.GetStatus() == weirv1.NodeStatus_NODE_STATUS_LIVE {
			live++
		}
	}
	return live, err
}

// path names a file of the run.
func (b *bench) path(name string) string { return filepath.Join(b.summary.Folder, name) }

// sinkURI names a SQLite file of the run with a ledger.
func (b *bench) sinkURI(name string) string { return "sqlite:" + b.path(name) + "?ledger=true" }

// sourceURI names a growing change log of the run.
func (b *bench) sourceURI(name string) string { return "wal2json:" + b.path(name) + "?follow=true" }

// ledgers reads what the agents noted. The cluster must have been stopped.
func (b *bench) ledgers() (*evidence.Agents, error) {
	var paths []string
	for _, a := range b.cluster.Agents {
		paths = append(paths, b.cluster.Ledger(a.Name))
	}
	return evidence.ReadLedgers(paths)
}

// lives are those of all processes.
func (b *bench) lives() []cluster.Life {
	var all []cluster.Life
	for _, p := range b.cluster.Processes() {
		all = append(all, p.Lives()...)
	}
	return all
}

// stop ends the cluster as planned; whoever does not stop in time, or ended by itself before, is a violation.
func (b *bench) stop() {
	for _, name := range b.cluster.Stop(stopPatience) {
		b.summary.violate("%s did not stop within %v of SIGTERM", name, stopPatience)
	}
	for _, text := range b.cluster.Crashed() {
		b.summary.violate("%s", text)
	}
}

// close ends everything, whatever state it is in.
func (b *bench) close() error {
	var errs []error
	if b.cluster != nil {
		b.cluster.Stop(2 * time.Second)
	}
	if b.admin != nil {
		b.admin.Close()
	}
	for _, l := range b.links {
		errs = append(errs, l.Close())
	}
	b.links = nil
	return errors.Join(errs...)
}

// remove deletes the program under test from the folder, which is large and can be built again.
func (b *bench) remove() {
	if b.options.Binary == "" {
		_ = os.Remove(b.path("weir")) // only space is lost
	}
}
