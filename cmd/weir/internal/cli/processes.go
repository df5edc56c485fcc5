package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
)

// process are the flags of programs that run until they are told to stop.
type process struct {
	Profile     string        `enum:"normal,fast" default:"normal" help:"Timing: normal, or fast (lease of 1 s; writers may pause at a leader change)."`
	StopTimeout time.Duration `default:"10s" help:"How long a planned stop (SIGTERM or SIGINT) may take."`
	LogLevel    string        `enum:"trace,debug,info,warn,error" default:"info" help:"How much is logged to standard error: trace, debug, info, warn or error."`
	// StopOnEOF ends the program when its standard input ends: the parent that holds the other end has died.
	StopOnEOF bool `hidden:"" name:"stop-on-stdin-eof"`
}

type serverCmd struct {
	process

	ID      string   `required:"" placeholder:"NAME" help:"The server's lasting name."`
	Data    string   `required:"" type:"path" placeholder:"FOLDER" help:"Folder of its log, snapshots and identity."`
	Raft    string   `placeholder:"HOST:PORT" help:"Address for the other servers; loopback, since there is no TLS yet. Default: the one of --peer."`
	GRPC    string   `name:"grpc" placeholder:"HOST:PORT" help:"Address for callers; loopback. Default: the one of --peer."`
	Peer    []string `required:"" placeholder:"ID=RAFT=GRPC" help:"Every server of the cluster, this one included: its name and its two addresses. Repeat it, or put commas between."`
	Cluster string   `placeholder:"ID" help:"Refuse to run with data of another cluster. Default: the first leader makes an id up."`

	Agent       bool   `help:"Host dispatchers in this process too."`
	Node        string `placeholder:"NAME" help:"With --agent: the node's name. Default: the server's."`
	Ledger      string `type:"path" placeholder:"FILE" help:"With --agent: note every lease edge and sink call in this file."`
	TimingTimes int    `name:"timing-multiplier" default:"1" help:"Stretch every time of Raft so often, 1 to 10, for slow networks."`

	WaitForName       time.Duration `default:"5s" help:"With --agent: how long to wait for the node's name while an older process of it may still hold a lease."`
	SnapshotThreshold uint64        `placeholder:"ENTRIES" help:"Take a snapshot after so many log entries. Default: 8192."`
	SnapshotInterval  time.Duration `placeholder:"TIME" help:"Look so often whether a snapshot is due. Default: 30s."`
	TrailingLogs      int           `placeholder:"ENTRIES" help:"Keep so many log entries behind a snapshot. Default: 10240."`
}

// Run carries the command out.
func (c *serverCmd) Run(x *call) error {
	cfg := serve.ServerConfig{
		ID: c.ID, DataDir: c.Data, Cluster: c.Cluster, RaftAddress: c.Raft, GRPCAddress: c.GRPC, Profile: c.Profile,
		TimingMultiplier: c.TimingTimes, SnapshotThreshold: c.SnapshotThreshold, SnapshotInterval: c.SnapshotInterval,
		TrailingLogs: c.TrailingLogs, LogOutput: x.env.Stderr, LogLevel: c.LogLevel,
	}
	grpc := make([]string, 0, len(c.Peer))
	for _, text := range c.Peer {
		peer, err := parsePeer(text)
		if err != nil {
			return err
		}
		cfg.Peers, grpc = append(cfg.Peers, peer), append(grpc, peer.GRPCAddress)
		if peer.ID == c.ID {
			cfg.RaftAddress, cfg.GRPCAddress = orElse(c.Raft, peer.RaftAddress), orElse(c.GRPC, peer.GRPCAddress)
		}
	}
	if cfg.RaftAddress == "" {
		return usage("--peer does not name server %s itself; list every server of the cluster, this one included", c.ID)
	}
	if c.Agent {
		cfg.Agent = &serve.AgentConfig{
			Node: orElse(c.Node, c.ID), DataDir: filepath.Join(c.Data, "agent"), Servers: append([]string{cfg.GRPCAddress}, grpc...),
			Cluster: c.Cluster, Profile: c.Profile, StopTimeout: c.StopTimeout, LedgerFile: c.Ledger, LogOutput: x.env.Stderr,
			LogLevel: c.LogLevel, WaitForName: c.WaitForName,
		}
	}
	return c.run(x, func(ctx context.Context) error { return x.env.Server(ctx, cfg) })
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func parsePeer(text string) (serve.Peer, error) {
	parts := strings.Split(text, "=")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return serve.Peer{}, usage("--peer %q: want ID=RAFT_ADDRESS=GRPC_ADDRESS, for example s1=127.0.0.1:7411=127.0.0.1:7401", text)
	}
	return serve.Peer{ID: parts[0], RaftAddress: parts[1], GRPCAddress: parts[2]}, nil
}

