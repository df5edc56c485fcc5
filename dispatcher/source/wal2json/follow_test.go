package wal2json

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
)

// grower is a followed log under the control of a test: waiting says that the reader has looked and waits, tick lets it
// look again.
type grower struct {
	t       *testing.T
	path    string
	ticks   chan time.Time
	stopped bool
	reader  dispatcher.Reader
}

func follow(t *testing.T, content string) *grower {
	t.Helper()
	g := &grower{t: t, path: logFile(t, content), ticks: make(chan time.Time)}
	source, err := New(Config{Poll: func() (<-chan time.Time, func()) { return g.ticks, func() { g.stopped = true } }})
	require.NoError(t, err)
	s := spec(g.path)
	s.URI += "?follow=true"
	g.reader, err = source.Open(t.Context(), s)
	require.NoError(t, err)
	return g
}

func (g *grower) append(content string) {
	g.t.Helper()
	f, err := os.OpenFile(g.path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(g.t, err)
	_, err = f.WriteString(content)
	require.NoError(g.t, err)
	require.NoError(g.t, f.Close())
}

type outcome struct {
	tx  dispatcher.Transaction
	err error
}

// next starts a Next that is expected to wait; each change is made, then one tick lets the reader look. It returns what
// Next gives after the last one.
func (g *grower) next(changes ...func()) outcome {
	g.t.Helper()
	result := make(chan outcome, 1)
	go func() {
		tx, err := g.reader.Next(context.Background())
		result <- outcome{tx, err}
	}()
	for _, change := range changes {
		synctest.Wait() // now the reader waits, or Next has returned
		require.Empty(g.t, result, "Next did not wait")
		change()
		g.ticks <- time.Time{}
	}
	return <-result
}

func TestFollowWaitsForWholeTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := follow(t, tx(1, insert(1, 1, "a"))+begin(2))
		first := g.next()
		require.Equal(t, "1/rows; upsert(1) id:number=1 v:text=a", printTx(first.tx))
		second := g.next(
			func() {},
			func() { g.append("\n" + insert(2, 2, "b")[:17]) },
			func() { g.append(insert(2, 2, "b")[17:]) },
			func() { g.append("\n") },
			func() { g.append(commit(2) + "\n" + tx(3, other(3))) },
		)
		require.NoError(t, second.err)
		require.Equal(t, "2/rows; upsert(2) id:number=2 v:text=b", printTx(second.tx))
		require.Equal(t, "3/rows", printTx(g.next().tx), "progress is told before it waits")
		require.NoError(t, g.reader.Close())
		require.True(t, g.stopped)
	})
}

func TestFollowStopsOnBadLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := follow(t, "")
		o := g.next(func() { g.append(tx(1, insert(1, 1, "a"))) })
		require.NoError(t, o.err)
		o = g.next(func() { g.append("nonsense") }, func() { g.append("\n") })
		stop := stopOf(t, o.err)
		require.Equal(t, ReasonMalformed, stop.Reason)
		require.Contains(t, stop.Text, "line 4 ")
		require.NoError(t, g.reader.Close())
	})
}

func TestFollowedFileMustStayTheSame(t *testing.T) {
	good := tx(1, insert(1, 1, "a"))
	for how, change := range map[string]func(string) error{
		"was shrunk":  func(path string) error { return os.Truncate(path, int64(len(good)-1)) },
		"was removed": os.Remove,
		"was replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte(good+good), 0o600), os.Rename(path+".new", path))
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := follow(t, good)
				require.NoError(t, g.next().err)
				stop := stopOf(t, g.next(func() { require.NoError(t, change(g.path)) }).err)
				require.Equal(t, ReasonChanged, stop.Reason)
				require.Contains(t, stop.Text, how)
				require.Contains(t, stop.Text, "last good position 1/rows")
				require.NoError(t, g.reader.Close())
			})
		})
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := follow(t, begin(1)+"\n")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := g.reader.Next(ctx)
		require.ErrorIs(t, err, context.Canceled)
		o := g.next(func() { g.append(insert(1, 1, "a") + "\n" + commit(1) + "\n") })
		require.NoError(t, o.err, "a cancelled call lost nothing")
		require.True(t, strings.HasPrefix(printTx(o.tx), "1/rows; upsert(1)"))
		require.NoError(t, g.reader.Close())
	})
}
