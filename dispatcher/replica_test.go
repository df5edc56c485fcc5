package dispatcher_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

const (
	shopLog   = "../cmd/weir/demo/shop.wal2json.ndjson.gz"
	shopFinal = "../cmd/weir/demo/shop.final.tar.gz"
)

// Two tables of the shop log go through a real node into a real database while the lease lapses and the incarnation is
// lost again and again; at the end the replica equals the upstream.
func TestTheShopReplicaIsRightAfterPausesAndLostIncarnations(t *testing.T) {
	dir := t.TempDir()
	source, err := wal2json.New(wal2json.Config{})
	require.NoError(t, err)
	sink, err := sqlite.New(sqlite.Config{})
	require.NoError(t, err)
	leader := dispatcher.NewFakeLeader(t)
	node, err := dispatcher.New(dispatcher.Config{
		Node: "n1", Dialer: leader, Reason: dispatcher.Reason,
		Sources: func(string) (dispatcher.Source, error) { return source, nil },
		Sinks:   func(string) (dispatcher.Sink, error) { return sink, nil },
		Clock:   clock.System(), Timers: clock.SystemTimers{}, Timing: fence.DefaultTiming(),
		Wall:   func() int64 { return time.Now().UnixMilli() },
		Limits: dispatcher.Limits{BatchRows: 100},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- node.Run(ctx) }()

	database := filepath.Join(dir, "replica.db")
	tables := []string{"pgbench_tellers", "pgbench_branches"}
	epoch := fsm.Epoch(100)
	place := func() {
		incarnation := node.Status().Incarnation
		until(t, "the gate is open", func() bool { return node.Status().Lease.State == fence.Open })
		for i, table := range tables {
			epoch++
			leader.Order(fsm.Order{Kind: fsm.OrderStart, Dispatcher: fsm.DispatcherID(i + 1), Epoch: epoch, Work: fsm.Work{
				Changefeed: "shop", Run: 1, Source: "wal2json:" + shopLog, Sink: "sqlite:" + database, SinkFenced: true,
				Schema: "public", Table: table, TableID: fsm.TableID(i + 1),
			}})
		}
		require.Equal(t, incarnation, node.Status().Incarnation)
	}
	rows := func() (n uint64) {
		for _, d := range node.Status().Dispatchers {
			n += d.Rows
		}
		return n
	}

	until(t, "the node is registered", func() bool { return node.Status().Incarnation > 0 })
	for range 2 {
		place()
		until(t, "rows are written", func() bool { return rows() > 300 })
		lost := node.Status().Incarnation
		leader.Fence()
		until(t, "a new incarnation owns nothing", func() bool {
			s := node.Status()
			return s.Incarnation > lost && len(s.Dispatchers) == 0 && s.Ranges == 0
		})
	}
	place()
	until(t, "rows are written", func() bool { return rows() > 300 })
	leader.Acknowledge(false)
	until(t, "the gate has closed", func() bool { return node.Status().Lease.State == fence.Closed })
	leader.Acknowledge(true)
	until(t, "everything is written", func() bool {
		require.Empty(t, leader.Failures())
		done := 0
		for _, d := range node.Status().Dispatchers {
			if d.Idle {
				done++
			}
		}
		return done == len(tables)
	})
	require.Zero(t, node.Status().Counters.Fenced)
	cancel()
	require.NoError(t, <-result)
	leader.Wait()

	for table, columns := range map[string]string{
		"pgbench_tellers": "tid, bid, tbalance", "pgbench_branches": "bid, bbalance",
	} {
		require.Equal(t, upstream(t, table), replica(t, database, table, columns), table)
	}
}

func until(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !fact(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "not in time: %s", what)
	}
}

// replica reads a table in key order.
func replica(t *testing.T, database, table, columns string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), "SELECT "+columns+" FROM "+table+" ORDER BY 1")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	names, err := rows.Columns()
	require.NoError(t, err)
	var lines []string
	for rows.Next() {
		values, targets := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		require.NoError(t, rows.Scan(targets...))
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = fmt.Sprint(v)
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	require.NoError(t, rows.Err())
	return lines
}

// upstream reads a table's final state, in key order as the file has it.
func upstream(t *testing.T, table string) []string {
	t.Helper()
	f, err := os.Open(shopFinal)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzip, err := gzip.NewReader(f)
	require.NoError(t, err)
	for files := tar.NewReader(unzip); ; {
		header, err := files.Next()
		require.NoError(t, err, "%s is not in the archive", table)
		if filepath.Base(header.Name) != table+".csv" {
			continue
		}
		records, err := csv.NewReader(files).ReadAll()
		require.NoError(t, err)
		var lines []string
		for _, r := range records[1:] {
			lines = append(lines, strings.Join(r, "|"))
		}
		return lines
	}
}
