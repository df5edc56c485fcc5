package dispatcher

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// upstream is a database with a log: tables that rows are written to, and schema changes among them. Each row carries the
// layout of its table: the ts of the newest schema change of the table.
type upstream struct {
	log    []Transaction
	slow   time.Duration // between two transactions of a reader
	began  []string      // the tables with which it began
	tables map[string]uint64
	rng    *rand.Rand
	ts     uint64
}

func newUpstream(rng *rand.Rand, tables ...string) *upstream {
	u := &upstream{tables: map[string]uint64{}, rng: rng, began: tables}
	for _, name := range tables {
		u.tables[name] = 0
	}
	return u
}

func number(name string, n uint64) Column {
	return Column{Name: name, Value: Value{Kind: KindNumber, Text: strconv.FormatUint(n, 10)}}
}

// contents is a state of a database: the newest row of each key of each table.
type contents map[string]map[string]uint64

func (u *upstream) names() []string { return slices.Sorted(maps.Keys(u.tables)) }

func (u *upstream) pick() string {
	names := u.names()
	return names[u.rng.IntN(len(names))]
}

// write adds a transaction that writes rows of up to three tables.
func (u *upstream) write() {
	u.ts += 1 + u.rng.Uint64N(4)
	t := Transaction{Position: rowsAt(u.ts), CommitTimeMS: int64(u.ts)}
	for range 1 + u.rng.IntN(4) {
		if len(u.tables) == 0 {
			break
		}
		table := u.pick()
		t.Changes = append(t.Changes, Change{
			Op: OpUpsert, Table: TableName{"public", table}, Key: string(rune('a' + u.rng.IntN(26))),
			Columns: []Column{number("layout", u.tables[table]), number("ts", u.ts)},
		})
	}
	u.log = append(u.log, t)
}

func ref(name string) fsm.TableRef { return fsm.TableRef{Schema: "public", Name: name} }

// change adds a schema change, sometimes at the ts of the rows before it.
func (u *upstream) change() {
	if u.rng.IntN(2) == 0 || len(u.log) == 0 || u.log[len(u.log)-1].Event != nil {
		u.ts++
	}
	var c schema.Change
	switch kind := u.rng.IntN(8); {
	case len(u.tables) < 2 || (kind == 0 && len(u.tables) < 5):
		name := u.free()
		c = schema.Change{Kind: schema.KindCreate, Tables: []fsm.TableRef{ref(name)}, Columns: []schema.Column{{Name: "k", Type: "text"}}}
		u.tables[name] = u.ts
	case kind == 1:
		name := u.pick()
		c = schema.Change{Kind: schema.KindDrop, Tables: []fsm.TableRef{ref(name)}}
		delete(u.tables, name)
	case kind == 2:
		from, to := u.pick(), u.free()
		c = schema.Change{Kind: schema.KindRename, Tables: []fsm.TableRef{ref(from)}, To: ref(to)}
		delete(u.tables, from)
		u.tables[to] = u.ts
	case kind == 3:
		name := u.pick()
		c = schema.Truncate(ref(name))
		u.tables[name] = u.ts
	default:
		name := u.pick()
		c = schema.Change{Kind: schema.KindAlter, Tables: []fsm.TableRef{ref(name)}, Actions: []schema.Action{
			{Kind: schema.ActionAddColumn, Column: schema.Column{Name: fmt.Sprint("c", u.ts), Type: "integer"}},
		}}
		u.tables[name] = u.ts
	}
	statement := fmt.Sprintf("%v at %d", c.Kind, u.ts)
	u.log = append(u.log, Transaction{Position: fsm.Position{TS: u.ts, Stage: fsm.StageDDL}, Event: &Event{
		Statement: statement, Change: c, Spec: c.Spec(statement),
	}})
}

// free is a name that no table has, often one that a table had before.
func (u *upstream) free() string {
	for {
		if name := string(rune('p' + u.rng.IntN(8))); !slices.Contains(u.names(), name) {
			return name
		}
	}
}

