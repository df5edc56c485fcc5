// Command explore visits every state of the worlds of package explore and prints a table of them. It ends with status 1 at
// the first world in which a rule is broken, after a script that `weir scenario run` plays.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"time"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm/explore"
)

// collectLess trades memory for speed: what is explored stays reachable, so that collecting garbage frees little.
const collectLess = 400

func main() {
	only := flag.String("only", "", "names of worlds, separated by commas; all if empty")
	short := flag.Bool("short", false, "only the worlds of the share for continuous integration")
	workers := flag.Int("workers", 0, "goroutines; 0 for one each processor")
	most := flag.Int("most", 0, "states of a world after which to give up; 0 for no limit")
	flag.Parse()
	debug.SetGCPercent(collectLess)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, worlds(*only, *short), explore.Config{Workers: *workers, MaxStates: *most}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has been called
	}
}

func worlds(only string, short bool) []*explore.World {
	var chosen []*explore.World
	for _, w := range explore.Worlds() {
		named := only == "" || strings.Contains(","+only+",", ","+w.Name+",")
		if named && (!short || w.Short) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// total is the sum over the worlds that were explored.
type total struct {
	states, transitions, applied int
	took                         time.Duration
}

func run(ctx context.Context, worlds []*explore.World, c explore.Config) error {
	if len(worlds) == 0 {
		return fmt.Errorf("explore: no world has that name")
	}
	say(layout, "world", "states", "transitions", "fsm states", "fsm transitions", "depth", "seconds", "violations")
	ticks := clock.System()
	var sum total
	for _, w := range worlds {
		began := ticks.Now()
		c.World = w
		r, err := explore.Explore(ctx, c)
		took := clock.MaxElapsed(began, ticks.Now())
		if err != nil {
			return fmt.Errorf("explore world %q after %d states: %w", w.Name, r.States, err)
		}
		if r.Found != nil {
			return fmt.Errorf("world %q: %w after %d steps; play this with `weir scenario run FILE`:\n\n%s", w.Name, r.Found.Err, r.Found.Steps, r.Found.Script)
		}
		say(layout, w.Name, r.States, r.Transitions, r.Standings, r.Applied, r.Depth, seconds(took), 0)
		say("    %s\n", w.Bounds)
		sum.states += r.States
		sum.transitions += r.Transitions
		sum.applied += r.Applied
		sum.took += took
	}
	say(layout, "all", sum.states, sum.transitions, "", sum.applied, "", seconds(sum.took), 0)
	return nil
}

// layout is a line of the table.
const layout = "%-40v %10v %12v %10v %15v %5v %8v %10v\n"

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

func say(format string, values ...any) { _, _ = fmt.Fprintf(os.Stdout, format, values...) }