type agentCmd struct {
	process

	Node    string   `required:"" placeholder:"NAME" help:"The node's lasting name."`
	Data    string   `required:"" type:"path" placeholder:"FOLDER" help:"Folder of its lock file."`
	Servers []string `required:"" env:"WEIR_SERVERS" placeholder:"HOST:PORT,..." help:"Addresses of servers."`
	Cluster string   `placeholder:"ID" help:"Refuse servers of another cluster."`
	Ledger  string   `type:"path" placeholder:"FILE" help:"Note every lease edge and sink call in this file."`

	WaitForName time.Duration `default:"5s" help:"How long to wait for the name while an older process of it may still hold a lease."`
}

// Run carries the command out.
func (c *agentCmd) Run(x *call) error {
	cfg := serve.AgentConfig{
		Node: c.Node, DataDir: c.Data, Servers: c.Servers, Cluster: c.Cluster, Profile: c.Profile, StopTimeout: c.StopTimeout,
		LedgerFile: c.Ledger, WaitForName: c.WaitForName, LogOutput: x.env.Stderr, LogLevel: c.LogLevel,
	}
	return c.run(x, func(ctx context.Context) error { return x.env.Agent(ctx, cfg) })
}

// stopReserve is what is left to a process beyond its planned stop before it is ended the hard way.
const stopReserve = 5 * time.Second

// run runs a program until a signal, or until the parent has gone. A second signal, or a stop that takes too long, ends
// the process at once.
func (p *process) run(x *call, program func(context.Context) error) error {
	ctx, stop := context.WithCancel(x.Context)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	orphaned := make(chan struct{})
	if p.StopOnEOF {
		go func() {
			_, _ = io.Copy(io.Discard, x.env.Stdin) // any end of the pipe means the same
			close(orphaned)
		}()
	}
	done := make(chan error, 1)
	go func() { done <- program(ctx) }()
	select {
	case err := <-done:
		return err
	case s := <-signals:
		x.note("weir: %s: planned stop, at most %s; again: stop at once", s, p.StopTimeout)
	case <-orphaned:
		x.note("weir: the parent process is gone: planned stop, at most %s", p.StopTimeout)
	}
	stop()
	late := time.NewTimer(p.StopTimeout + stopReserve)
	defer late.Stop()
	select {
	case err := <-done:
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	case <-signals:
		return failed("stopped at once, as asked; what it owned is given away when its lease is over")
	case <-late.C:
		return failed("the planned stop did not end within %s; the process ends now", p.StopTimeout+stopReserve)
	}
}

type devCmd struct {
	Dir     string        `type:"path" placeholder:"FOLDER" help:"Folder for all files. Default: a new temporary one, removed at the end unless --keep."`
	Keep    bool          `help:"Keep the temporary folder."`
	Servers int           `default:"3" help:"Number of servers: 1, 3 or 5."`
	Agents  int           `default:"3" help:"Number of agents."`
	Port    int           `default:"${dev_port}" help:"First port; the servers use it and those after it if all are free, else any free ones. 0: any free ones."`
	Demo    string        `enum:",shop" default:"" help:"Run a demo: shop replicates a real change log through a move and two kills."`
	Exit    bool          `help:"With --demo: end after it; status 0 only if everything was right."`
	Pace    time.Duration `default:"30s" help:"With --demo: how long the change log is stretched."`
	Seed    int64         `help:"With --demo: chooses what is moved and when is killed. Default: a new one, printed."`
	Profile string        `enum:"normal,fast" default:"normal" help:"Timing of servers and agents: normal or fast."`
}

// Run carries the command out.
func (c *devCmd) Run(x *call) error {
	switch {
	case c.Servers != 1 && c.Servers != 3 && c.Servers != 5:
		return usage("--servers %d: want 1, 3 or 5", c.Servers)
	case c.Agents < 0 || c.Agents > 32:
		return usage("--agents %d: want 0 to 32", c.Agents)
	case c.Port < 0 || c.Port > 65000:
		return usage("--port %d: want 0 to 65000", c.Port)
	case c.Demo == "" && c.Exit:
		return usage("--exit ends a demo; name one, for example --demo shop")
	case c.Demo != "" && (c.Servers < 3 || c.Agents < 2):
		return usage("--demo %s kills a server and an agent: want at least 3 servers and 2 agents", c.Demo)
	case c.Demo != "" && (c.Pace < time.Second || c.Pace > time.Hour):
		return usage("--pace %s: want 1s to 1h", c.Pace)
	}
	seed := c.Seed
	if seed == 0 {
		seed = time.Now().UnixNano() % 1_000_000_000
	}
	err := x.env.Dev(x.Context, dev.Config{
		Dir: c.Dir, Keep: c.Keep, Servers: c.Servers, Agents: c.Agents, FirstPort: c.Port, Demo: c.Demo, Exit: c.Exit,
		Pace: c.Pace, Seed: seed, Profile: c.Profile, Stdout: x.env.Stdout, Terminal: x.env.Terminal,
	})
	if err != nil {
		return fmt.Errorf("dev: %w", err)
	}
	return nil
}
