package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
)

// process is a child as its parent sees it.
type process struct {
	n    int
	cmd  *exec.Cmd
	in   io.Closer
	out  *json.Encoder
	back *json.Decoder
	heap heap
}

// start runs this program again for one size, under the command that prefix names.
func start(o options, n int, env []string, prefix ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := slices.Concat(prefix, []string{self, "-serve", strconv.Itoa(n), "-seed", strconv.FormatUint(o.seed, 10), "-history", strconv.Itoa(o.history)})
	p := &process{n: n, cmd: exec.CommandContext(context.Background(), args[0], args[1:]...)} //nolint:gosec // this program itself; it ends with its input
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), env...)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	back, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	p.in, p.out, p.back = in, json.NewEncoder(in), json.NewDecoder(back)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return p, nil
}

// ready waits until the child has built its state.
func (p *process) ready() error {
	if err := p.back.Decode(&p.heap); err != nil {
		return fmt.Errorf("child of %d dispatchers: %w", p.n, err)
	}
	return nil
}

func (p *process) obey(what string, o options) (cost, error) {
	var c cost
	if err := p.out.Encode(order{What: what, Waves: o.waves, Pace: pace{Batch: o.batch, Views: o.views}}); err != nil {
		return c, fmt.Errorf("child of %d dispatchers: %w", p.n, err)
	}
	if err := p.back.Decode(&c); err != nil {
		return c, fmt.Errorf("child of %d dispatchers: %w", p.n, err)
	}
	return c, nil
}

// end closes the child's input and waits for it.
func (p *process) end() error {
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("child of %d dispatchers: %w", p.n, err)
	}
	return nil
}

// measure returns a row for each size.
func (o options) measure() ([]row, error) {
	rows, err := o.measureNative()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "counting instructions at every size")
	errs := make([]error, len(rows))
	var all sync.WaitGroup
	for i := range rows { // side by side: what is counted does not depend on the machine's load
		all.Go(func() { rows[i].instructions, errs[i] = o.countInstructions(rows[i].dispatchers) })
	}
	all.Wait()
	return rows, errors.Join(errs...)
}

// measureNative measures heap, allocations and time. All sizes are alive at once, and take turns.
func (o options) measureNative() (rows []row, err error) {
	var children []*process
	defer func() {
		for _, p := range children {
			err = errors.Join(err, p.end())
		}
	}()
	for _, n := range o.sizes {
		fmt.Fprintf(os.Stderr, "building %d dispatchers\n", n)
		p, err := start(o, n, nil)
		if err != nil {
			return nil, err
		}
		children = append(children, p)
		if err := p.ready(); err != nil {
			return nil, err
		}
	}
	times := make([][]float64, len(children))
	for range o.rounds {
		for i, p := range children {
			c, err := p.obey(askTime, o)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], c.per(float64(c.Nanoseconds)))
		}
	}
	for i, p := range children {
		c, err := p.obey(askAllocations, o)
		if err != nil {
			return nil, err
		}
		r := row{dispatchers: p.n, heap: p.heap, allocations: c.per(float64(c.Allocations)), bytes: c.per(float64(c.Bytes))}
		r.nanoseconds, r.spread = median(times[i])
		rows = append(rows, r)
	}
	return rows, nil
}

func median(values []float64) (middle, spread float64) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	middle = values[len(values)/2]
	return middle, (values[len(values)-1] - values[0]) / middle
}

// countInstructions builds the size once more under callgrind.
func (o options) countInstructions(n int) (float64, error) {
	dir := o.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "weir-apply-"); err != nil {
			return 0, fmt.Errorf("make a folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // what stays is a few kilobytes of a temporary folder
	}
	file := filepath.Join(dir, fmt.Sprintf("callgrind.%d", n))
	p, err := start(o, n, []string{"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1"},
		"valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", "--callgrind-out-file="+file)
	if err != nil {
		return 0, err
	}
	c, err := func() (cost, error) {
		if err := p.ready(); err != nil {
			return cost{}, err
		}
		return p.obey(askInstructions, o)
	}()
	if err := errors.Join(err, p.end()); err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(file) //nolint:gosec // a folder of its own, or one that the caller named
	if err != nil {
		return 0, fmt.Errorf("read callgrind's output: %w", err)
	}
	total, err := callgrindTotal(raw)
	return c.per(total), err
}

// callgrindTotal reads the number of instructions that callgrind has collected.
func callgrindTotal(raw []byte) (float64, error) {
	for line := range strings.Lines(string(raw)) {
		if word, ok := strings.CutPrefix(line, "totals: "); ok {
			total, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
			if err != nil || total == 0 {
				return 0, fmt.Errorf("callgrind counted %q: it did not see the requests of this program", strings.TrimSpace(word))
			}
			return total, nil
		}
	}
	return 0, errors.New("callgrind's output holds no totals")
}

// format says what was measured, in the words of the page on performance.
func format(o options, rows []row) string {
	var cells, lines strings.Builder
	fmt.Fprintf(&cells, "dispatchers\tinstructions\tns\tspread\tallocations\tbytes\theap, built\theap, restored\tpast, MB\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%d\t%.0f\t%.0f\t%.0f%%\t%.2f\t%.0f\t%.0f\t%.0f\t%.1f\t\n", r.dispatchers, r.instructions, r.nanoseconds,
			100*r.spread, r.allocations, r.bytes, r.heap.Built, r.heap.Restored, float64(r.heap.Past)/(1<<20))
	}
	fmt.Fprintf(&lines, "%s/%s, %s, seed %d, %d command(s) an entry, %d rounds of %d waves\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), o.seed, o.batch, o.rounds, o.waves)
	t := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, err := t.Write([]byte(cells.String()))
	if err := errors.Join(err, t.Flush()); err != nil {
		panic(err) // a builder takes everything
	}
	return lines.String()
}
