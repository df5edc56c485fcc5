package wal2json

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
)

// TestBadInputStopsTheDispatcher: the good transactions before are delivered, the stop names the place, nothing behind
// it is delivered.
func TestBadInputStopsTheDispatcher(t *testing.T) {
	good := tx(1, insert(1, 1, "a"))
	after := tx(9, insert(9, 9, "never"))
	for name, c := range map[string]struct{ bad, reason, text, where string }{
		"no JSON":                  {"{\"action\":\n", ReasonMalformed, "not a JSON object", "line 4"},
		"empty line":               {"\n", ReasonMalformed, "the line is empty", "line 4"},
		"JSON of another kind":     {"[1]\n", ReasonMalformed, "not a JSON object", "line 4"},
		"action of the wrong type": {"{\"action\":1}\n", ReasonMalformed, "not a JSON object", "line 4"},
		"two objects":              {begin(2) + begin(3) + "\n", ReasonMalformed, "not a JSON object", "line 4"},
		"invalid UTF-8":            {text(begin(2), insert(2, 2, "b")[:60]+"\xff"), ReasonMalformed, "UTF-8", "line 5"},
		"unknown action":           {"{\"action\":\"X\"}\n", ReasonMalformed, `action "X" is unknown`, "line 4"},
		"no action":                {"{}\n", ReasonMalformed, `action "" is unknown`, "line 4"},
		"row without transaction":  {text(insert(2, 2, "b")), ReasonMalformed, "outside of a transaction", "line 4"},
		"commit without begin":     {text(commit(2)), ReasonMalformed, "outside of a transaction", "line 4"},
		"begin inside transaction": {text(begin(2), begin(3)), ReasonMalformed, "begins inside another one", "line 5"},
		"row of another xid":       {text(begin(2), insert(3, 2, "b")), ReasonMalformed, "xid 3", "line 5"},
		"commit of another xid":    {text(begin(2), strings.Replace(commit(2), `"xid":2`, `"xid":3`, 1)), ReasonMalformed, "xid 3", "line 5"},
		"commit with other lsn":    {text(begin(2), strings.Replace(commit(2), `"nextlsn":"0/2"`, `"nextlsn":"0/3"`, 1)), ReasonMalformed, "is not that of its B line", "line 5"},
		"no nextlsn":               {text(strings.Replace(begin(2), `"nextlsn":"0/2"`, `"x":1`, 1)), ReasonMalformed, "include-lsn", "line 4"},
		"nextlsn without slash":    {text(strings.Replace(begin(2), `"nextlsn":"0/2"`, `"nextlsn":"02"`, 1)), ReasonMalformed, "no log position", "line 4"},
		"nextlsn too long":         {text(strings.Replace(begin(2), `"nextlsn":"0/2"`, `"nextlsn":"0/100000000"`, 1)), ReasonMalformed, "no log position", "line 4"},
		"position repeats":         {tx(1, insert(1, 2, "b")), ReasonMalformed, "not above", "line 4"},
		"row without table":        {text(begin(2), `{"action":"I","xid":2}`), ReasonMalformed, "names no table", "line 5"},
		"columns not a list":       {text(begin(2), `{"action":"I","xid":2,"schema":"public","table":"t","columns":{},"pk":`+pkID+"}"), ReasonMalformed, "columns cannot be read", "line 5"},
		"column without name":      {tx(2, rowLine("I", 2, "t", id(1)+`,{"type":"text","value":"x"}`, "", pkID)), ReasonMalformed, "has no name", "line 5"},
		"column without type":      {tx(2, rowLine("I", 2, "t", id(1)+`,{"name":"v","value":"x"}`, "", pkID)), ReasonMalformed, "include-types", "line 5"},
		"column without value":     {tx(2, rowLine("I", 2, "t", id(1)+`,{"name":"v","type":"text"}`, "", pkID)), ReasonMalformed, "no value", "line 5"},
		"value is an object":       {tx(2, rowLine("I", 2, "t", id(1)+","+col("v", "json", "{}"), "", pkID)), ReasonMalformed, "neither a string", "line 5"},
		"bytea not hex":            {tx(2, rowLine("I", 2, "t", id(1)+","+col("v", "bytea", `"zz"`), "", pkID)), ReasonMalformed, "not hex", "line 5"},
		"number as boolean":        {tx(2, rowLine("I", 2, "t", id(1)+","+col("v", "boolean", "1"), "", pkID)), ReasonMalformed, "does not fit", "line 5"},
		"text as boolean":          {tx(2, rowLine("I", 2, "t", id(1)+","+col("v", "boolean", `"maybe"`), "", pkID)), ReasonMalformed, "neither true nor false", "line 5"},
		"half a surrogate pair":    {tx(2, rowLine("I", 2, "t", id(1)+","+col("v", "text", `"\ud800"`), "", pkID)), ReasonMalformed, "surrogate", "line 5"},
		"pk not a list":            {tx(2, rowLine("I", 2, "t", id(1), "", "7")), ReasonMalformed, "pk cannot be read", "line 5"},
		"pk without name":          {tx(2, rowLine("I", 2, "t", id(1), "", "[{}]")), ReasonMalformed, "pk column has no name", "line 5"},
		"no pk":                    {tx(2, rowLine("I", 2, "t", id(1), "", "")), ReasonNoPrimaryKey, "add a primary key", "line 5"},
		"empty pk":                 {tx(2, rowLine("I", 2, "t", id(1), "", "[]")), ReasonNoPrimaryKey, "add a primary key", "line 5"},
		"insert without its key":   {tx(2, rowLine("I", 2, "t", col("v", "text", `"x"`), "", pkID)), ReasonNoPrimaryKey, "key column id", "line 5"},
		"update without identity":  {tx(2, rowLine("U", 2, "t", id(1), "", pkID)), ReasonNoPrimaryKey, "key column id", "line 5"},
		"delete without identity":  {tx(2, rowLine("D", 2, "t", "", "", pkID)), ReasonNoPrimaryKey, "REPLICA IDENTITY", "line 5"},
		"null in the key":          {tx(2, rowLine("I", 2, "t", col("id", "bigint", "null"), "", pkID)), ReasonBadKey, "is null", "line 5"},
		"key out of range":         {tx(2, rowLine("I", 2, "t", col("id", "bigint", "9223372036854775808"), "", pkID)), ReasonBadKey, "not an integer of 64 bits", "line 5"},
		"ddl outside transactions": {text(`{"action":"M","xid":2,"lsn":"0/2","transactional":false,"prefix":"ddl","content":"drop table t"}`), ReasonDDL, "stands outside of transactions", "line 4"},
	} {
		t.Run(name, func(t *testing.T) {
			path := logFile(t, good+c.bad+after)
			got, err := drain(t, open(t, spec(path)))
			require.Equal(t, []string{"1/rows; upsert(1) id:number=1 v:text=a"}, got)
			stop := stopOf(t, err)
			require.Equal(t, c.reason, stop.Reason, stop.Text)
			require.Contains(t, stop.Text, c.text)
			require.Contains(t, stop.Text, path+", "+c.where+" (byte offset ")
			require.Contains(t, stop.Text, "last good position 1/rows")
		})
	}
}

