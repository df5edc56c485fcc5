package sqlite

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
)

// TestRandomLogs: logs of random rows and schema changes: tables and columns created, renamed, dropped and created again
// under old names, types changed, tables truncated, keys of one or two columns that change; arrays, JSON, unicode, NULLs
// and floats; many changes in one transaction. Owners change on the way. The replica equals the upstream, column by
// column.
func TestRandomLogs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	logs := 4
	if s := os.Getenv("SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	if n, err := strconv.Atoi(os.Getenv("LOGS")); err == nil {
		logs = n
	}
	for i := range logs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			each := seed + uint64(i)
			t.Logf("seed %d; rerun: SEED=%d LOGS=1 go test ./dispatcher/sink/sqlite -run TestRandomLogs", each, each)
			replayRandom(t, rand.New(rand.NewPCG(each, 0)))
		})
	}
}

func replayRandom(t *testing.T, random *rand.Rand) {
	t.Helper()
	u := &upstream{random: random}
	for range 60 {
		u.transaction()
	}
	path := filepath.Join(t.TempDir(), "log.ndjson")
	require.NoError(t, os.WriteFile(path, []byte(u.log.String()), 0o600))
	s := newShop(t, path)
	s.random = random
	s.replay()
	for _, table := range u.tables {
		name, err := sinkTable(dispatcher.TableName(table.name))
		require.NoError(t, err)
		columns, want := table.want()
		got := query(t, s.path, "SELECT "+quotedList(columns)+" FROM "+quote(name))
		slices.Sort(got)
		require.Equal(t, want, got, "%s", table.name)
		have := query(t, s.path, "SELECT name FROM pragma_table_info("+"'"+escapeText(name)+"') ORDER BY name")
		require.Equal(t, columns, have, "%s", table.name)
	}
	require.Equal(t, []string{strconv.Itoa(len(u.tables))}, query(t, s.path, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'weir_%'"))
}
