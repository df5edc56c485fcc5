package sqlite

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
	"github.com/weir-project/weir/fsm"
)

const (
	shopLog   = "../../../cmd/weir/demo/shop.wal2json.ndjson.gz"
	shopFinal = "../../../cmd/weir/demo/shop.final.tar.gz"
)

// span is one dispatcher's work in the replay.
type replay struct {
	reader dispatcher.Reader
	writer dispatcher.SpanWriter
	done   bool
}

// step moves one transaction from source to sink.
func (r *replay) step(t *testing.T) {
	t.Helper()
	tx, err := r.reader.Next(t.Context())
	if errors.Is(err, io.EOF) {
		r.done = true
		return
	}
	require.NoError(t, err)
	require.NoError(t, r.writer.Write(t.Context(), dispatcher.Batch{Changes: tx.Changes, Resume: tx.Position}, always))
}

// TestShopReplicaEqualsTheUpstream replays the whole change log, accounts in four spans, all dispatchers interleaved,
// and compares with the upstream's own final tables.
func TestShopReplicaEqualsTheUpstream(t *testing.T) {
	source, err := wal2json.New(wal2json.Config{})
	require.NoError(t, err)
	sink := newSink(t, Config{})
	path := dbPath(t)
	accounts := dispatcher.TableName{Schema: "public", Name: "pgbench_accounts"}
	cuts, err := wal2json.SplitKeys(t.Context(), "wal2json:"+shopLog, accounts, 4)
	require.NoError(t, err)

	var work []*replay
	start := func(table string, span fsm.Span, epoch uint64) {
		reader, err := source.Open(t.Context(), dispatcher.SourceSpec{URI: "wal2json:" + shopLog, Table: dispatcher.TableName{Schema: "public", Name: table}, Span: span})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, reader.Close()) })
		writer := open(t, sink, target{path: path, table: table, span: span})
		require.Equal(t, fsm.Position{}, claim(t, writer, epoch, 1, fsm.Position{}))
		work = append(work, &replay{reader: reader, writer: writer})
	}
	for i, span := range wal2json.Spans(cuts) {
		start(accounts.Name, span, uint64(i+1))
	}
	start("pgbench_tellers", fsm.WholeTable(), 5)
	start("pgbench_branches", fsm.WholeTable(), 6)
	for busy := true; busy; {
		busy = false
		for _, r := range work {
			if !r.done {
				r.step(t)
				busy = true
			}
		}
	}

	for table, query1 := range map[string]string{
		"pgbench_accounts": "SELECT aid, bid, abalance FROM pgbench_accounts ORDER BY aid",
		"pgbench_tellers":  "SELECT tid, bid, tbalance FROM pgbench_tellers ORDER BY tid",
		"pgbench_branches": "SELECT bid, bbalance FROM pgbench_branches ORDER BY bid",
	} {
		want := finalTable(t, table)
		require.NotEmpty(t, want, table)
		require.Equal(t, want, query(t, path, query1), table)
	}
	last := query(t, path, "SELECT DISTINCT resume_ts FROM weir_fence")
	require.Len(t, last, 1, "every span has seen the end of the log")
}

// finalTable reads a table of the upstream's final state, in key order as the file has it.
func finalTable(t *testing.T, table string) []string {
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
