package sqlite

import (
	"archive/tar"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
	from   dispatcher.SourceSpec
	to     target
}

// step moves a batch of transactions from source to sink.
func (r *replay) step(t *testing.T) {
	t.Helper()
	const most = 16
	var batch dispatcher.Batch
	for range most {
		tx, err := r.reader.Next(t.Context())
		if errors.Is(err, io.EOF) {
			r.done = true
			break
		}
		require.NoError(t, err)
		batch.Changes, batch.Resume = append(batch.Changes, tx.Changes...), tx.Position
	}
	if batch.Resume != (fsm.Position{}) {
		require.NoError(t, r.writer.Write(t.Context(), batch, always))
	}
}

// shop replays a log with its schema changes, one step at a time in one goroutine: a model of what barriers make many
// processes do. Each table's dispatchers stop at an event that concerns them until the trigger has written it.
type shop struct {
	t       *testing.T
	source  *wal2json.Source
	sink    *Sink
	uri     string
	path    string
	trigger *replay
	tables  map[fsm.TableRef][]*replay
	epoch   uint64
	events  []string
	random  *rand.Rand // if set, owners change at random moments
}

func newShop(t *testing.T, log string) *shop {
	t.Helper()
	source, err := wal2json.New(wal2json.Config{})
	require.NoError(t, err)
	s := &shop{t: t, source: source, sink: newSink(t, Config{}), uri: "wal2json:" + log, path: dbPath(t), tables: make(map[fsm.TableRef][]*replay)}
	s.trigger = s.start(dispatcher.SourceSpec{Trigger: true}, target{trigger: true})
	return s
}

func (s *shop) start(from dispatcher.SourceSpec, to target) *replay {
	s.t.Helper()
	s.epoch++
	from.URI, to.path = s.uri, s.path
	writer := open(s.t, s.sink, to)
	from.Start = claim(s.t, writer, s.epoch, 1, from.Start)
	reader, err := s.source.Open(s.t.Context(), from)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, reader.Close()) })
	return &replay{reader: reader, writer: writer, from: from, to: to}
}

func (s *shop) chance(of int) bool { return s.random != nil && s.random.IntN(of) == 0 }

// restart gives a dispatcher's work to another one, which is ordered to start where the first one was.
func (s *shop) restart(r *replay) *replay {
	s.t.Helper()
	next := s.start(r.from, r.to)
	var fenced *dispatcher.FencedError
	require.ErrorAs(s.t, r.writer.Write(s.t.Context(), dispatcher.Batch{Resume: fsm.At(1 << 62)}, always), &fenced)
	require.NoError(s.t, r.writer.Close())
	return next
}

// add starts the dispatchers of a table.
func (s *shop) add(ref fsm.TableRef, start fsm.Position, spans ...fsm.Span) {
	s.t.Helper()
	require.Empty(s.t, s.tables[ref], "%s is there already", ref)
	for _, span := range spans {
		s.tables[ref] = append(s.tables[ref], s.start(
			dispatcher.SourceSpec{Table: dispatcher.TableName(ref), Span: span, Start: start}, target{schema: ref.Schema, table: ref.Name, span: span}))
	}
}

// replay runs to the end of the log.
func (s *shop) replay() {
	s.t.Helper()
	for !s.trigger.done {
		event := s.trigger.toEvent(s.t)
		if event == nil {
			break
		}
		for _, ref := range event.Event.Spec.Tables {
			for i, r := range s.tables[ref] {
				own := r.toEvent(s.t)
				require.Equal(s.t, event, own, "%s stops at the same event", ref)
				if s.chance(4) { // its position is that of its word, just before the event
					r.from.Start = fsm.Position{TS: event.Position.TS, Stage: fsm.StageRows}
					r = s.restart(r)
					s.tables[ref][i] = r
					require.Equal(s.t, event, r.toEvent(s.t), "%s stops there again", ref)
				}
			}
		}
		s.write(event)
	}
	for _, list := range s.tables {
		for _, r := range list {
			require.Nil(s.t, r.toEvent(s.t), "no event that the trigger has not seen")
		}
	}
}

