package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

func stop(t *testing.T, err error) *dispatcher.StopError {
	t.Helper()
	e, ok := errors.AsType[*dispatcher.StopError](err)
	require.True(t, ok, "%v is no StopError", err)
	return e
}

func TestWriteStoresRowsAndPositionTogether(t *testing.T) {
	path := dbPath(t)
	var events []WriteEvent
	w := open(t, newSink(t, Config{OnWrite: func(e WriteEvent) { events = append(events, e) }}), target{path: path})
	require.Equal(t, fsm.At(5), claim(t, w, 1, 1, fsm.At(5)))
	write(t, w, 10, put(1, "a"), put(2, "b"), put(1, "c"), gone(2))
	require.Equal(t, []string{"1|c"}, query(t, path, "SELECT id, v FROM t"))
	write(t, w, 11)
	require.Equal(t, at(11), claim(t, w, 1, 2, fsm.At(5)))
	require.Len(t, events, 2)
	require.Equal(t, 4, events[0].Rows)
	require.Equal(t, dispatcher.Token{Epoch: 1, Claim: 1}, events[0].Token)
	require.NoError(t, events[0].Err)
	require.True(t, newSink(t, Config{}).Properties().Fenced)
}

func TestUpsertLeavesOtherColumnsAlone(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	full := put(1, "a")
	full.Columns = append(full.Columns, textColumn("big", "toast"))
	write(t, w, 1, full)
	write(t, w, 2, put(1, "b"))
	keyOnly := put(1, "")
	keyOnly.Columns = keyOnly.PK
	write(t, w, 3, keyOnly)
	require.Equal(t, []string{"1|b|toast"}, query(t, path, "SELECT id, v, big FROM t"))
}

func TestStaleOwnerIsRefusedAndCounted(t *testing.T) {
	path := dbPath(t)
	var refused []sqltoken.Refusal
	var events []WriteEvent
	s := newSink(t, Config{OnRefused: func(r sqltoken.Refusal) { refused = append(refused, r) }, OnWrite: func(e WriteEvent) { events = append(events, e) }})
	old, now := open(t, s, target{path: path, session: "n1/1"}), open(t, s, target{path: path, session: "n2/4"})
	claim(t, old, 1, 1, fsm.Position{})
	write(t, old, 10, put(1, "a"))
	require.Equal(t, at(10), claim(t, now, 2, 1, fsm.Position{}))
	err := old.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(1, "zombie")}, Resume: at(11)}, always)
	var fenced *dispatcher.FencedError
	require.ErrorAs(t, err, &fenced)
	require.Equal(t, dispatcher.Token{Epoch: 2, Claim: 1}, fenced.Found)
	require.Equal(t, "n2/4", fenced.Holder)
	require.ErrorAs(t, old.Delete(t.Context(), always), &fenced)
	_, err = old.WriteDDL(t.Context(), ddl(20, "DROP TABLE t"), always)
	require.ErrorAs(t, err, &fenced)
	_, err = old.Claim(t.Context(), dispatcher.Token{Epoch: 1, Claim: 2}, fsm.Position{}, always)
	require.ErrorAs(t, err, &fenced)
	require.Len(t, refused, 4)
	require.Len(t, events, 4)
	require.Error(t, events[3].Err)
	require.Equal(t, []string{"1|a"}, query(t, path, "SELECT id, v FROM t"))
}

func TestClaimOfAnotherChangefeedIsRefused(t *testing.T) {
	path := dbPath(t)
	s := newSink(t, Config{})
	claim(t, open(t, s, target{path: path}), 1, 1, fsm.Position{})
	_, err := open(t, s, target{path: path, changefeed: "other"}).Claim(t.Context(), dispatcher.Token{Epoch: 9, Claim: 1}, fsm.Position{}, always)
	var other *dispatcher.ClaimedByOtherError
	require.ErrorAs(t, err, &other)
	require.Equal(t, "shop", other.Changefeed)
	require.Contains(t, err.Error(), "SINK_CLAIMED_BY_OTHER")
}

