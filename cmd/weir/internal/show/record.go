package show

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/weir-project/weir/fsm"
)

// Record is one log entry.
type Record struct {
	Index    uint64    `json:"index"`
	Term     uint64    `json:"term"`
	Kind     string    `json:"kind"`
	Commands []Command `json:"commands"`
}

// Command is one command of a log entry; its fields are spelled NAME=VALUE, those that are not set are left out.
type Command struct {
	Kind          string   `json:"kind"`
	Fields        []string `json:"fields"`
	By            string   `json:"by"`
	RequestID     string   `json:"request_id"`
	RequestTimeMS uint64   `json:"request_time_ms"`
	WallMS        int64    `json:"wall_ms"`
}

// RecordRow reads a log entry.
func RecordRow(index, term uint64, kind string, e fsm.Entry) Record {
	row := Record{Index: index, Term: term, Kind: kind, Commands: []Command{}}
	for _, p := range e.Proposals {
		row.Commands = append(row.Commands, Command{
			Kind: p.Command.Kind().String(), Fields: fields(reflect.ValueOf(p.Command).Elem()), By: p.By,
			RequestID: string(p.Request), RequestTimeMS: p.RequestTimeMS, WallMS: p.WallMS,
		})
	}
	return row
}

// fields spells the fields of a struct that are set.
func fields(v reflect.Value) []string {
	out := []string{}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			out = append(out, snake(f.Name)+"="+spell(v.Field(i)))
		}
	}
	return out
}

// spell spells a value: by its own word if it has one, text in quotes where it would be mistaken, bytes in hexadecimal.
func spell(v reflect.Value) string {
	if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
		return s.String()
	}
	switch v.Kind() { //nolint:exhaustive // the rest prints as Go does
	case reflect.Struct:
		return "{" + strings.Join(fields(v), " ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%x", v.Bytes())
		}
		parts := make([]string, 0, v.Len())
		for i := range v.Len() {
			parts = append(parts, spell(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.String:
		if plain(v.String()) {
			return v.String()
		}
		return strconv.Quote(v.String())
	default:
		return fmt.Sprint(v.Interface())
	}
}

func plain(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	}) < 0
}

// snake spells a Go name as the API does: ElapsedMS is elapsed_ms.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		starts := unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1])))
		if starts {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
