package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// options are the command line.
type options struct {
	sizes   []int
	rounds  int
	waves   int
	batch   int
	seed    uint64
	history int
	views   int
	short   bool
	keep    string
	serve   int // internal: be the child of one size
}

// errBounds says that a bound does not hold.
var errBounds = errors.New("a bound does not hold")

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "apply:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var sizes string
	f := flag.NewFlagSet("apply", flag.ContinueOnError)
	f.StringVar(&sizes, "sizes", "1000,10000,100000,1000000", "numbers of dispatchers, ascending")
	f.IntVar(&o.rounds, "rounds", 5, "timed rounds of each size; their median counts")
	f.IntVar(&o.waves, "waves", 40, "waves of about 1,000 commands in a round")
	f.IntVar(&o.batch, "batch", 1, "commands in a log entry")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything random")
	f.IntVar(&o.history, "history", int(fsm.DefaultPolicy().KeepHistory), "ended placements that the state remembers")
	f.IntVar(&o.views, "views", 0, "entries after which a reader takes a view, for a look at what that costs; 0: never, which is what the bounds are about")
	f.BoolVar(&o.short, "short", false, "1,000 and 100,000 dispatchers, a short history, no times")
	f.StringVar(&o.keep, "keep", "", "folder for callgrind's output files, for callgrind_annotate")
	f.IntVar(&o.serve, "serve", 0, "internal: build so many dispatchers and take orders on standard input")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.short {
		sizes, o.rounds, o.waves, o.history = "1000,100000", 0, 10, 20_000
	}
	for word := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < waveSize || (len(o.sizes) > 0 && n <= o.sizes[len(o.sizes)-1]) {
			return o, fmt.Errorf("sizes %q: want ascending numbers, each at least %d", sizes, waveSize)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.batch < 1 || o.waves < 1 || o.history < 1 || o.views < 0 || (o.rounds < 1 && !o.short) {
		return o, errors.New("rounds, waves, batch and history are at least 1, views at least 0")
	}
	return o, nil
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.serve > 0 {
		return serve(o.serve, o.seed, o.history, os.Stdin, out)
	}
	rows, err := o.measure()
	if err != nil {
		return err
	}
	b := fullBounds()
	if o.short {
		b = shortBounds()
	}
	lines, ok := b.verdicts(rows)
	if o.views > 0 {
		lines, ok = []string{fmt.Sprintf("with a view after every %d entries; the bounds are about none", o.views)}, true
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n", format(o, rows), strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if !ok {
		return errBounds
	}
	return nil
}
