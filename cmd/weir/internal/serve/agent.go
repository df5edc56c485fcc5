package serve

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// ExitWritePath is the exit code of an agent that ends itself because a write path does not return after its gate was
// closed: what its sinks still do nobody else can stop.
const ExitWritePath = 80

// Agent runs a node until the context ends (a planned stop: its work is handed over with a goodbye) or it must not go on.
func Agent(ctx context.Context, cfg AgentConfig) error {
	timing, err := timingOf(cfg.Profile)
	if err != nil {
		return err
	}
	logger := newLogger(cfg.LogOutput, cfg.LogLevel, "agent")
	lock, err := lockFolder(cfg.DataDir)
	if err != nil {
		return err
	}
	system, timers := clock.System(), clock.SystemTimers{}
	api, err := client.New(client.Config{Addresses: cfg.Servers, Timers: timers, By: cfg.Node})
	if err != nil {
		return fmt.Errorf("reach the servers: %w", err)
	}
	defer api.Close()
	pipes, err := newPipes(system, timers)
	if err != nil {
		return err
	}
	ledger, closeLedger, err := cfg.ledger(system)
	if err != nil {
		return err
	}
	node, err := dispatcher.New(dispatcher.Config{
		Node: fsm.NodeName(cfg.Node), Cluster: cfg.Cluster, Address: address(), Lock: lock, Dialer: cfg.dialer(api),
		Sources: pipes.Source, Sinks: pipes.Sink, Clock: system, Timers: timers, Timing: timing,
		Limits: dispatcher.Limits{StopDeadline: cfg.StopTimeout}, Logger: logger, Ledger: ledger, Wall: wallMS,
		WaitForName: cfg.WaitForName,
		Reason:      reasonOf,
		Abort: func(reason string) {
			logger.Error("this process ends itself", "reason", reason)
			os.Exit(ExitWritePath)
		},
	})
	if err != nil {
		return errors.Join(err, closeLedger())
	}
	logger.Info("running", "node", cfg.Node, "servers", cfg.Servers, "data", cfg.DataDir)
	return errors.Join(node.Run(ctx), closeLedger())
}

// ledger opens the configured ledger; without one nobody is told.
func (cfg *AgentConfig) ledger(c clock.Clock) (dispatcher.Ledger, func() error, error) {
	if cfg.LedgerFile == "" {
		return nil, func() error { return nil }, nil
	}
	l, err := openLedger(cfg.LedgerFile, fsm.NodeName(cfg.Node), c)
	if err != nil {
		return nil, nil, err
	}
	return l, l.Close, nil
}

// dialer reaches the leader, for a hosted node only while its server does.
func (cfg *AgentConfig) dialer(api *client.Client) dispatcher.Dialer {
	if cfg.contact == nil {
		return api.NodeDialer()
	}
	return tiedDialer{Dialer: api.NodeDialer(), contact: cfg.contact}
}

// address tells people where a node runs.
func address() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

// reasonOf is the stable code of a client's error.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Reason
	}
	return ""
}