// TestResumeOfAnOlderRunIsIgnored: a changefeed that was resumed below its watermark writes its rows again.
func TestResumeOfAnOlderRunIsIgnored(t *testing.T) {
	path := dbPath(t)
	s := newSink(t, Config{})
	w := open(t, s, target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 50, put(1, "a"))
	again := open(t, s, target{path: path, run: 2})
	require.Equal(t, at(20), claim(t, again, 2, 1, at(20)))
	write(t, again, 30, put(1, "b"))
	require.Equal(t, at(30), claim(t, again, 3, 1, at(20)))
}

func TestLeaseIsAskedAroundTheStatements(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	closed := errors.New("the lease is closed")
	for denyAt := 1; denyAt <= 2; denyAt++ {
		for _, call := range []func(func() error) error{
			func(allow func() error) error {
				return w.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(1, "b")}, Resume: at(2)}, allow)
			},
			func(allow func() error) error { return w.Delete(t.Context(), allow) },
			func(allow func() error) error {
				_, err := w.WriteDDL(t.Context(), ddl(20, "DROP TABLE t"), allow)
				return err
			},
			func(allow func() error) error {
				_, err := w.Claim(t.Context(), dispatcher.Token{Epoch: 2, Claim: 1}, fsm.Position{}, allow)
				return err
			},
		} {
			asked := 0
			require.ErrorIs(t, call(func() error {
				if asked++; asked == denyAt {
					return closed
				}
				return nil
			}), closed)
			require.Equal(t, denyAt, asked)
		}
	}
	require.Equal(t, []string{"1|a"}, query(t, path, "SELECT id, v FROM t"))
	write(t, w, 2, put(1, "still the owner"))
}

