package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/weir-project/weir/api/client"
)

// Run starts everything, runs the demo if one is asked for, and stays until the context ends. It returns when every child
// has ended. The error is nil after a run that ended because it was told to, and says what was wrong otherwise.
func Run(ctx context.Context, cfg Config) (err error) {
	dir, remove, err := folder(&cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil || errors.Is(err, errInterrupted) { // else the files tell what went wrong
			err = errors.Join(err, remove())
		}
	}()
	f, err := newFleet(ctx, &cfg, dir)
	if err != nil {
		return err
	}
	out := newScreen(cfg.Stdout, cfg.Terminal)
	hurry, done := secondSignal(ctx)
	defer done()
	defer func() {
		out.line("weir dev: stopping %d processes; again: at once", len(f.children))
		if late := f.stop(hurry); len(late) > 0 {
			out.line("weir dev: killed, since they did not stop in time: %s", strings.Join(late, ", "))
		}
		out.line("weir dev: everything has stopped")
		err = errors.Join(err, out.failed())
	}()
	if err := f.startAll(); err != nil {
		return err
	}
	c, err := client.New(client.Config{Addresses: f.state.Servers, By: "weir dev"})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	out.line("weir dev: files are in %s", dir)
	if err := f.healthy(ctx, c); err != nil {
		return cfg.outcome(ctx, err)
	}
	f.table(out)
	return cfg.outcome(ctx, f.live(ctx, &cfg, c, out))
}

// live runs the watch beside the demo, and then until the context ends.
func (f *fleet) live(ctx context.Context, cfg *Config, c workPlane, out *screen) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	say := func(format string, args ...any) { out.line("weir dev: "+format, args...) }
	if cfg.Demo == "" {
		wg.Go(func() { f.watch(ctx, c, say) })
		f.examples(out, cfg)
		<-ctx.Done()
		return nil
	}
	d, err := newDemo(ctx, cfg, f, c, out)
	if err != nil {
		return err
	}
	wg.Go(func() { f.watch(ctx, c, d.say) })
	if err := d.run(ctx); err != nil || cfg.Exit {
		return err
	}
	f.examples(out, cfg)
	<-ctx.Done()
	return nil
}

// errInterrupted says that a run which was to prove something was told to end before it had.
var errInterrupted = errors.New("interrupted before the demo had ended")

// outcome is the error of the run. One that only says that the run was told to end is none, unless the run was to prove
// something.
func (cfg *Config) outcome(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case cfg.Exit:
		return errInterrupted
	default:
		return nil
	}
}

// folder makes the folder for all files; remove takes a temporary one away again.
func folder(cfg *Config) (dir string, remove func() error, err error) {
	if cfg.Dir == "" {
		dir, err = os.MkdirTemp("", "weir-dev-")
		if err != nil {
			return "", nil, fmt.Errorf("make a temporary folder: %w", err)
		}
		if cfg.Keep {
			return dir, func() error { return nil }, nil
		}
		return dir, func() error { return os.RemoveAll(dir) }, nil
	}
	dir, err = filepath.Abs(cfg.Dir)
	if err != nil {
		return "", nil, fmt.Errorf("folder %s: %w", cfg.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make folder: %w", err)
	}
	return dir, func() error { return nil }, nil
}

// secondSignal is closed by the next signal after the context has ended.
func secondSignal(ctx context.Context) (hurry <-chan struct{}, done func()) {
	signals, closed, stop := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-stop:
			return
		}
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			close(closed)
		case <-stop:
		}
	}()
	return closed, func() { close(stop) }
}

// examples are commands for the user to go on with.
func (f *fleet) examples(out *screen, cfg *Config) {
	flag := " --servers " + strings.Join(f.state.Servers, ",")
	if strings.Join(f.state.Servers, ",") == strings.Join(DefaultAddresses(), ",") {
		flag = ""
	}
	program := "weir"
	if strings.Contains(f.program, "go-build") {
		program = "go run ./cmd/weir"
	}
	out.line("\nit stays up until Ctrl-C; try in another terminal:")
	out.line("  %s cluster status%s", program, flag)
	if cfg.Demo != "" {
		out.line("  %s dispatcher list%s", program, flag)
		out.line("  %s operator move 1 --to %s --wait%s", program, agentName(0), flag)
		return
	}
	out.line("  %s node list%s", program, flag)
	out.line("  %s changefeed create shop --source wal2json:PATH --sink sqlite:PATH --table NAME%s", program, flag)
}
