package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Config describes a cluster.
type Config struct {
	// Dir keeps everything: data, logs, ledgers.
	Dir string
	// Binary is the program under test.
	Binary string
	// Servers and Agents are how many of each.
	Servers, Agents int
	// SnapshotThreshold, SnapshotInterval and TrailingLogs tune the servers' snapshots; zero: the program's defaults.
	SnapshotThreshold int
	SnapshotInterval  time.Duration
	TrailingLogs      int
	// LogLevel is the program's; empty: its default.
	LogLevel string
}

// Cluster is a set of processes.
type Cluster struct {
	Servers []*Process
	Agents  []*Process

	config    Config
	starts    *starter
	addresses []address
	stop      sync.Once
}

// address is where a server listens.
type address struct{ id, raft, grpc string }

// Build compiles the program under test into dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "weir")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/weir-project/weir/cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program under test: %w\n%s", err, out)
	}
	return path, nil
}

// New prepares a cluster; nothing runs yet.
func New(cfg Config) (*Cluster, error) {
	c := &Cluster{config: cfg, starts: newStarter()}
	prefix, err := freePrefix(cfg.Servers)
	if err != nil {
		c.starts.close()
		return nil, err
	}
	for i := range cfg.Servers {
		host := prefix + strconv.Itoa(i+1)
		c.addresses = append(c.addresses, address{
			id: fmt.Sprintf("s%d", i+1), raft: net.JoinHostPort(host, strconv.Itoa(raftPort)), grpc: net.JoinHostPort(host, strconv.Itoa(grpcPort)),
		})
	}
	for i := range c.addresses {
		c.Servers = append(c.Servers, c.process(ServerRole, c.addresses[i].id, c.serverArgs(i)))
	}
	for i := range cfg.Agents {
		name := fmt.Sprintf("n%d", i+1)
		c.Agents = append(c.Agents, c.process(AgentRole, name, c.agentArgs(name)))
	}
	return c, nil
}

func (c *Cluster) process(role Role, name string, args []string) *Process {
	return &Process{
		Name: name, Role: role, LogFile: filepath.Join(c.config.Dir, name+".log"),
		binary: c.config.Binary, args: args, dir: c.config.Dir, starts: c.starts,
	}
}

const (
	raftPort = 7301
	grpcPort = 7302
)

// freePrefix finds a loopback network nobody listens on: by the process's id first, so that two harnesses do not meet.
func freePrefix(servers int) (string, error) {
	for try := range 64 {
		n := os.Getpid() + try*251
		prefix := fmt.Sprintf("127.%d.%d.", 2+n%250, 1+n/250%250)
		if free(prefix, servers) {
			return prefix, nil
		}
	}
	return "", errors.New("no free loopback network was found; look at what listens on 127.0.0.0/8")
}

func free(prefix string, servers int) bool {
	for i := range servers {
		for _, port := range []int{raftPort, grpcPort} {
			l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(prefix+strconv.Itoa(i+1), strconv.Itoa(port)))
			if err != nil {
				return false
			}
			if err := l.Close(); err != nil {
				return false
			}
		}
	}
	return true
}

// Addresses are those of the servers' API, in the order of Servers.
func (c *Cluster) Addresses() []string {
	var list []string
	for _, a := range c.addresses {
		list = append(list, a.grpc)
	}
	return list
}

// Ledger is the file of an agent's evidence.
func (c *Cluster) Ledger(agent string) string {
	return filepath.Join(c.config.Dir, agent+".ledger.jsonl")
}

// DataDir is where a process keeps its data.
func (c *Cluster) DataDir(name string) string { return filepath.Join(c.config.Dir, name+".data") }

// Processes are all, servers first.
func (c *Cluster) Processes() []*Process {
	return append(append([]*Process(nil), c.Servers...), c.Agents...)
}

// Start starts what does not run.
func (c *Cluster) Start() error {
	for _, p := range c.Processes() {
		if err := p.Start(); err != nil && !errors.Is(err, errRuns) {
			return err
		}
	}
	return nil
}

// Stop ends every process, agents first, and waits for them. It returns the names of those that did not end by
// themselves when asked.
func (c *Cluster) Stop(patience time.Duration) []string {
	var late []string
	c.stop.Do(func() {
		for _, group := range [][]*Process{c.Agents, c.Servers} {
			late = append(late, stopAll(group, patience)...)
		}
		c.starts.close()
	})
	return late
}

func stopAll(group []*Process, patience time.Duration) []string {
	var mu sync.Mutex
	var late []string
	var wait sync.WaitGroup
	for _, p := range group {
		wait.Go(func() {
			if p.Runs() && !p.Stop(patience) {
				mu.Lock()
				defer mu.Unlock()
				late = append(late, p.Name)
			}
		})
	}
	wait.Wait()
	return late
}

// Crashed returns the lives that ended without a signal from here, with the last lines of their logs.
func (c *Cluster) Crashed() []string {
	var list []string
	for _, p := range c.Processes() {
		for _, life := range p.Lives() {
			if life.Gone != 0 && life.Signalled == 0 {
				list = append(list, fmt.Sprintf("%s (pid %d) ended by itself: %s; see %s", p.Name, life.PID, life.Status, p.LogFile))
			}
		}
	}
	return list
}