// TestTokensOfAcceptedWritesNeverDecrease: two owners with pools of their own claim and write one span, and parts of it,
// without any coordination; the ledger must show per key what the fence promises.
func TestTokensOfAcceptedWritesNeverDecrease(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d; rerun: SEED=%d go test ./dispatcher/sink/sqlite -run %s", seed, seed, t.Name())
	path := dbPath(t)
	spans := []fsm.Span{fsm.WholeTable(), between(0, 50), between(50, 0), between(20, 70)}
	var ticks int64
	var clock sync.Mutex
	cfg := Config{Clock: func() int64 { clock.Lock(); defer clock.Unlock(); ticks++; return ticks }}
	sinks := []*Sink{newSink(t, cfg), newSink(t, cfg)}
	var all sync.WaitGroup
	var accepted, refused [2]int
	for owner := range 2 {
		random := rand.New(rand.NewPCG(seed, uint64(owner)))
		all.Go(func() {
			for round := 1; round <= 25; round++ {
				span := spans[random.IntN(len(spans))]
				w, err := sinks[owner].Open(context.Background(), target{path: path, span: span, options: "?ledger=true", session: strconv.Itoa(owner)}.spec())
				if err != nil {
					t.Error(err)
					return
				}
				// the second owner's epochs are the higher ones, but it starts each of them at a random time
				token := dispatcher.Token{Epoch: fsm.Epoch(2*round + owner), Claim: 1}
				_, err = w.Claim(context.Background(), token, fsm.Position{}, always)
				for n := 0; err == nil && n < 1+random.IntN(6); n++ {
					id := 1 + random.IntN(100)
					for !span.Contains(intKey(id)) {
						id = 1 + random.IntN(100)
					}
					err = w.Write(context.Background(), dispatcher.Batch{Changes: []dispatcher.Change{put(id, token.String())}, Resume: at(uint64(1000 + round*10 + n))}, always)
					if err == nil {
						accepted[owner]++
					}
				}
				var fenced *dispatcher.FencedError
				switch {
				case errors.As(err, &fenced):
					refused[owner]++
				case err != nil && !strings.Contains(err.Error(), "would go back"):
					t.Error(err)
				}
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("accepted %v, refused %v", accepted, refused)
	require.Positive(t, accepted[0]*accepted[1], "both owners wrote")
	require.Positive(t, refused[0]+refused[1], "stale owners were met")
	checkLedger(t, path, accepted[0]+accepted[1])
}

// checkLedger replays the ledger: over each key the epochs never fall.
func checkLedger(t *testing.T, path string, lines int) {
	t.Helper()
	newest := make(map[int]int)
	entries := query(t, path, "SELECT hex(start_key), coalesce(hex(end_key), ''), epoch FROM weir_ledger ORDER BY id")
	require.Len(t, entries, lines)
	for _, entry := range entries {
		f := strings.Split(entry, "|")
		epoch, err := strconv.Atoi(f[2])
		require.NoError(t, err)
		for _, id := range []int{1, 19, 20, 49, 50, 69, 70, 100} {
			k := strings.ToUpper(hexOf(intKey(id)))
			if f[0] <= k && (f[1] == "" || k < f[1]) {
				require.GreaterOrEqual(t, epoch, newest[id], "key %d in %s", id, entry)
				newest[id] = epoch
			}
		}
	}
}

func hexOf(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(digits[s[i]>>4])
		b.WriteByte(digits[s[i]&15])
	}
	return b.String()
}

func TestLedgerTellsEveryAcceptedWrite(t *testing.T) {
	path := dbPath(t)
	now := int64(100)
	w := open(t, newSink(t, Config{Clock: func() int64 { now++; return now }}), target{path: path, options: "?ledger=true", span: between(5, 9), session: "n3/7"})
	claim(t, w, 4, 2, fsm.Position{})
	write(t, w, 10, put(5, "a"), put(6, "b"))
	require.Error(t, w.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{{}}, Resume: at(11)}, always))
	for range 2 {
		_, err := w.WriteDDL(t.Context(), ddl(20, "ALTER TABLE t ADD COLUMN note TEXT"), always)
		require.NoError(t, err)
	}
	require.NoError(t, w.Delete(t.Context(), always))
	require.Equal(t, []string{"1|write|4|2|10|2|n3/7|101", "2|ddl|4|2|20|0|n3/7|102", "3|ddl-known|4|2|20|0|n3/7|103", "4|delete|4|2|0|2|n3/7|104"},
		query(t, path, "SELECT id, op, epoch, claim, resume_ts, row_count, session, boot_ns FROM weir_ledger"))
	_, err := newSink(t, Config{}).Open(t.Context(), target{path: path, options: "?ledger=true"}.spec())
	require.ErrorContains(t, err, "Config.Clock")
}

func TestDeleteTakesTheRowsOfTheSpan(t *testing.T) {
	path := dbPath(t)
	s := newSink(t, Config{})
	left, right := open(t, s, target{path: path, span: between(0, 2000)}), open(t, s, target{path: path, span: between(2000, 0)})
	claim(t, left, 1, 1, fsm.Position{})
	claim(t, right, 2, 1, fsm.Position{})
	var rows []dispatcher.Change
	for id := 1; id < 2000; id++ {
		rows = append(rows, put(id, "left"))
	}
	write(t, left, 10, rows...)
	write(t, right, 10, put(2000, "right"), put(2001, "right"))
	require.NoError(t, left.Delete(t.Context(), always))
	require.Equal(t, []string{"2000", "2001"}, query(t, path, "SELECT id FROM t ORDER BY id"))
	write(t, right, 11, put(2002, "right"))
	require.Error(t, left.Write(t.Context(), dispatcher.Batch{Resume: at(11)}, always), "a span that was given up is not written")
	require.Equal(t, fsm.Position{}, claim(t, open(t, s, target{path: path, span: between(0, 2000), changefeed: "next"}), 3, 1, fsm.Position{}),
		"another changefeed may take it, from its own start")
	whole := open(t, s, target{path: path, table: "gone"})
	claim(t, whole, 1, 1, fsm.Position{})
	require.NoError(t, whole.Delete(t.Context(), always), "a table that never was has no rows")
}

func TestDeleteWithEveryKindOfKey(t *testing.T) {
	for declared, values := range map[string][]string{
		"bigint": {"-9223372036854775808", "-1", "0", "9007199254740993"}, "numeric(20,4)": {"-10.5000", "-9", "2.50", "10.00"},
		"double precision": {"-1e300", "-0.1", "0", "1.5", "NaN"}, "real": {"-2.5", "0.1", "16777216"}, "text": {"", "a", "a b", "é", "😀"},
		"boolean": {"false", "true"}, "bytea": {"", "\x00", "\x00\x01", "\xff"}, "timestamp with time zone": {"2026-12-01 13:10:18+00", "2026-12-02 00:00:00+00"},
	} {
		t.Run(declared, func(t *testing.T) {
			for cut := 1; cut < len(values); cut++ {
				path := dbPath(t)
				s := newSink(t, Config{})
				var changes []dispatcher.Change
				for _, v := range values {
					changes = append(changes, keyed(t, declared, v))
				}
				whole := open(t, s, target{path: path})
				claim(t, whole, 1, 1, fsm.Position{})
				write(t, whole, 1, changes...)
				low := open(t, s, target{path: path, span: fsm.Span{End: changes[cut].Key}})
				claim(t, low, 2, 1, fsm.Position{})
				require.NoError(t, low.Delete(t.Context(), always))
				require.Equal(t, []string{strconv.Itoa(len(values) - cut)}, query(t, path, "SELECT count(*) FROM t"))
				high := open(t, s, target{path: path, span: fsm.Span{Start: changes[cut].Key}})
				claim(t, high, 3, 1, fsm.Position{})
				require.NoError(t, high.Delete(t.Context(), always))
				require.Equal(t, []string{"0"}, query(t, path, "SELECT count(*) FROM t"))
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("this is no database. ", 100)), 0o600))
	damaged := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: damaged})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	require.NoError(t, w.Close())
	content, err := os.ReadFile(damaged)
	require.NoError(t, err)
	for i := 4096; i < len(content); i++ {
		content[i] = 0xA5
	}
	require.NoError(t, os.WriteFile(damaged, content, 0o600))
	for path, want := range map[string]struct{ reason, text string }{
		text:                                     {ReasonCorrupt, "is not a SQLite database"},
		damaged:                                  {ReasonCorrupt, "is damaged"},
		folder:                                   {ReasonInvalidSink, "something that is not a file"},
		filepath.Join(folder, "missing", "x.db"): {ReasonUnwritable, "check that its folder exists"},
		filepath.Join(text, "below-a-file", "db"): {ReasonUnwritable, "check its path"},
	} {
		s := newSink(t, Config{})
		w, err := s.Open(t.Context(), target{path: path}.spec())
		if err == nil {
			_, err = w.Claim(t.Context(), dispatcher.Token{Epoch: 9, Claim: 1}, fsm.Position{}, always)
			require.NoError(t, w.Close())
		}
		require.ErrorContains(t, err, want.reason, path)
		require.ErrorContains(t, err, want.text, path)
		require.ErrorContains(t, err, path)
		require.NotContains(t, err.Error(), "\n", "one sentence")
		require.Empty(t, s.files.open, "nothing stays open")
	}
}

func TestBadURIs(t *testing.T) {
	s := newSink(t, Config{})
	for uri, text := range map[string]string{
		"mysql:x": "does not begin with sqlite:", "sqlite:": "names no file", "sqlite::memory:": "names no file",
		"sqlite:x?speed=1": `option "speed" is unknown`, "sqlite:x?ledger=perhaps": "neither true nor false", "sqlite:x?%zz": "cannot be read",
	} {
		spec := target{path: "x"}.spec()
		spec.URI = uri
		_, err := s.Open(t.Context(), spec)
		require.Equal(t, ReasonInvalidSink, stop(t, err).Reason)
		require.ErrorContains(t, err, text)
	}
	spec := target{path: dbPath(t)}.spec()
	spec.Cluster = ""
	_, err := s.Open(t.Context(), spec)
	require.ErrorContains(t, err, "names no cluster")
	require.Empty(t, s.files.open)
	_, err = New(Config{BusyTimeout: -1})
	require.Error(t, err)
}

func TestPathsWithOddCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "100% odd #1 & ü.db")
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	require.NoError(t, w.Close())
	require.FileExists(t, path)
	require.Equal(t, []string{"1"}, query(t, path, "SELECT id FROM t"))
}
