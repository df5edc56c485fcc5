package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// Server runs a control-plane server, and an agent beside it if one is configured, until the context ends (a planned
// stop: leadership is handed over) or it must not go on. A server that must not go on takes its agent with it, and an
// agent that must not go on its server.
func Server(ctx context.Context, cfg ServerConfig) error {
	timing, err := timingOf(cfg.Profile)
	if err != nil {
		return err
	}
	logger := newLogger(cfg.LogOutput, cfg.LogLevel, "server")
	if timing.PausesAtLeaderChange() {
		logger.Warn("profile fast: writers may pause while the leader changes", "lease", timing.Lease)
	}
	listener, err := listen("the gRPC address", cfg.GRPCAddress)
	if err != nil {
		return err
	}
	plane, err := NewPlane(PlaneConfig{
		Raft: cfg.raft(), Open: raftnode.Open, Listener: listener, Clock: clock.System(), Timers: clock.SystemTimers{},
		Timing: timing, Wall: wallMS, Logger: logger,
	})
	if err != nil {
		return err
	}
	logger.Info("serving", "id", cfg.ID, "grpc", cfg.GRPCAddress, "raft", cfg.RaftAddress, "data", cfg.DataDir)
	if cfg.Agent == nil {
		return plane.Run(ctx)
	}
	agent := *cfg.Agent
	agent.contact = func() bool { ok, _ := plane.Node.Contact(); return ok }
	return together(ctx, plane.Run, func(ctx context.Context) error { return Agent(ctx, agent) })
}

// together runs the agent and the server of one process. At a planned stop the agent goes first, while there is still a
// server to say goodbye to; when one of them fails the other is stopped.
func together(ctx context.Context, server, agent func(context.Context) error) error {
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	agentCtx, stopAgent := context.WithCancel(ctx)
	defer stopAgent()
	serverDone, agentDone := make(chan error, 1), make(chan error, 1)
	go func() { serverDone <- server(serverCtx) }()
	go func() { agentDone <- agent(agentCtx) }()
	select {
	case err := <-agentDone:
		stopServer()
		return errors.Join(err, <-serverDone)
	case err := <-serverDone:
		stopAgent()
		return errors.Join(err, <-agentDone)
	}
}

func (cfg *ServerConfig) raft() raftnode.Config {
	peers := make([]raftnode.Peer, 0, len(cfg.Peers))
	for _, p := range cfg.Peers {
		peers = append(peers, raftnode.Peer{ID: fsm.ServerID(p.ID), RaftAddress: p.RaftAddress})
	}
	return raftnode.Config{
		ID: fsm.ServerID(cfg.ID), Cluster: cfg.Cluster, DataDir: cfg.DataDir, RaftBind: cfg.RaftAddress,
		GRPCAddress: cfg.GRPCAddress, Peers: peers, Timing: raftnode.Timing{Multiplier: cfg.TimingMultiplier},
		SnapshotThreshold: cfg.SnapshotThreshold, SnapshotInterval: cfg.SnapshotInterval, TrailingLogs: cfg.TrailingLogs,
		Generation: generation,
	}
}

// generation is minutes of wall clock: it only has to grow from one life of a cluster to the next.
func generation() fsm.Generation { return fsm.Generation(clock.Wall().Unix() / 60) }

func wallMS() int64 { return clock.Wall().UnixMilli() }

// timingOf finds a profile.
func timingOf(profile string) (fence.Timing, error) {
	switch profile {
	case "", "normal":
		return fence.DefaultTiming(), nil
	case "fast":
		return fence.FastTiming(), nil
	default:
		return fence.Timing{}, fmt.Errorf("there is no profile %q: use normal (lease 2 s) or fast (lease 1 s, writers may pause while the leader changes)", profile)
	}
}

// listen binds an address on loopback; anything else is refused until calls are secured.
func listen(what, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: it must be host:port", what, address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s is %s: only loopback addresses are allowed, because calls are not secured by TLS yet", what, address)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %s cannot be bound: %w; stop what uses the port, or choose another one", what, address, err)
	}
	return l, nil
}

func newLogger(out io.Writer, level, name string) hclog.Logger {
	if out == nil {
		out = os.Stderr
	}
	if level == "" {
		level = "info"
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: name, Output: out, Level: hclog.LevelFromString(level), TimeFormat: time.RFC3339Nano,
	})
}
