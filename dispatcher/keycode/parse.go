package keycode

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-project/weir/dispatcher"
)

// Parse builds a key from what a user typed: 17, or a tuple such as (17,"a b"), in the form that [Describe] prints.
// types are the declared types of the key columns in order; fewer values than types give the key that sorts just
// before every row which begins so. Text may stand without quotes where it holds neither comma, quote nor bracket;
// binary values are \x and hex digits.
func Parse(text string, types []string) (string, error) {
	words, err := splitTuple(text)
	if err != nil {
		return "", fmt.Errorf("key %q: %w", text, err)
	}
	if len(words) > len(types) {
		return "", fmt.Errorf("key %q: %d values for a primary key of %d columns (%s)", text, len(words), len(types), strings.Join(types, ", "))
	}
	cols := make([]dispatcher.Column, len(words))
	for i, w := range words {
		value, err := w.value(types[i])
		if err != nil {
			return "", fmt.Errorf("key %q, value %d: %w", text, i+1, err)
		}
		cols[i] = dispatcher.Column{Name: strconv.Itoa(i + 1), Type: types[i], Value: value}
	}
	key, err := Encode(cols)
	if err != nil {
		return "", fmt.Errorf("key %q: %w", text, err)
	}
	return key, nil
}

type word struct {
	text   string
	quoted bool
}

func (w word) value(declared string) (dispatcher.Value, error) {
	if !w.quoted && w.text == "null" {
		return dispatcher.Value{Kind: dispatcher.KindNull}, nil
	}
	switch ClassOf(declared) {
	case ClassBool:
		return dispatcher.Value{Kind: dispatcher.KindBool, Text: w.text}, nil
	case ClassInteger, ClassDecimal, ClassFloat:
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: w.text}, nil
	case ClassBytes:
		raw, err := hex.DecodeString(strings.TrimPrefix(w.text, `\x`))
		if err != nil {
			return dispatcher.Value{}, fmt.Errorf(`%q is not \x and hex digits, as type %s needs`, w.text, declared)
		}
		return dispatcher.Value{Kind: dispatcher.KindBytes, Text: string(raw)}, nil
	case ClassText:
		return dispatcher.Value{Kind: dispatcher.KindText, Text: w.text}, nil
	default:
		return dispatcher.Value{}, fmt.Errorf("type %q has no encoding", declared)
	}
}

// splitTuple cuts a tuple, with or without brackets, at its commas.
func splitTuple(text string) ([]word, error) {
	rest := strings.TrimSpace(text)
	if strings.HasPrefix(rest, "(") {
		if !strings.HasSuffix(rest, ")") {
			return nil, errors.New("closing bracket is missing")
		}
		rest = strings.TrimSpace(rest[1 : len(rest)-1])
		if rest == "" {
			return nil, nil
		}
	}
	var words []word
	for {
		w, next, err := cutWord(strings.TrimSpace(rest))
		if err != nil {
			return nil, err
		}
		words = append(words, w)
		next = strings.TrimSpace(next)
		if next == "" {
			return words, nil
		}
		if next[0] != ',' {
			return nil, fmt.Errorf("a comma must follow value %d", len(words))
		}
		rest = next[1:]
	}
}

func cutWord(text string) (w word, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return word{}, "", errors.New("a quoted value is not closed, or holds a bad escape")
		}
		plain, err := strconv.Unquote(quoted)
		if err != nil {
			return word{}, "", fmt.Errorf("quoted value %s: %w", quoted, err)
		}
		return word{text: plain, quoted: true}, text[len(quoted):], nil
	}
	end := strings.IndexAny(text, `,"()`)
	if end < 0 {
		end = len(text)
	}
	bare := strings.TrimSpace(text[:end])
	if bare == "" {
		return word{}, "", errors.New("a value is empty; write \"\" for empty text")
	}
	return word{text: bare}, text[end:], nil
}
