package schema

import (
	"strconv"
	"strings"
)

// dataType reads a type and returns it as the catalog spells it; serial says that it is one of the integer types with a
// sequence of their own.
func (c *cursor) dataType() (name string, serial bool, err error) {
	c.take("setof")
	if name, serial, err = c.baseType(); err != nil {
		return "", false, err
	}
	array := false
	for {
		switch {
		case c.take("array"):
			array = true
		case c.peek(0).punct("["):
			c.skipItem()
			array = true
		case array:
			return name + "[]", serial, nil
		default:
			return name, serial, nil
		}
	}
}

func (c *cursor) baseType() (name string, serial bool, err error) {
	switch {
	case c.take("double", "precision"):
		return "double precision", false, nil
	case c.take("bit", "varying"):
		return "bit varying" + c.modifier(), false, nil
	case c.take("character", "varying"), c.take("char", "varying"), c.take("national", "character", "varying"), c.take("national", "char", "varying"),
		c.take("nchar", "varying"):
		return "character varying" + c.modifier(), false, nil
	case c.take("national", "character"), c.take("national", "char"):
		return c.character(), false, nil
	}
	first := c.peek(0)
	ref, err := c.qualified()
	if err != nil {
		return "", false, err
	}
	if ref.Schema == "pg_catalog" {
		ref.Schema, first = "", token{kind: tokenWord, text: ref.Name}
	}
	if ref.Schema != "" || first.quoted {
		name = quoteName(ref.Name)
		if ref.Schema != "" {
			name = quoteName(ref.Schema) + "." + name
		}
		return name + c.modifier(), false, nil
	}
	name, serial = c.builtIn(ref.Name)
	return name, serial, nil
}

// builtIn spells a type without schema; what it does not know stays as it is.
func (c *cursor) builtIn(word string) (name string, serial bool) {
	switch word {
	case "serial", "serial4":
		return "integer", true
	case "bigserial", "serial8":
		return "bigint", true
	case "smallserial", "serial2":
		return "smallint", true
	case "int", "int4", "int8", "int2", "float8", "float4", "bool":
		return plainName(word), false
	case "float":
		return floatOf(c.modifier()), false
	case "dec", "decimal", "numeric":
		return "numeric" + c.numericModifier(), false
	case "varchar":
		return "character varying" + c.modifier(), false
	case "char", "character", "nchar":
		return c.character(), false
	case "bpchar":
		if c.peek(0).punct("(") {
			return c.character(), false
		}
		return "character varying", false // without padding, unlike char
	case "bit":
		if m := c.modifier(); m != "" {
			return "bit" + m, false
		}
		return "bit(1)", false
	case "varbit":
		return "bit varying" + c.modifier(), false
	case "timestamp", "time":
		return c.timeType(word), false
	case "timestamptz":
		return "timestamp" + c.modifier() + " with time zone", false
	case "timetz":
		return "time" + c.modifier() + " with time zone", false
	case "interval":
		return c.interval(), false
	default:
		return word + c.modifier(), false
	}
}

// plainName spells a type that takes no modifier.
func plainName(word string) string {
	switch word {
	case "int2":
		return "smallint"
	case "int8":
		return "bigint"
	case "float4":
		return "real"
	case "float8":
		return "double precision"
	case "bool":
		return "boolean"
	default: // int, int4
		return "integer"
	}
}

// modifier reads (p) or (p,s), or any other list in brackets, if one follows.
func (c *cursor) modifier() string {
	if !c.peek(0).punct("(") {
		return ""
	}
	inner, err := c.brackets()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, t := range inner.tokens {
		b.WriteString(t.text)
	}
	return "(" + b.String() + ")"
}

func (c *cursor) numericModifier() string {
	m := c.modifier()
	if m != "" && !strings.Contains(m, ",") {
		return strings.TrimSuffix(m, ")") + ",0)"
	}
	return m
}

func (c *cursor) character() string {
	if m := c.modifier(); m != "" {
		return "character" + m
	}
	return "character(1)"
}

func floatOf(modifier string) string {
	bits, err := strconv.Atoi(strings.Trim(modifier, "()"))
	if err == nil && bits <= 24 {
		return "real"
	}
	return "double precision"
}

func (c *cursor) timeType(word string) string {
	word += c.modifier()
	switch {
	case c.take("with", "time", "zone"):
		return word + " with time zone"
	default:
		c.take("without", "time", "zone")
		return word + " without time zone"
	}
}

// interval skips the fields, which only limit what values may hold.
func (c *cursor) interval() string {
	for c.takeAny("year", "month", "day", "hour", "minute", "second", "to") {
		c.modifier()
	}
	return "interval" + c.modifier()
}

// quoteName quotes a name where it would not be read back without.
func quoteName(name string) string {
	plain := name != "" && !isDigit(name[0]) && name[0] != '$'
	for _, b := range []byte(name) {
		plain = plain && (b == '_' || b == '$' || b >= 0x80 || isDigit(b) || (b >= 'a' && b <= 'z'))
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
