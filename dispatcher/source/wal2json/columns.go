package wal2json

import (
	"errors"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// columns are what a whole row of a table has, by what was read of the log so far: the newest insert line tells it, and
// schema changes behind it change it.
type columns struct {
	table fsm.TableRef
	known []string // nil: not known
	// Where known is nil: the schema changes since the table got its name, and, if it was renamed, what it was called
	// before and how long.
	since []schema.Change
	from  *fsm.TableRef
	until int64
}

// inserted notes an insert line.
func (k *columns) inserted(cols []dispatcher.Column) {
	*k = columns{table: k.table, known: columnNames(cols)}
}

// changed notes a schema change of the table that stands at an offset of the log.
func (k *columns) changed(c *schema.Change, offset int64) {
	switch {
	case !c.Concerns(k.table):
	case c.Kind == schema.KindRename && c.To == k.table:
		*k = columns{table: k.table, from: &c.Tables[0], until: offset}
	case k.known != nil, c.Kind == schema.KindCreate:
		*k = columns{table: k.table, known: c.ColumnsAfter(k.known)}
	default:
		k.since = append(k.since, *c)
	}
}

func columnNames(cols []dispatcher.Column) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return names
}

// maxRenames bounds how many names of a table are followed back.
const maxRenames = 64

// columnsBefore reads the first limit bytes of a log for what a whole row of the table has, so that a reader that began
// in the middle judges a key change as one that read everything. It follows the table back through its names. nil: the
// log does not tell.
func columnsBefore(loc location, limit int64, table fsm.TableRef) ([]string, error) {
	var later []schema.Change
	for range maxRenames {
		k, err := readColumns(loc, limit, table)
		if err != nil {
			return nil, err
		}
		later = append(k.since, later...)
		if k.known != nil || k.from == nil {
			known := k.known
			for i := range later {
				known = later[i].ColumnsAfter(known)
			}
			return known, nil
		}
		table, limit = *k.from, k.until
	}
	return nil, nil
}

func readColumns(loc location, limit int64, table fsm.TableRef) (k columns, err error) {
	k.table = table
	g, err := openLog(loc, fsm.Position{})
	if err != nil {
		return columns{}, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for g.scan.end() < limit {
		l, err := g.next()
		if err != nil {
			return columns{}, err
		}
		if g.scan.start >= limit {
			break
		}
		if c := schemaChange(l); c != nil {
			k.changed(&c.what, g.scan.start)
		}
		if l.Action != "I" || l.Table != table.Name || l.Schema != table.Schema {
			continue
		}
		cols, err := decodeColumns(l.Columns)
		if err != nil {
			return columns{}, g.malformed(err.Error())
		}
		k.inserted(cols)
	}
	return k, nil
}
