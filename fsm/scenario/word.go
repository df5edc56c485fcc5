package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var (
	errQuote = errors.New(`a quote is not closed: write "..." on one line, with Go escapes`)
	errEmpty = errors.New("nothing to do here: write a verb")
)

// splitQuoted cuts s where cut says so, but not inside quotes.
func splitQuoted(s string, cut func(byte) bool) ([]string, error) {
	var parts []string
	var part strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted && c == '\\' && i+1 < len(s):
			part.WriteByte(c)
			i++
			c = s[i]
		case c == '"':
			quoted = !quoted
		case !quoted && cut(c):
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		part.WriteByte(c)
	}
	if quoted {
		return nil, errQuote
	}
	return append(parts, part.String()), nil
}

// splitWords cuts a line into words.
func splitWords(s string) ([]string, error) {
	parts, err := splitQuoted(s, func(c byte) bool { return c == ' ' || c == '\t' })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" }), nil
}

// splitList cuts a word at its commas and takes the quotes away.
func splitList(s string) ([]string, error) {
	parts, err := splitQuoted(s, func(c byte) bool { return c == ',' })
	if err != nil {
		return nil, err
	}
	for i, p := range parts {
		if parts[i], err = unquote(p); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	v, err := strconv.Unquote(s)
	if err != nil {
		return "", fmt.Errorf("%s is not a quoted string: write it with Go escapes", s)
	}
	return v, nil
}

// quote is the inverse of unquote: it quotes only what has to be.
func quote(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == '"' || r == ',' || r == '\\' || r == '#' || !strconv.IsPrint(r)
	})
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// parameter is one word after the verb: a plain one, or key=value.
type parameter struct {
	key   string // empty for a plain word
	value string // still quoted
}

// call is one command line: [$name =] [envelope=...] verb parameters.
type call struct {
	number   int
	name     string // captures the verdict
	envelope []parameter
	verb     string
	params   []parameter
	inner    []call // the indented commands of a verb that takes some
}

// keyed splits a word key=value. A quote before the = makes it a plain word.
func keyed(w string) (parameter, bool) {
	key, value, found := strings.Cut(w, "=")
	if !found || key == "" || strings.ContainsAny(key, `"`) {
		return parameter{value: w}, false
	}
	return parameter{key: key, value: value}, true
}

// parseCall reads one command line.
func parseCall(l line) (call, error) {
	words, err := splitWords(l.text)
	if err != nil {
		return call{}, err
	}
	c := call{number: l.number}
	if len(words) >= 2 && words[1] == "=" {
		if len(words[0]) < 2 || words[0][0] != '$' || strings.Contains(words[0], ".") {
			return call{}, fmt.Errorf("%s cannot be a name: write $NAME = VERB, without dots in the name", words[0])
		}
		c.name, words = words[0], words[2:]
	}
	for len(words) > 0 {
		p, ok := keyed(words[0])
		if !ok {
			break
		}
		c.envelope = append(c.envelope, p)
		words = words[1:]
	}
	if len(words) == 0 {
		return call{}, errEmpty
	}
	c.verb = words[0]
	for _, w := range words[1:] {
		p, _ := keyed(w)
		c.params = append(c.params, p)
	}
	return c, nil
}
