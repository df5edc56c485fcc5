package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/fsm"
)

// feedPeriod is how often lines are appended.
const feedPeriod = 20 * time.Millisecond

// feeder appends a complete change log to a growing file, line by line over a given time, as if its upstream were at
// work.
type feeder struct {
	lines        [][]byte // each with its newline
	transactions []transaction
	events       []event
	pace         time.Duration

	mu sync.Mutex // guards what follows
	// fed counts lines in the file, seen transactions.
	fed, seen int
	at        []time.Time // when each of the seen transactions was complete
	// limit is the number of lines that may not be passed yet.
	limit int
}

// transaction is where a transaction of the log ends.
type transaction struct {
	ts   uint64
	line int // index of its C line
}

// event is a schema change in the log: the position of its transaction, and the line.
type event struct {
	ts   uint64
	line int
}

func newFeeder(raw []byte, pace time.Duration) (*feeder, error) {
	f := &feeder{pace: pace}
	var begun uint64
	for n, line := range bytes.SplitAfter(raw, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		f.lines = append(f.lines, line)
		var l struct{ Action, NextLSN string }
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %d of the demo's log: %w", n+1, err)
		}
		switch l.Action {
		case "B":
			ts, err := lsn(l.NextLSN)
			if err != nil {
				return nil, fmt.Errorf("line %d of the demo's log: %w", n+1, err)
			}
			begun = ts
		case "M", "T":
			f.events = append(f.events, event{ts: begun, line: len(f.lines) - 1})
		case "C":
			f.transactions = append(f.transactions, transaction{ts: begun, line: len(f.lines) - 1})
		}
	}
	if len(f.transactions) == 0 {
		return nil, fmt.Errorf("the demo's log holds no transaction in %d lines", len(f.lines))
	}
	f.limit = len(f.lines)
	return f, nil
}

// lsn reads a log sequence number X/Y, both hexadecimal.
func lsn(text string) (uint64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, herr := strconv.ParseUint(high, 16, 32)
	l, lerr := strconv.ParseUint(low, 16, 32)
	if !ok || herr != nil || lerr != nil {
		return 0, fmt.Errorf("%q is no log sequence number", text)
	}
	return h<<32 | l, nil
}

// run appends until the log is complete or the context ends.
func (f *feeder) run(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	defer func() { _ = file.Close() }() // every write was checked
	began := time.Now()
	for {
		from, to := f.next(time.Since(began))
		if to > from {
			if _, err := file.Write(bytes.Join(f.lines[from:to], nil)); err != nil {
				return fmt.Errorf("feed: %w", err)
			}
			f.note(to, time.Now())
		}
		if to == len(f.lines) {
			return nil
		}
		if err := sleep(ctx, feedPeriod); err != nil {
			return err
		}
	}
}

// next says which lines are due.
func (f *feeder) next(elapsed time.Duration) (from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := len(f.lines)
	if elapsed < f.pace {
		due = int(float64(len(f.lines)) * float64(elapsed) / float64(f.pace))
	}
	return f.fed, max(f.fed, min(due, f.limit))
}

func (f *feeder) note(fed int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fed = fed
	for f.seen < len(f.transactions) && f.transactions[f.seen].line < fed {
		f.at = append(f.at, now)
		f.seen++
	}
}

// hold keeps the feed from passing a share of the log; 1 releases it.
func (f *feeder) hold(share float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = int(float64(len(f.lines)) * share)
}

// before is the share of the log that ends just before an event's transaction.
func (f *feeder) before(e event) float64 { return float64(e.line-1) / float64(len(f.lines)) }

// due says whether the log has come to a share at which it is held.
func (f *feeder) due(share float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fed >= int(float64(len(f.lines))*share)
}

// share is how much of the log is in the file.
func (f *feeder) share() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return float64(f.fed) / float64(len(f.lines))
}

// reached is the share of transactions up to a position.
func (f *feeder) reached(p fsm.Position) float64 {
	return float64(f.after(p)) / float64(len(f.transactions))
}

// after is the index of the first transaction after a position.
func (f *feeder) after(p fsm.Position) int {
	i, _ := slices.BinarySearchFunc(f.transactions, p, func(t transaction, p fsm.Position) int {
		if p.Less(fsm.Position{TS: t.ts, Stage: fsm.StageRows}) {
			return 1
		}
		return -1
	})
	return i
}

// lag is how long the first transaction after a position has been in the file.
func (f *feeder) lag(p fsm.Position, now time.Time) time.Duration {
	i := f.after(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= len(f.at) {
		return 0
	}
	return now.Sub(f.at[i])
}

// start is the position before the first transaction.
func (f *feeder) start() fsm.Position { return fsm.At(f.transactions[0].ts - 1) }

// end is the position of the last transaction.
func (f *feeder) end() fsm.Position {
	return fsm.Position{TS: f.transactions[len(f.transactions)-1].ts, Stage: fsm.StageRows}
}
