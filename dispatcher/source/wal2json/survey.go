package wal2json

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// KeyColumn is a column of a primary key as the log declares it.
type KeyColumn struct{ Name, Type string }

// TableSurvey says what a log holds of one table.
type TableSurvey struct {
	Table dispatcher.TableName
	// Key holds the primary-key columns in key order, as the newest line of the table tells; empty if it has none.
	Key []KeyColumn
	// Inserts, Updates, Deletes and Truncates count lines.
	Inserts, Updates, Deletes, Truncates int64
	// First and Last are the positions of the first and last transaction that changes the table.
	First, Last fsm.Position
	// Created is the position of the schema change that made the table, or gave it its name, if that is the first thing
	// that the log says of it: then a replica need not have it before. Zero: it was there when the log began.
	Created fsm.Position
}

// Survey says what a log holds.
type Survey struct {
	// Tables is ordered by schema and name.
	Tables []TableSurvey
	// Transactions counts the complete ones; First and Last are the positions of the first and the last.
	Transactions int64
	First, Last  fsm.Position
}

// Types are the declared types of the key columns, in key order.
func (t *TableSurvey) Types() []string {
	types := make([]string, len(t.Key))
	for i, c := range t.Key {
		types[i] = c.Type
	}
	return types
}

// SurveyLog reads a whole log, given as URI, and says what it holds; memory grows with the number of tables only. A log
// with follow=true is surveyed to its present end; any other one must be complete.
func SurveyLog(ctx context.Context, uri string) (Survey, error) {
	var s Survey
	tables := make(map[dispatcher.TableName]*TableSurvey)
	births := births{of: make(map[dispatcher.TableName]fsm.Position)}
	err := eachLine(ctx, uri, func(g *log, l *line) error {
		births.note(g, l, func(name dispatcher.TableName) bool { return tables[name] != nil })
		if l.Action == "C" {
			s.Transactions++
			s.Last = g.lastGood
			if s.Transactions == 1 {
				s.First = s.Last
			}
		}
		if l.Table == "" {
			return nil
		}
		name := dispatcher.TableName{Schema: l.Schema, Name: l.Table}
		t := tables[name]
		if t == nil {
			t = &TableSurvey{Table: name, First: g.open.position()}
			tables[name] = t
		}
		t.Last = g.open.position()
		t.count(l)
		return nil
	})
	if err != nil {
		return Survey{}, err
	}
	for _, name := range slices.SortedFunc(maps.Keys(tables), func(a, b dispatcher.TableName) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	}) {
		t := tables[name]
		t.Created = births.of[name]
		s.Tables = append(s.Tables, *t)
	}
	return s, nil
}

// births finds the schema changes by which tables come.
type births struct {
	of    map[dispatcher.TableName]fsm.Position
	parts parts // of the open transaction
	born  map[dispatcher.TableName]int
}

// note looks at a line; seen says whether the log had a line of a table before.
func (b *births) note(g *log, l *line, seen func(dispatcher.TableName) bool) {
	switch l.Action {
	case "B":
		b.parts, b.born = nil, make(map[dispatcher.TableName]int)
	case "I", "U", "D":
		b.parts.current()
	case "C":
		for name, i := range b.born {
			b.of[name] = eventAt(b.parts.ts(i, g.open.ts))
		}
	}
	c := schemaChange(l)
	if c == nil || g.open == nil || !l.transactional() {
		return
	}
	b.parts.add(c)
	name := dispatcher.TableName(c.what.To)
	if c.what.Kind == schema.KindCreate {
		name = dispatcher.TableName(c.what.Tables[0])
	}
	if name.Name == "" {
		return
	}
	_, known := b.of[name]
	if _, open := b.born[name]; !known && !open && !seen(name) {
		b.born[name] = len(b.parts) - 1
	}
}

func (t *TableSurvey) count(l *line) {
	switch l.Action {
	case "I":
		t.Inserts++
	case "U":
		t.Updates++
	case "D":
		t.Deletes++
	case "T":
		t.Truncates++
		return
	}
	var pk []jsonColumn
	if json.Unmarshal(l.PK, &pk) != nil {
		return // no key is known; a dispatcher of the table says so
	}
	t.Key = t.Key[:0]
	for _, c := range pk {
		t.Key = append(t.Key, KeyColumn{Name: c.Name, Type: c.Type})
	}
}

// eachLine calls visit for the lines of a log in order.
func eachLine(ctx context.Context, uri string, visit func(*log, *line) error) (err error) {
	loc, err := parseURI(uri)
	if err != nil {
		return err
	}
	g, err := openLog(loc, fsm.Position{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for n := 0; ; n++ {
		if n%linesPerLook == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		l, err := g.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errIncomplete) && loc.follow:
			return nil
		case errors.Is(err, errIncomplete):
			return g.truncated()
		case err != nil:
			return err
		}
		if err := visit(g, l); err != nil {
			return err
		}
	}
}
