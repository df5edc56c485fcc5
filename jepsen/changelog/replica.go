package changelog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Replica is what a replica of a log must hold.
type Replica struct {
	// Tables are the rows by table, then by key; each row is its columns by name, in canonical text.
	Tables map[string]map[string]map[string]string
	// Changes counts the effects on rows by table: one a line, two for an update that changes the key.
	Changes map[string]int64
	// Keys names the key columns by table, Types the type of each column.
	Keys  map[string][]string
	Types map[string]map[string]string
	// Transactions is how many there are, LastTS the ts of the last one.
	Transactions int64
	LastTS       uint64
}

// Null is the canonical text of NULL; no value has it.
const Null = "\x00null"

type readColumn struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

type readLine struct {
	Action   string       `json:"action"`
	NextLSN  string       `json:"nextlsn"`
	Table    string       `json:"table"`
	Columns  []readColumn `json:"columns"`
	Identity []readColumn `json:"identity"`
	PK       []readColumn `json:"pk"`
}

// Replay reads a complete log from its beginning.
func Replay(path string) (r *Replica, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open change log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r = &Replica{
		Tables: map[string]map[string]map[string]string{}, Changes: map[string]int64{}, Keys: map[string][]string{},
		Types: map[string]map[string]string{},
	}
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for n := 1; ; n++ {
		var line readLine
		switch err := decoder.Decode(&line); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return nil, fmt.Errorf("read change log %s, line %d: %w", path, n, err)
		}
		if err := r.apply(&line); err != nil {
			return nil, fmt.Errorf("change log %s, line %d: %w", path, n, err)
		}
	}
}

func (r *Replica) apply(l *readLine) error {
	if l.Action == "B" {
		var high, low uint64
		if _, err := fmt.Sscanf(l.NextLSN, "%X/%X", &high, &low); err != nil {
			return fmt.Errorf("nextlsn %q: %w", l.NextLSN, err)
		}
		r.Transactions++
		r.LastTS = high<<32 | low
	}
	if l.Table == "" {
		return nil
	}
	rows := r.table(l)
	if l.Action != "I" {
		old, err := keyOf(l.PK, l.Identity)
		if err != nil {
			return err
		}
		if l.Action == "D" {
			r.Changes[l.Table]++
			delete(rows, old)
			return nil
		}
		if now, err := keyOf(l.PK, l.Columns); err == nil && now != old {
			r.Changes[l.Table]++
			delete(rows, old)
		}
	}
	return r.set(l, rows)
}

func (r *Replica) table(l *readLine) map[string]map[string]string {
	rows, ok := r.Tables[l.Table]
	if !ok {
		rows = map[string]map[string]string{}
		r.Tables[l.Table], r.Types[l.Table] = rows, map[string]string{}
		for _, c := range l.PK {
			r.Keys[l.Table] = append(r.Keys[l.Table], c.Name)
		}
	}
	return rows
}

func (r *Replica) set(l *readLine, rows map[string]map[string]string) error {
	key, err := keyOf(l.PK, l.Columns)
	if err != nil {
		return err
	}
	row := map[string]string{}
	for _, c := range l.Columns {
		text, err := canonical(c)
		if err != nil {
			return err
		}
		row[c.Name], r.Types[l.Table][c.Name] = text, c.Type
	}
	rows[key] = row
	r.Changes[l.Table]++
	return nil
}

func keyOf(pk, columns []readColumn) (string, error) {
	var parts []string
	for _, k := range pk {
		found := false
		for _, c := range columns {
			if c.Name == k.Name {
				text, err := canonical(c)
				if err != nil {
					return "", err
				}
				parts, found = append(parts, text), true
			}
		}
		if !found {
			return "", fmt.Errorf("key column %s is missing", k.Name)
		}
	}
	return RowKey(parts), nil
}

// RowKey names a row by the canonical texts of its key columns.
func RowKey(parts []string) string { return strings.Join(parts, "\x1f") }

func canonical(c readColumn) (string, error) {
	raw := string(c.Value)
	switch {
	case raw == "null":
		return Null, nil
	case raw == "true":
		return "1", nil
	case raw == "false":
		return "0", nil
	case strings.HasPrefix(raw, `"`):
		var text string
		if err := json.Unmarshal(c.Value, &text); err != nil {
			return "", fmt.Errorf("column %s: %w", c.Name, err)
		}
		return text, nil
	default:
		return raw, nil
	}
}