func TestProgressIsToldBeforeAStop(t *testing.T) {
	got, err := drain(t, open(t, spec(logFile(t, tx(1, other(1))+"broken\n"))))
	require.Equal(t, []string{"1/rows"}, got)
	require.Equal(t, ReasonMalformed, stopOf(t, err).Reason)
}

func TestTruncatedLogs(t *testing.T) {
	good := tx(1, insert(1, 1, "a"))
	whole := good + tx(2, insert(2, 2, "b"))
	for cut := len(good) + 1; cut < len(whole); cut++ {
		got, err := drain(t, open(t, spec(logFile(t, whole[:cut]))))
		require.Len(t, got, 1, "cut at %d", cut)
		stop := stopOf(t, err)
		require.Equal(t, ReasonMalformed, stop.Reason)
		require.Contains(t, stop.Text, "truncated")
	}
}

func TestDamagedGzip(t *testing.T) {
	var b strings.Builder
	for n := 1; n <= 300; n++ {
		b.WriteString(tx(n, insert(n, n*7919, "row "+strconv.Itoa(n*n))))
	}
	whole, err := os.ReadFile(zipped(t, b.String()))
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0x55
	for name, content := range map[string][]byte{"cut": whole[:len(whole)/2], "flipped": flipped, "no gzip": []byte("hello, this is text"), "empty": nil} {
		path := filepath.Join(t.TempDir(), "x.gz")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		source, err := New(Config{})
		require.NoError(t, err)
		r, err := source.Open(t.Context(), spec(path))
		if err == nil {
			_, err = drain(t, r)
			require.NoError(t, r.Close())
		}
		stop := stopOf(t, err)
		require.Equal(t, ReasonMalformed, stop.Reason, name)
		require.Contains(t, stop.Text, path, name)
	}
}

func TestGzipLogThatIsCutAtALineStops(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(begin(1) + "\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "x.gz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	_, err = drain(t, open(t, spec(path)))
	require.Contains(t, stopOf(t, err).Text, "C line is missing")
}

func TestBadURIs(t *testing.T) {
	source, err := New(Config{})
	require.NoError(t, err)
	for uri, text := range map[string]string{
		"file:x":                   "does not begin with wal2json:",
		"wal2json:":                "path is empty",
		"wal2json:x?speed=9":       `option "speed" is unknown`,
		"wal2json:x?follow=maybe":  "neither true nor false",
		"wal2json:x?%zz":           "options cannot be read",
		"wal2json:x.gz?follow=yes": "neither true nor false",
		"wal2json:x.gz?follow=1":   "gzip file cannot be followed",
		"wal2json:" + t.TempDir():  "not a regular file",
	} {
		_, err := source.Open(t.Context(), dispatcher.SourceSpec{URI: uri})
		stop := stopOf(t, err)
		require.Equal(t, ReasonInvalidSource, stop.Reason)
		require.Contains(t, stop.Text, text)
	}
	_, err = source.Open(t.Context(), dispatcher.SourceSpec{URI: "wal2json:x?follow=true"})
	require.ErrorContains(t, err, "Config.Poll")
}

func FuzzDecodeLine(f *testing.F) {
	for _, s := range []string{
		begin(1), commit(1), insert(1, 1, "a"), update(1, 1, 2, "b"), remove(1, 1), ddl(1, "public.t", "drop table t"),
		`{"action":"T","xid":1,"schema":"public","table":"t"}`, `{"action":"M","prefix":"ddl"}`, "{", "", "[]", `{"action":"I","columns":[{"name":"a","type":"bytea","value":"\\x0"}]}`,
		`{"action":"U","pk":[{"name":"a"}],"identity":[{"name":"a","type":"numeric","value":1e999999999}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := decodeLine(raw)
		if err != nil {
			return
		}
		decodeRow(l)
		if c := schemaChange(l); c != nil {
			require.NotEmpty(t, c.event().Statement)
		}
		l.commitTimeMS()
	})
}
