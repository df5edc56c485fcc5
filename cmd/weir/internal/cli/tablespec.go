package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
)

// defaultSchema is the schema of a table that is named without one.
const defaultSchema = "public"

// tableWish is a table as a user asks for it: NAME[,split=K][,at=KEY:KEY...].
type tableWish struct {
	text string // the name as written
	// split is the number of spans, at are the keys between spans; at most one of them is set.
	split int
	at    []string
}

// sources and sinks are the schemes that this program has code for.
func sources() []string { return []string{wal2json.Scheme} }
func sinks() []string   { return []string{sqlite.Scheme} }

// sinkPromises says what a sink promises about stale owners.
func sinkPromises() (dispatcher.SinkProperties, error) {
	s, err := sqlite.New(sqlite.Config{})
	if err != nil {
		return dispatcher.SinkProperties{}, err
	}
	return s.Properties(), nil
}

// absoluteURI makes the path of SCHEME:PATH[?OPTIONS] absolute: agents run in other folders than the user.
func absoluteURI(flag, uri string, schemes []string) (string, error) {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || !slices.Contains(schemes, scheme) {
		return "", usage("%s %q: want %s:PATH; other kinds are not built in", flag, uri, strings.Join(schemes, ":PATH or "))
	}
	path, options, optioned := strings.Cut(rest, "?")
	if path == "" {
		return "", usage("%s %q: the path is missing; want %s:PATH", flag, uri, scheme)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", usage("%s %q: %v", flag, uri, err)
	}
	uri = scheme + ":" + absolute
	if optioned {
		uri += "?" + options
	}
	return uri, nil
}

// qualified splits SCHEMA.NAME at its first dot.
func qualified(text string) (schema, name string) {
	if schema, name, ok := strings.Cut(text, "."); ok && schema != "" && name != "" {
		return schema, name
	}
	return defaultSchema, text
}

// parseTable reads NAME[,split=K][,at=KEY:KEY...]. Commas and colons inside brackets or quotes belong to a key.
func parseTable(text string) (tableWish, error) {
	parts := splitOutside(text, ',')
	w := tableWish{text: parts[0]}
	if w.text == "" {
		return tableWish{}, usage("--table %q: the name is missing; want NAME[,split=K][,at=KEY:KEY...]", text)
	}
	for _, option := range parts[1:] {
		name, value, ok := strings.Cut(option, "=")
		switch {
		case ok && name == "split":
			k, err := strconv.Atoi(value)
			if err != nil || k < 1 || k > wal2json.MaxSplit {
				return tableWish{}, usage("--table %q: split=%s: want a number of spans from 1 to %d", text, value, wal2json.MaxSplit)
			}
			w.split = k
		case ok && name == "at":
			w.at = splitOutside(value, ':')
		default:
			return tableWish{}, usage("--table %q: %q is no option; want split=K or at=KEY:KEY... (a key of several columns in brackets)", text, option)
		}
	}
	if w.split > 0 && len(w.at) > 0 {
		return tableWish{}, usage("--table %q: want split= or at=, not both", text)
	}
	return w, nil
}

// splitOutside splits at a separator that is neither in round brackets nor in double quotes.
func splitOutside(text string, separator byte) []string {
	var parts []string
	depth, quoted, from := 0, false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == separator && depth <= 0:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	return append(parts, text[from:])
}

// planTables looks at the log and chooses the keys at which tables are cut.
func planTables(ctx context.Context, source string, wishes []tableWish, unseen bool) ([]*weirv1.TableSpec, error) {
	survey, err := wal2json.SurveyLog(ctx, source)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usage("source %s: there is no such file; check the path", source)
	}
	if err != nil {
		return nil, err
	}
	specs := make([]*weirv1.TableSpec, 0, len(wishes))
	for _, w := range wishes {
		spec, err := w.plan(ctx, source, survey.Tables, unseen)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// plan finds the table in the log and its cuts.
func (w tableWish) plan(ctx context.Context, source string, tables []wal2json.TableSurvey, unseen bool) (*weirv1.TableSpec, error) {
	found := w.find(tables)
	if found == nil {
		if !unseen || w.split > 0 || len(w.at) > 0 {
			return nil, w.notFound(source, tables)
		}
		schema, name := qualified(w.text)
		return &weirv1.TableSpec{Schema: schema, Name: name}, nil
	}
	spec := &weirv1.TableSpec{Schema: found.Table.Schema, Name: found.Table.Name}
	if w.split > 1 {
		keys, err := wal2json.SplitKeys(ctx, source, found.Table, w.split)
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			spec.SplitKeys = append(spec.SplitKeys, []byte(k))
		}
		return spec, nil
	}
	before := ""
	for _, text := range w.at {
		key, err := keycode.Parse(text, found.Types())
		if err != nil {
			return nil, usage("--table %s: at=: %v", w.text, err)
		}
		if key <= before {
			return nil, usage("--table %s: at=: key %s does not come after the one before it; write the keys in order", w.text, keycode.Describe(key))
		}
		spec.SplitKeys, before = append(spec.SplitKeys, []byte(key)), key
	}
	return spec, nil
}

// find takes the name as written in the default schema first, since a name may hold a dot.
func (w tableWish) find(tables []wal2json.TableSurvey) *wal2json.TableSurvey {
	schema, name := qualified(w.text)
	for _, want := range []dispatcher.TableName{{Schema: defaultSchema, Name: w.text}, {Schema: schema, Name: name}} {
		for i := range tables {
			if tables[i].Table == want {
				return &tables[i]
			}
		}
	}
	return nil
}

func (w tableWish) notFound(source string, tables []wal2json.TableSurvey) error {
	names := make([]string, 0, len(tables))
	for _, t := range tables {
		names = append(names, t.Table.String())
	}
	holds := "it holds none yet"
	if len(names) > 0 {
		holds = "it holds " + strings.Join(names, ", ")
	}
	text := "table " + w.text + " is not in the log " + source + ", " + holds
	if w.split == 0 && len(w.at) == 0 {
		text += "; if it will come later, add --unseen"
	} else {
		text += "; a table can be split once the log holds rows of it"
	}
	return &plane.Error{Class: plane.Usage, Reason: wal2json.ReasonUnknownTable, Text: text}
}
