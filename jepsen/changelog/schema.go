package changelog

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Type is the type of a column.
type Type string

// The types.
const (
	Integer Type = "integer"
	BigInt  Type = "bigint"
	Text    Type = "text"
	Numeric Type = "numeric(12,2)"
	Boolean Type = "boolean"
	Bytes   Type = "bytea"
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
}

// Table is a table of a log. Its last column is always seq, a bigint that numbers the changes of the table.
type Table struct {
	Name string
	// Key are the key columns, Rest the others without seq.
	Key, Rest []Column
	// Keys is how many different keys there are.
	Keys int
	// Full: updates and deletes carry the whole old row, and some updates change the key.
	Full bool
}

func (t *Table) columns() []Column {
	all := append(append([]Column(nil), t.Key...), t.Rest...)
	return append(all, Column{Name: "seq", Type: BigInt})
}

// MainTables are the tables of a busy log: integer, text and composite keys, all the types.
func MainTables() []Table {
	return []Table{
		{
			Name: "accounts", Keys: 4_000,
			Key:  []Column{{"id", BigInt}},
			Rest: []Column{{"balance", BigInt}, {"note", Text}},
		},
		{
			Name: "orders", Keys: 1_000, Full: true,
			Key:  []Column{{"code", Text}},
			Rest: []Column{{"amount", Numeric}, {"paid", Boolean}},
		},
		{
			Name: "lines", Keys: 1_000,
			Key:  []Column{{"order_no", Integer}, {"part", Text}},
			Rest: []Column{{"quantity", Integer}, {"blob", Bytes}},
		},
	}
}

// SmallTables are many small tables.
func SmallTables(prefix string, n int) []Table {
	list := make([]Table, n)
	for i := range list {
		list[i] = Table{
			Name: fmt.Sprintf("%s%03d", prefix, i), Keys: 8,
			Key: []Column{{"id", BigInt}}, Rest: []Column{{"value", Text}},
		}
	}
	return list
}

// keyValue is the value of a key column for a key number.
func keyValue(c Column, n int) any {
	switch c.Type {
	case Integer:
		return int64(n / 7)
	case BigInt:
		return int64(n) * 3
	case Text:
		// Quotes, backslashes, zero-width and multi-byte letters belong into keys too.
		odd := []string{"a", "Ä", "x\"y", `b\c`, "日", "'", " "}
		return odd[n%len(odd)] + strconv.Itoa(n)
	case Numeric, Boolean, Bytes:
		return nil
	default:
		return nil
	}
}

func randomValue(c Column, r *rand.Rand) any {
	if r.IntN(20) == 0 {
		return nil
	}
	switch c.Type {
	case Integer:
		return int64(int32(r.Uint32()))
	case BigInt:
		return int64(r.Uint64()) // beyond 2^53: a reader that goes through a float shows
	case Text:
		return []string{"", "plain", "naïve", "quote\"d", "back\\slash", "tab\tnew\nline", "日本"}[r.IntN(7)] + strconv.Itoa(r.IntN(1000))
	case Numeric:
		return number(fmt.Sprintf("%d.%02d", r.IntN(2_000_000)-1_000_000, r.IntN(100)))
	case Boolean:
		return r.IntN(2) == 0
	case Bytes:
		raw := make([]byte, r.IntN(12))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		return hexText(hex.EncodeToString(raw))
	default:
		return nil
	}
}

// IntegerKey is the key bytes of an integer key as the API takes them for split keys: a tag and the number, big endian,
// its sign bit flipped.
func IntegerKey(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{0x20}, uint64(n)^1<<63)
}

// AccountSplits cut accounts into spans of about equal size.
func AccountSplits(spans int) [][]byte {
	var keys [][]byte
	accounts := MainTables()[0]
	for i := 1; i < spans; i++ {
		keys = append(keys, IntegerKey(int64(accounts.Keys*i/spans)*3))
	}
	return keys
}