// write makes the event and its effects.
func (s *shop) write(tx *dispatcher.Transaction) {
	s.t.Helper()
	s.events = append(s.events, tx.Event.Change.Kind.String())
	event := dispatcher.DDL{
		Key:    dispatcher.DDLKey{Changefeed: "shop", Run: 1, Position: tx.Position},
		Change: tx.Event.Change, Statement: tx.Event.Statement,
	}
	done, err := s.trigger.writer.WriteDDL(s.t.Context(), event, always)
	require.NoError(s.t, err)
	require.False(s.t, done)
	if s.chance(3) {
		s.trigger.from.Start = fsm.Position{TS: tx.Position.TS, Stage: fsm.StageRows}
		s.trigger = s.restart(s.trigger)
		require.Equal(s.t, tx, s.trigger.toEvent(s.t), "a new trigger meets the event that nobody said was written")
		done, err := s.trigger.writer.WriteDDL(s.t.Context(), event, always)
		require.NoError(s.t, err)
		require.True(s.t, done)
	}
	spec := &tx.Event.Spec
	for _, ref := range spec.Drop {
		delete(s.tables, ref)
	}
	for _, r := range spec.Rename {
		if n := len(s.tables[r.From]); n > 0 {
			delete(s.tables, r.From)
			s.add(r.To, tx.Position, fsm.WholeTable())
		}
	}
	for _, table := range spec.Add {
		s.add(fsm.TableRef{Schema: table.Schema, Name: table.Name}, tx.Position, fsm.WholeTable())
	}
}

// toEvent writes rows up to the next event, which it returns, or to the end of the log.
func (r *replay) toEvent(t *testing.T) *dispatcher.Transaction {
	t.Helper()
	const most = 64
	var batch dispatcher.Batch
	flush := func() {
		if batch.Resume != (fsm.Position{}) {
			require.NoError(t, r.writer.Write(t.Context(), batch, always))
		}
		batch = dispatcher.Batch{}
	}
	for n := 1; ; n++ {
		tx, err := r.reader.Next(t.Context())
		if errors.Is(err, io.EOF) {
			flush()
			r.done = true
			return nil
		}
		require.NoError(t, err)
		if tx.Event != nil {
			flush()
			return &tx
		}
		batch.Changes, batch.Resume = append(batch.Changes, tx.Changes...), tx.Position
		if n%most == 0 {
			flush()
		}
	}
}

// TestWholeShop replays the whole change log with its six schema changes: all five tables equal the upstream's, and
// lines, which was order_items, is gone.
func TestWholeShop(t *testing.T) {
	s := newShop(t, shopLog)
	survey, err := wal2json.SurveyLog(t.Context(), s.uri)
	require.NoError(t, err)
	cuts, err := wal2json.SplitKeys(t.Context(), s.uri, dispatcher.TableName{Name: "pgbench_accounts"}, 2)
	require.NoError(t, err)
	for _, table := range survey.Tables {
		switch {
		case table.Created != (fsm.Position{}): // its event adds it
		case table.Table.Name == "pgbench_accounts":
			s.add(table.Table.Ref(), fsm.Position{}, wal2json.Spans(cuts)...)
		default:
			s.add(table.Table.Ref(), fsm.Position{}, fsm.WholeTable())
		}
	}
	s.replay()
	require.Equal(t, []string{"create table", "create table", "alter table", "truncate", "rename table", "drop table"}, s.events)
	for table, columns := range map[string]string{
		"pgbench_accounts": "aid, bid, abalance", "pgbench_tellers": "tid, bid, tbalance", "pgbench_branches": "bid, bbalance",
		"pgbench_history": "hid, tid, bid, aid, delta, mtime", "orders": "id, customer, amount, state, updated, coalesce(note, '')",
	} {
		want := finalTable(t, table)
		require.NotEmpty(t, want, table)
		require.Equal(t, want, query(t, s.path, "SELECT "+columns+" FROM "+table+" ORDER BY 1"), table)
	}
	require.Empty(t, layoutOf(t, s.path, "lines"))
	require.Empty(t, layoutOf(t, s.path, "order_items"))
	require.Equal(t, []string{"6"}, query(t, s.path, "SELECT count(*) FROM weir_ddl"))
	require.Len(t, query(t, s.path, "SELECT DISTINCT resume_ts FROM weir_fence WHERE table_name NOT IN ('order_items', 'lines')"), 1, "every span has seen the end of the log")
}

