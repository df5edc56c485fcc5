package wal2json

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
)

// row is a decoded I, U or D line with its keys.
type row struct {
	columns []dispatcher.Column // of I and U
	// old is the key before a U or D, now the key after an I or U.
	old, now key
	// whole: the identity holds all columns of the old row (REPLICA IDENTITY FULL).
	whole    bool
	identity []dispatcher.Column
}

// key is a primary key: its columns with values, in key order, and its bytes.
type key struct {
	columns []dispatcher.Column
	bytes   string
}

// decodeRow reads the columns and keys of a line.
func decodeRow(l *line) (row, *problem) {
	names, p := keyNames(l)
	if p != nil {
		return row{}, p
	}
	columns, err := decodeColumns(l.Columns)
	if err != nil {
		return row{}, &problem{ReasonMalformed, err.Error()}
	}
	identity, err := decodeColumns(l.Identity)
	if err != nil {
		return row{}, &problem{ReasonMalformed, "identity: " + err.Error()}
	}
	r := row{columns: columns, identity: identity, whole: len(identity) > len(names)}
	if l.Action != "I" {
		if r.old, p = makeKey(l, names, identity, nil); p != nil {
			return row{}, p
		}
	}
	if l.Action != "D" {
		// A key column that an update does not carry is an unchanged one.
		if r.now, p = makeKey(l, names, columns, identity); p != nil {
			return row{}, p
		}
	}
	return r, nil
}

func keyNames(l *line) ([]string, *problem) {
	var pk []jsonColumn
	if len(l.PK) > 0 {
		if err := json.Unmarshal(l.PK, &pk); err != nil {
			return nil, &problem{ReasonMalformed, "its pk cannot be read: " + err.Error()}
		}
	}
	names := make([]string, len(pk))
	for i, c := range pk {
		if c.Name == "" {
			return nil, &problem{ReasonMalformed, "a pk column has no name"}
		}
		names[i] = c.Name
	}
	if len(names) == 0 {
		return nil, &problem{ReasonNoPrimaryKey, fmt.Sprintf(
			"table %s.%s has no primary key in the log; add a primary key upstream (or include-pk to the plug-in) and take a new log, or leave the table out",
			l.Schema, l.Table)}
	}
	return names, nil
}

func makeKey(l *line, names []string, first, second []dispatcher.Column) (key, *problem) {
	k := key{columns: make([]dispatcher.Column, len(names))}
	for i, name := range names {
		c, ok := find(first, name)
		if !ok {
			c, ok = find(second, name)
		}
		if !ok {
			return key{}, &problem{ReasonNoPrimaryKey, fmt.Sprintf(
				"the %s line of %s.%s does not carry key column %s; set REPLICA IDENTITY DEFAULT or FULL upstream and take a new log",
				l.Action, l.Schema, l.Table, name)}
		}
		if c.Value.Kind == dispatcher.KindNull {
			return key{}, &problem{ReasonBadKey, fmt.Sprintf(
				"key column %s of %s.%s is null: the plug-in prints NaN and infinities so; delete or change that row upstream and take a new log",
				name, l.Schema, l.Table)}
		}
		k.columns[i] = c
	}
	var err error
	if k.bytes, err = keycode.Encode(k.columns); err != nil {
		return key{}, &problem{ReasonBadKey, fmt.Sprintf("%s.%s: %v", l.Schema, l.Table, err)}
	}
	return k, nil
}

func find(cols []dispatcher.Column, name string) (dispatcher.Column, bool) {
	i := slices.IndexFunc(cols, func(c dispatcher.Column) bool { return c.Name == name })
	if i < 0 {
		return dispatcher.Column{}, false
	}
	return cols[i], true
}

// same says whether two keys name the same row at the sink. Bytes alone do not decide: 1.0 and 1.00 have the same key
// bytes, but are two texts.
func (k key) same(o key) bool {
	return k.bytes == o.bytes && slices.EqualFunc(k.columns, o.columns, func(a, b dispatcher.Column) bool { return a.Value == b.Value })
}

// upsertColumns are the columns that an upsert under key now sets: those of the line, and its key.
func (r *row) upsertColumns() []dispatcher.Column {
	cols := r.columns
	for _, c := range r.now.columns {
		if _, ok := find(cols, c.Name); !ok {
			cols = append(slices.Clip(cols), c)
		}
	}
	return cols
}

// wholeRow are all columns of the new row of an update that changed the key, given the names that the table is known to
// have (nil: not known). The row is written anew, so a column that the line leaves out would be lost.
func (r *row) wholeRow(l *line, known []string) ([]dispatcher.Column, *problem) {
	cols := r.upsertColumns()
	if r.whole {
		for _, c := range r.identity {
			if _, ok := find(cols, c.Name); !ok {
				cols = append(slices.Clip(cols), c)
			}
		}
		return cols, nil
	}
	const remedy = "; set REPLICA IDENTITY FULL on the table upstream and take a new log"
	if known == nil {
		return nil, &problem{ReasonKeyChange, fmt.Sprintf(
			"an update of %s.%s changes the key, and no insert of the log tells which columns a whole row has%s", l.Schema, l.Table, remedy)}
	}
	var missing []string
	for _, name := range known {
		if _, ok := find(cols, name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, &problem{ReasonKeyChange, fmt.Sprintf(
			"an update of %s.%s changes the key but does not carry %s, which would be lost%s",
			l.Schema, l.Table, strings.Join(missing, ", "), remedy)}
	}
	return cols, nil
}
