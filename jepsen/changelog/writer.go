package changelog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
)

// number is printed without quotes, hexText with them.
type (
	number  string
	hexText string
)

// MarshalJSON prints the digits as they are.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// Writer appends to a change log. It is not safe for concurrent use, but Rows and Position may be read at any time.
type Writer struct {
	file   *os.File
	rand   *rand.Rand
	tables []Table
	live   []map[int][]any // by table, then by key number: the row's values without the key
	seq    []int64
	xid    int
	lsn    uint64
	buffer bytes.Buffer
	rows   atomic.Int64
	last   atomic.Uint64
	err    error
}

// Start is a position before everything in a log.
const Start = 1 << 24

// Create starts a log of the tables.
func Create(path string, tables []Table, seed uint64) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create change log: %w", err)
	}
	w := &Writer{
		file: file, rand: rand.New(rand.NewPCG(seed, 0x10c)), tables: tables, seq: make([]int64, len(tables)), xid: 700,
		lsn: Start,
	}
	for range tables {
		w.live = append(w.live, map[int][]any{})
	}
	return w, nil
}

// Rows is how many row lines have been written.
func (w *Writer) Rows() int64 { return w.rows.Load() }

// Position is the ts of the newest complete transaction.
func (w *Writer) Position() uint64 { return w.last.Load() }

// Append writes transactions with at least so many rows in all.
func (w *Writer) Append(rows int) error {
	var last uint64
	for done := 0; done < rows; {
		n := 1 + w.rand.IntN(6)
		last = w.transaction(n)
		done += n
	}
	return w.flush(last)
}

// Touch writes one transaction with a change in every table.
func (w *Writer) Touch() error {
	at := w.begin()
	for t := range w.tables {
		w.change(t, at)
	}
	return w.flush(w.commit(at))
}

// Close closes the file.
func (w *Writer) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close change log: %w", err)
	}
	return w.err
}

// flush writes what is buffered, now and then in two parts that meet inside a line.
func (w *Writer) flush(last uint64) error {
	raw := w.buffer.Bytes()
	if len(raw) > 1 && w.rand.IntN(8) == 0 {
		cut := 1 + w.rand.IntN(len(raw)-1)
		w.write(raw[:cut])
		time.Sleep(time.Duration(w.rand.IntN(8)) * time.Millisecond)
		raw = raw[cut:]
	}
	w.write(raw)
	w.buffer.Reset()
	if w.err == nil {
		w.last.Store(last)
	}
	return w.err
}

func (w *Writer) write(raw []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.file.Write(raw); err != nil {
		w.err = fmt.Errorf("write change log: %w", err)
	}
}

// header is what every line of a transaction has.
type header struct {
	xid       int
	stamp     string
	lsn, next string
	ts        uint64
}

func lsnText(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, lsn&0xffffffff) }

func (w *Writer) begin() header {
	w.xid++
	from := w.lsn
	w.lsn += uint64(16 + 8*w.rand.IntN(40))
	h := header{
		xid: w.xid, stamp: time.Now().UTC().Format("2006-01-02 15:04:05.000000+00"), lsn: lsnText(from), next: lsnText(w.lsn), ts: w.lsn,
	}
	w.line(edge{"B", h.xid, h.stamp, h.lsn, h.next})
	return h
}

func (w *Writer) commit(h header) uint64 {
	w.line(edge{"C", h.xid, h.stamp, h.lsn, h.next})
	return h.ts
}

func (w *Writer) transaction(rows int) uint64 {
	h := w.begin()
	for range rows {
		w.change(w.rand.IntN(len(w.tables)), h)
	}
	return w.commit(h)
}

type edge struct {
	Action    string `json:"action"`
	XID       int    `json:"xid"`
	Timestamp string `json:"timestamp"`
	LSN       string `json:"lsn"`
	NextLSN   string `json:"nextlsn"`
}

type rowLine struct {
	Action    string      `json:"action"`
	XID       int         `json:"xid"`
	Timestamp string      `json:"timestamp"`
	LSN       string      `json:"lsn"`
	Schema    string      `json:"schema"`
	Table     string      `json:"table"`
	Columns   []cell      `json:"columns,omitempty"`
	Identity  []cell      `json:"identity,omitempty"`
	PK        []keyColumn `json:"pk"`
}

type cell struct {
	Name  string `json:"name"`
	Type  Type   `json:"type"`
	Value any    `json:"value"`
}

type keyColumn struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
}

func (w *Writer) line(v any) {
	encoder := json.NewEncoder(&w.buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil && w.err == nil {
		w.err = fmt.Errorf("encode change log: %w", err)
	}
}

// change writes one row line of a table.
func (w *Writer) change(t int, h header) {
	table, key := &w.tables[t], w.rand.IntN(w.tables[t].Keys)
	line := rowLine{XID: h.xid, Timestamp: h.stamp, LSN: h.lsn, Schema: "public", Table: table.Name}
	for _, c := range table.Key {
		line.PK = append(line.PK, keyColumn(c))
	}
	old, lives := w.live[t][key]
	switch {
	case !lives:
		line.Action = "I"
		w.set(&line, t, key)
	case w.rand.IntN(8) == 0:
		line.Action, line.Identity = "D", w.identity(table, key, old)
		delete(w.live[t], key)
	default:
		line.Action, line.Identity = "U", w.identity(table, key, old)
		if other := w.rand.IntN(table.Keys); table.Full && w.rand.IntN(4) == 0 && w.live[t][other] == nil {
			delete(w.live[t], key)
			key = other
		}
		w.set(&line, t, key)
	}
	w.line(line)
	w.rows.Add(1)
}

// set gives the row under key new values.
func (w *Writer) set(line *rowLine, t, key int) {
	table := &w.tables[t]
	w.seq[t]++
	values := make([]any, 0, len(table.Rest)+1)
	for _, c := range table.Rest {
		values = append(values, randomValue(c, w.rand))
	}
	values = append(values, w.seq[t])
	w.live[t][key] = values
	line.Columns = row(table, key, values)
}

func (w *Writer) identity(table *Table, key int, values []any) []cell {
	if table.Full {
		return row(table, key, values)
	}
	return row(table, key, nil)
}

// row spells the columns of a row; without values, the key alone.
func row(table *Table, key int, values []any) []cell {
	var cells []cell
	for i, c := range table.columns() {
		switch {
		case i < len(table.Key):
			cells = append(cells, cell{c.Name, c.Type, keyValue(c, key)})
		case values != nil:
			cells = append(cells, cell{c.Name, c.Type, values[i-len(table.Key)]})
		}
	}
	return cells
}
