// Jepsen runs the shipped program as real processes, kills them under load, and checks that every promise was kept.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weir-project/weir/jepsen/run"
)

// flags are common to all runs.
type flags struct {
	Seed   uint64 `help:"Chooses what is asked for and who is killed when. Default: a new one, printed."`
	Short  bool   `help:"The share of a continuous build: fewer faults, lower floors."`
	Binary string `type:"path" placeholder:"FILE" help:"The program under test. Default: it is built."`
	Keep   bool   `help:"Keep the run's folder although all was well; a failed run is always kept."`
	Dir    string `type:"path" default:"jepsen/store" help:"Where run folders are made."`
}

type program struct {
	flags

	Kills     struct{} `cmd:"" help:"kill -9 of leaders, followers and owners under admissions and writes."`
	AdmitRace struct{} `cmd:"" help:"Add against Move for one absent dispatcher through two servers."`
	Replay    struct{} `cmd:"" help:"Equal logs give equal states, also through snapshots and restarts."`
}

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	var p program
	parser, err := kong.New(&p, kong.Name("jepsen"), kong.Description("Checks Weir's promises on real processes."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		return 2
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		return 2
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64N(1<<32) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := &run.Options{Seed: p.Seed, Short: p.Short, Binary: p.Binary, Dir: p.Dir, Keep: p.Keep, Out: os.Stdout}
	switch parsed.Command() {
	case "kills":
		err = run.Kills(ctx, options)
	case "admit-race":
		err = run.AdmitRace(ctx, options)
	case "replay":
		err = run.Replay(ctx, options)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, run.ErrFailed):
		return 1
	default:
		fmt.Fprintf(os.Stderr, "jepsen: %v\nseed %d\nrerun: %s\n", err, p.Seed, options.Rerun(parsed.Command()))
		return 1
	}
}
