package cast

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weir-project/weir/dispatcher/keycode"
)

// column is a column's type.
type column struct {
	base     string // without modifier and array
	modifier string // what stands in brackets
	array    bool
	class    keycode.Class
}

func typeOf(declared string) column {
	var c column
	c.base = strings.TrimSpace(declared)
	c.base, c.array = strings.CutSuffix(c.base, "[]")
	if head, rest, ok := strings.Cut(c.base, "("); ok {
		if modifier, tail, ok := strings.Cut(rest, ")"); ok {
			c.base, c.modifier = strings.TrimSpace(strings.TrimSpace(head)+tail), strings.ReplaceAll(modifier, " ", "")
		}
	}
	if !strings.ContainsAny(c.base, `".`) {
		c.base = strings.ToLower(c.base)
	}
	switch c.base {
	case "varchar":
		c.base = "character varying"
	case "char", "bpchar":
		c.base = "character"
	}
	c.class = keycode.ClassOf(c.base)
	if c.array {
		c.class = keycode.ClassText
	}
	return c
}

// isText says whether the type holds text as people know it.
func (c column) isText() bool {
	return !c.array && slices.Contains([]string{"text", "character varying", "character", "name", "citext"}, c.base)
}

// printsAlike says whether values of a type become the same text that the log prints.
func (c column) printsAlike() bool {
	return slices.Contains([]string{"uuid", "json", "jsonb", "date", "timestamp without time zone"}, c.base)
}

// builtIn says whether a type of class text has rules of its own for how it is written. The others are taken for enums,
// and for domains over text.
func (c column) builtIn() bool {
	return c.class != keycode.ClassText || c.isText() || c.printsAlike() || slices.Contains([]string{
		"timestamp with time zone", "time with time zone", "time without time zone", "interval", "inet", "cidr", "macaddr", "macaddr8",
		"money", "xml", "bit", "bit varying", "point", "line", "lseg", "box", "path", "polygon", "circle", "tsvector", "tsquery", "pg_lsn",
		"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "hstore", "geometry", "geography", "jsonpath", "regclass",
	}, c.base)
}

// scale is the number of decimals that a numeric type prints, if it is bounded.
func (c column) scale() (int, bool) {
	_, text, both := strings.Cut(c.modifier, ",")
	scale, err := strconv.Atoi(text)
	switch {
	case c.modifier == "":
		return 0, false
	case !both:
		return 0, true
	default:
		return scale, err == nil
	}
}

// bits is the size of a floating-point type, 64 for all others.
func (c column) bits() int {
	if c.base == "real" || c.base == "float4" {
		return 32
	}
	return 64
}

// length is the number of characters that a text type holds, 0 if it is not bounded.
func (c column) length() int {
	n, err := strconv.Atoi(c.modifier)
	switch {
	case err == nil:
		return n
	case c.base == "character":
		return 1
	default:
		return 0
	}
}

// fit cuts a text to the type's length, and pads it where the type does.
func (c column) fit(text string) string {
	n := c.length()
	if n == 0 {
		return text
	}
	have := utf8.RuneCountInString(text)
	switch {
	case have > n:
		return string([]rune(text)[:n])
	case c.base == "character":
		return text + strings.Repeat(" ", n-have)
	default:
		return text
	}
}

// unpad leaves off the blanks with which character(n) fills up.
func (c column) unpad(text string) string {
	if c.base == "character" {
		return strings.TrimRight(text, " ")
	}
	return text
}
