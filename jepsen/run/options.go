package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-project/weir/jepsen/cluster"
)

// Options are common to all runs.
type Options struct {
	// Seed decides what is asked for and who is killed when.
	Seed uint64
	// Short is the share of a continuous build.
	Short bool
	// Binary is the program under test; empty: it is built.
	Binary string
	// Dir is where run folders are made.
	Dir string
	// Keep keeps the run's folder although all was well.
	Keep bool
	// Out is what people read.
	Out io.Writer
}

// say prints a line for people; that it cannot be printed is no reason to end a run.
func (o *Options) say(format string, args ...any) { _, _ = fmt.Fprintf(o.Out, format+"\n", args...) }

// ErrFailed says that a run found a violation or did too little.
var ErrFailed = errors.New("the run failed")

// folder makes the run's folder and the program under test.
func (o *Options) folder(ctx context.Context, name string) (dir, binary string, err error) {
	dir, err = filepath.Abs(filepath.Join(o.Dir, fmt.Sprintf("%s-%s-seed%d", time.Now().Format("20060102-150405"), name, o.Seed)))
	if err != nil {
		return "", "", fmt.Errorf("name run folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", fmt.Errorf("make run folder: %w", err)
	}
	if o.Binary != "" {
		binary, err = filepath.Abs(o.Binary)
		if err != nil {
			return "", "", fmt.Errorf("find the program under test: %w", err)
		}
		if _, err := os.Stat(binary); err != nil {
			return "", "", fmt.Errorf("find the program under test: %w", err)
		}
		return dir, binary, nil
	}
	o.say("building the program under test")
	binary, err = cluster.Build(ctx, dir)
	return dir, binary, err
}

// Rerun is the line that does the run of that name again.
func (o *Options) Rerun(name string) string {
	line := fmt.Sprintf("go run ./jepsen/cmd/jepsen %s --seed %d", name, o.Seed)
	if o.Short {
		line += " --short"
	}
	if o.Binary != "" {
		line += " --binary " + o.Binary
	}
	return line
}