// end adds the last position.
func (u *upstream) end() {
	u.ts++
	u.log = append(u.log, Transaction{Position: rowsAt(u.ts)})
}

// events are the keys of the schema changes and of the sync points, up to the end.
func (u *upstream) events(every uint64) (ddl, sync []fsm.Position) {
	for i := range u.log {
		if u.log[i].Event != nil {
			ddl = append(ddl, u.log[i].Position)
		}
	}
	for ts := every; every > 0 && ts < u.ts; ts += every {
		sync = append(sync, fsm.Position{TS: ts, Stage: fsm.StageSyncPoint})
	}
	return ddl, sync
}

// before is what a replica holds that has everything before a position, and nothing else.
func (u *upstream) before(at fsm.Position) contents {
	c, _ := u.replay(at)
	return c
}

// replay returns what there is before a position, and the layout of each table.
func (u *upstream) replay(at fsm.Position) (contents, map[string]uint64) {
	c, layouts := contents{}, map[string]uint64{}
	for _, name := range u.began {
		c[name], layouts[name] = map[string]uint64{}, 0
	}
	for i := range u.log {
		tx := &u.log[i]
		if !tx.Position.Less(at) {
			break
		}
		if tx.Event != nil {
			c.apply(&tx.Event.Change)
			lay(layouts, &tx.Event.Change, tx.Position.TS)
		}
		for _, row := range tx.Changes {
			c[row.Table.Name][row.Key] = tx.Position.TS
		}
	}
	return c, layouts
}

// lay changes layouts as a schema change at a ts does.
func lay(layouts map[string]uint64, change *schema.Change, ts uint64) {
	for _, t := range change.Tables {
		switch change.Kind {
		case schema.KindDrop:
			delete(layouts, t.Name)
		case schema.KindRename:
			delete(layouts, t.Name)
			layouts[change.To.Name] = ts
		case schema.KindCreate, schema.KindTruncate, schema.KindAlter, schema.KindNothing, schema.KindUnsupported:
			layouts[t.Name] = ts
		}
	}
}

func (c contents) apply(change *schema.Change) {
	for _, t := range change.Tables {
		switch change.Kind {
		case schema.KindDrop:
			delete(c, t.Name)
		case schema.KindRename:
			c[change.To.Name] = c[t.Name]
			delete(c, t.Name)
		case schema.KindCreate, schema.KindTruncate:
			c[t.Name] = map[string]uint64{}
		case schema.KindAlter, schema.KindNothing, schema.KindUnsupported:
		}
	}
}

// Open implements Source.
func (u *upstream) Open(_ context.Context, spec SourceSpec) (Reader, error) {
	at, _ := slices.BinarySearchFunc(u.log, spec.Start, func(tx Transaction, start fsm.Position) int {
		if start.Less(tx.Position) {
			return 1
		}
		return -1
	})
	return &upstreamReader{u: u, spec: spec, next: at}, nil
}

type upstreamReader struct {
	u    *upstream
	spec SourceSpec
	next int
}

// Next implements Reader.
func (r *upstreamReader) Next(ctx context.Context) (Transaction, error) {
	if r.u.slow > 0 {
		timer := time.NewTimer(r.u.slow)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return Transaction{}, context.Cause(ctx)
		case <-timer.C:
		}
	}
	if r.next == len(r.u.log) {
		return Transaction{}, io.EOF
	}
	tx := r.u.log[r.next]
	r.next++
	if tx.Event != nil && !r.spec.Trigger && !tx.Event.Change.Concerns(r.spec.Table.Ref()) {
		tx.Event, tx.Position.Stage = nil, fsm.StageRows
		return tx, nil
	}
	rows := tx.Changes
	tx.Changes = nil
	for _, row := range rows {
		if !r.spec.Trigger && row.Table == r.spec.Table && r.spec.Span.Contains(row.Key) {
			tx.Changes = append(tx.Changes, row)
		}
	}
	return tx, nil
}

// Close implements Reader.
func (r *upstreamReader) Close() error { return nil }
