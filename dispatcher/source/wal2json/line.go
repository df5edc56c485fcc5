package wal2json

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
)

// line is one object of the log. Columns, identity and pk are kept raw: most lines are of tables that the reader does
// not want.
type line struct {
	Action        string          `json:"action"`
	XID           json.RawMessage `json:"xid"`
	Timestamp     string          `json:"timestamp"`
	LSN           string          `json:"lsn"`
	NextLSN       string          `json:"nextlsn"`
	Schema        string          `json:"schema"`
	Table         string          `json:"table"`
	Columns       json.RawMessage `json:"columns"`
	Identity      json.RawMessage `json:"identity"`
	PK            json.RawMessage `json:"pk"`
	Transactional *bool           `json:"transactional"`
	Prefix        string          `json:"prefix"`
	Content       string          `json:"content"`
}

// decodeLine reads one line; it keeps nothing of raw.
func decodeLine(raw []byte) (*line, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the line is empty")
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not valid UTF-8")
	}
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("it is not a JSON object of the format: %w", err)
	}
	return &l, nil
}

// isOf says whether the line is about table; a table without schema means public.
func (l *line) isOf(table dispatcher.TableName) bool {
	return l.Table == table.Name && l.Schema == schemaOf(table)
}

func schemaOf(table dispatcher.TableName) string {
	if table.Schema == "" {
		return "public"
	}
	return table.Schema
}

// transactional says whether a message belongs to its transaction; messages without the field do.
func (l *line) transactional() bool { return l.Transactional == nil || *l.Transactional }

// commitTimeMS is the line's time stamp in Unix milliseconds, 0 where there is none that can be read.
func (l *line) commitTimeMS() int64 {
	for _, layout := range [...]string{"2006-01-02 15:04:05.999999-07", "2006-01-02 15:04:05.999999-07:00"} {
		if t, err := time.Parse(layout, l.Timestamp); err == nil {
			return t.UnixMilli()
		}
	}
	return 0
}

// parseLSN reads a log position such as 0/4EEE6C0.
func parseLSN(text string) (uint64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, herr := strconv.ParseUint(high, 16, 32)
	l, lerr := strconv.ParseUint(low, 16, 32)
	if !ok || herr != nil || lerr != nil {
		return 0, fmt.Errorf("%q is no log position of the form X/Y", text)
	}
	return h<<32 | l, nil
}

// jsonColumn is an element of columns, identity or pk; elements of pk have no value.
type jsonColumn struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// decodeColumns reads columns or identity.
func decodeColumns(raw json.RawMessage) ([]dispatcher.Column, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var list []jsonColumn
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("its columns cannot be read: %w", err)
	}
	cols := make([]dispatcher.Column, len(list))
	for i, c := range list {
		if c.Name == "" {
			return nil, errors.New("a column has no name")
		}
		if c.Type == "" {
			return nil, fmt.Errorf("column %s has no type (the plug-in needs include-types)", c.Name)
		}
		value, err := decodeValue(c.Type, c.Value)
		if err != nil {
			return nil, fmt.Errorf("column %s of type %s: %w", c.Name, c.Type, err)
		}
		cols[i] = dispatcher.Column{Name: c.Name, Type: c.Type, Value: value}
	}
	return cols, nil
}

func decodeValue(declared string, raw json.RawMessage) (dispatcher.Value, error) {
	if len(raw) == 0 {
		return dispatcher.Value{}, errors.New("it has no value")
	}
	class := keycode.ClassOf(declared)
	switch raw[0] {
	case 'n':
		return dispatcher.Value{Kind: dispatcher.KindNull}, nil
	case 't', 'f':
		return dispatcher.Value{Kind: dispatcher.KindBool, Text: string(raw)}, nil
	case '"':
		text, err := unquote(raw)
		if err != nil {
			return dispatcher.Value{}, err
		}
		return stringValue(class, text)
	case '{', '[':
		return dispatcher.Value{}, errors.New("its value is neither a string, a number, a boolean nor null")
	default:
		if class == keycode.ClassBool || class == keycode.ClassBytes {
			return dispatcher.Value{}, fmt.Errorf("a number (%s) does not fit", raw)
		}
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: string(raw)}, nil
	}
}

func stringValue(class keycode.Class, text string) (dispatcher.Value, error) {
	switch class {
	case keycode.ClassBytes:
		plain, err := hex.DecodeString(strings.TrimPrefix(text, `\x`))
		if err != nil {
			return dispatcher.Value{}, fmt.Errorf("%q is not hex", clip(text))
		}
		return dispatcher.Value{Kind: dispatcher.KindBytes, Text: string(plain)}, nil
	case keycode.ClassInteger, keycode.ClassDecimal, keycode.ClassFloat:
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: text}, nil
	case keycode.ClassBool:
		switch text {
		case "t", "true":
			return dispatcher.Value{Kind: dispatcher.KindBool, Text: "true"}, nil
		case "f", "false":
			return dispatcher.Value{Kind: dispatcher.KindBool, Text: "false"}, nil
		}
		return dispatcher.Value{}, fmt.Errorf("%q is neither true nor false", clip(text))
	case keycode.ClassText:
		return dispatcher.Value{Kind: dispatcher.KindText, Text: text}, nil
	default:
		return dispatcher.Value{Kind: dispatcher.KindText, Text: text}, nil
	}
}

// unquote decodes a JSON string. The library replaces half a surrogate pair by U+FFFD; here that would be a silent loss.
func unquote(raw json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("its string cannot be read: %w", err)
	}
	const replacement = "\uFFFD"
	if !strings.Contains(text, replacement) {
		return text, nil
	}
	honest := strings.Count(string(raw), replacement) + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
	if strings.Count(text, replacement) > honest {
		return "", errors.New("its string holds half a surrogate pair")
	}
	return text, nil
}

func clip(text string) string {
	const most = 40
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
