package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// stopLimit bounds a planned stop of each child before it is killed.
const stopLimit = 8 * time.Second

// fleet is everything that this process has started.
type fleet struct {
	dir      string
	program  string
	spawner  *spawner
	state    State
	children []*child

	mu sync.Mutex // guards the state's file
}

// newFleet prepares the children; none is started.
func newFleet(ctx context.Context, cfg *Config, dir string) (*fleet, error) {
	program := cfg.Program
	if program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program's file: %w", err)
		}
		program = own
	}
	f := &fleet{dir: dir, program: program, state: State{PID: os.Getpid()}}
	if err := f.addresses(ctx, cfg); err != nil {
		return nil, err
	}
	var peers []string
	for i := range cfg.Servers {
		peers = append(peers, fmt.Sprintf("%s=%s=%s", serverName(i), f.state.Raft[i], f.state.Servers[i]))
	}
	for i := range cfg.Servers {
		f.add(roleServer, serverName(i), "grpc "+f.state.Servers[i]+", raft "+f.state.Raft[i],
			"--id", serverName(i), "--data", filepath.Join(dir, serverName(i)), "--peer", strings.Join(peers, ","), "--profile", cfg.Profile)
	}
	for i := range cfg.Agents {
		name := agentName(i)
		f.add(roleAgent, name, "",
			"--node", name, "--data", filepath.Join(dir, name), "--servers", strings.Join(f.state.Servers, ","), "--profile", cfg.Profile,
			"--ledger", ledgerPath(dir, name), "--stop-timeout", (stopLimit / 2).String())
	}
	f.spawner = newSpawner()
	return f, nil
}

func serverName(i int) string { return "s" + strconv.Itoa(i+1) }
func agentName(i int) string  { return "n" + strconv.Itoa(i+1) }

// ledgerPath is where an agent notes its lease edges and its calls to sinks.
func ledgerPath(dir, agent string) string { return filepath.Join(dir, agent+".ledger.ndjson") }

// addresses takes those that the folder was used with before, since the servers' data holds them, or free ones.
func (f *fleet) addresses(ctx context.Context, cfg *Config) error {
	before, err := ReadState(f.dir)
	switch {
	case err == nil && len(before.Servers) != cfg.Servers:
		return fmt.Errorf("folder %s was used with %d servers; start it with --servers %d, or name another folder", f.dir, len(before.Servers), len(before.Servers))
	case err == nil:
		f.state.Servers, f.state.Raft = before.Servers, before.Raft
		return nil
	}
	if _, statErr := os.Stat(filepath.Join(f.dir, StateFile)); statErr == nil {
		return fmt.Errorf("folder %s: %w", f.dir, err)
	}
	grpc, raft, err := choosePorts(ctx, cfg.FirstPort, cfg.Servers)
	if err != nil {
		return err
	}
	for i := range grpc {
		f.state.Servers, f.state.Raft = append(f.state.Servers, address(grpc[i])), append(f.state.Raft, address(raft[i]))
	}
	return nil
}

func (f *fleet) add(r role, name, addresses string, args ...string) {
	f.children = append(f.children, &child{
		role: r, name: name, addresses: addresses, log: filepath.Join(f.dir, name+".log"),
		args: append([]string{r.String(), "--stop-on-stdin-eof"}, args...),
	})
}

// byName finds a child; nil if there is none.
func (f *fleet) byName(name string) *child {
	for _, c := range f.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// start starts a child and notes it in the state file.
func (f *fleet) start(c *child) error {
	if err := c.start(f.spawner, f.program); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Processes = nil
	for _, c := range f.children {
		f.state.Processes = append(f.state.Processes, ProcessState{Name: c.name, Role: c.role.String(), PID: c.pid(), Log: c.log})
	}
	return f.state.write(f.dir)
}

// startAll starts every child.
func (f *fleet) startAll() error {
	for _, c := range f.children {
		if err := f.start(c); err != nil {
			return err
		}
	}
	return nil
}

// stop ends every child: agents first, while there is somebody to say goodbye to. When hurry is closed everything is
// killed at once. It returns the names of those that had to be killed.
func (f *fleet) stop(hurry <-chan struct{}) []string {
	var late []string
	for _, r := range []role{roleAgent, roleServer} {
		var wg sync.WaitGroup
		results := make(chan string, len(f.children))
		for _, c := range f.children {
			if c.role != r {
				continue
			}
			wg.Go(func() {
				if !c.stop(stopLimit) {
					results <- c.name
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-hurry:
			for _, c := range f.children {
				c.kill()
			}
			<-done
		}
		close(results)
		for name := range results {
			late = append(late, name)
		}
	}
	f.spawner.close()
	return late
}

// table prints what was started.
func (f *fleet) table(out *screen) {
	g := show.NewGrid("ROLE", "NAME", "PID", "ADDRESSES", "LOG")
	for _, c := range f.children {
		g.Add(c.role.String(), c.name, strconv.Itoa(c.pid()), c.addresses, c.log)
	}
	out.grid(g, "nothing was started")
}

// lastWords is the end of a child's log, for a child that ended when it should not.
func (c *child) lastWords() string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-3):], []byte("\n  ")))
}

// healthLimit bounds the wait until everything has found together.
const healthLimit = 60 * time.Second

// errEnded says that a child ended while it was waited for.
var errEnded = errors.New("a process has ended")

// healthy waits until the cluster has a leader, every server answers, and every agent may write.
func (f *fleet) healthy(ctx context.Context, p plane) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	for {
		for _, c := range f.children {
			if !c.running() {
				return fmt.Errorf("%w: %s %s, %s; the end of its log %s says:\n  %s", errEnded, c.role, c.name, c.how(), c.log, c.lastWords())
			}
		}
		why := f.missing(ctx, p)
		if why == "" {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("the cluster was not healthy after %s: %s; see the logs in %s", healthLimit, why, f.dir)
			}
			return err
		}
	}
}

// missing says what is not healthy yet; nothing if all is.
func (f *fleet) missing(ctx context.Context, p plane) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, err := p.Status(ctx, true, nil)
	if err != nil {
		return err.Error()
	}
	servers, agents := 0, 0
	for _, m := range status.GetMembers() {
		if m.GetReachable() && m.GetInContact() && m.GetAddress() != "" {
			servers++
		}
	}
	nodes, err := p.Nodes(ctx, nil)
	if err != nil {
		return err.Error()
	}
	for _, n := range nodes {
		if c := f.byName(n.GetName()); c != nil && n.GetStatus() == weirv1.NodeStatus_NODE_STATUS_LIVE && n.GetLease().GetGateOpen() {
			agents++
		}
	}
	wantServers, wantAgents := f.count(roleServer), f.count(roleAgent)
	if servers < wantServers || agents < wantAgents {
		return fmt.Sprintf("%d of %d servers are in contact, %d of %d agents may write", servers, wantServers, agents, wantAgents)
	}
	return ""
}

func (f *fleet) count(r role) int {
	n := 0
	for _, c := range f.children {
		if c.role == r {
			n++
		}
	}
	return n
}

// sleep waits; it returns why the context ended if that came first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