// handover is a span that changes its owner again and again; each new owner is ordered to start at the very beginning
// and relies on the resume position that its claim returns.
type handover struct {
	t      *testing.T
	source *wal2json.Source
	sink   *Sink
	x      target
	uri    string
	epoch  uint64
}

// take claims the span and opens the source where the claim says.
func (h *handover) take() *replay {
	h.t.Helper()
	h.epoch++
	writer := open(h.t, h.sink, h.x)
	from := claim(h.t, writer, h.epoch, 1, fsm.Position{})
	reader, err := h.source.Open(h.t.Context(), dispatcher.SourceSpec{
		URI: h.uri, Table: dispatcher.TableName{Name: h.x.table}, Span: h.x.span, Start: from,
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, reader.Close()) })
	return &replay{reader: reader, writer: writer}
}

// TestShopReplicaSurvivesHandovers: owners change at random moments, the old one always tries to go on, spans are split
// and merged on the way; no balance is applied over a newer one, none is lost.
func TestShopReplicaSurvivesHandovers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d; rerun: SEED=%d go test ./dispatcher/sink/sqlite -run %s", seed, seed, t.Name())
	random := rand.New(rand.NewPCG(seed, 0))
	source, err := wal2json.New(wal2json.Config{})
	require.NoError(t, err)
	h := &handover{t: t, source: source, sink: newSink(t, Config{}), uri: "wal2json:" + unzip(t, shopLog), x: target{path: dbPath(t), table: "pgbench_tellers"}}
	cuts, err := wal2json.SplitKeys(t.Context(), h.uri, dispatcher.TableName{Name: h.x.table}, 4)
	require.NoError(t, err)
	tilings := [][]fsm.Span{{fsm.WholeTable()}, wal2json.Spans(cuts[1:2]), wal2json.Spans(cuts), wal2json.Spans(cuts[:1])}

	var owners []*replay
	fenced, done := 0, false
	for tiling := 0; !done; tiling++ {
		old := owners
		owners = nil
		for _, span := range tilings[tiling%len(tilings)] {
			h.x.span = span
			owners = append(owners, h.take())
		}
		for _, zombie := range old {
			fenced += zombie.mustBeFenced(t)
		}
		done = true
		for _, r := range owners {
			for n := random.IntN(40); n > 0 && !r.done; n-- {
				r.step(t)
			}
			done = done && r.done
		}
	}
	require.Greater(t, fenced, 5, "stale owners were met")
	require.Equal(t, finalTable(t, "pgbench_tellers"), query(t, h.x.path, "SELECT tid, bid, tbalance FROM pgbench_tellers ORDER BY tid"))
}

// mustBeFenced lets an owner whose span was taken write its next transaction, if it has one.
func (r *replay) mustBeFenced(t *testing.T) int {
	t.Helper()
	if r.done {
		return 0
	}
	tx, err := r.reader.Next(t.Context())
	if errors.Is(err, io.EOF) {
		return 0
	}
	require.NoError(t, err)
	var fenced *dispatcher.FencedError
	require.ErrorAs(t, r.writer.Write(t.Context(), dispatcher.Batch{Changes: tx.Changes, Resume: tx.Position}, always), &fenced)
	require.NoError(t, r.writer.Close())
	return 1
}

// unzip unpacks a file, so that a source can begin in its middle.
func unzip(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	content, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "log.ndjson")
	require.NoError(t, os.WriteFile(out, content, 0o600))
	return out
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
