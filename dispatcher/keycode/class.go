package keycode

import "strings"

// Class is the family of a column type; all types of a class share one encoding.
type Class uint8

// The classes.
const (
	ClassBool Class = iota + 1
	ClassInteger
	ClassDecimal
	ClassFloat
	ClassText
	ClassBytes
)

// String is the class's word.
func (c Class) String() string {
	switch c {
	case ClassBool:
		return "boolean"
	case ClassInteger:
		return "integer"
	case ClassDecimal:
		return "decimal"
	case ClassFloat:
		return "float"
	case ClassText:
		return "text"
	case ClassBytes:
		return "bytes"
	default:
		return "unset"
	}
}

// ClassOf tells the class of a declared column type, such as "numeric(12,2)" or "character varying(20)". Letter case
// and length modifiers do not matter; a type that is not known is text, arrays included.
func ClassOf(declared string) Class {
	switch baseType(declared) {
	case "boolean", "bool":
		return ClassBool
	case "smallint", "integer", "bigint", "int", "int2", "int4", "int8", "tinyint", "mediumint", "oid":
		return ClassInteger
	case "numeric", "decimal":
		return ClassDecimal
	case "real", "double precision", "float", "float4", "float8", "double":
		return ClassFloat
	case "bytea", "blob", "tinyblob", "mediumblob", "longblob", "binary", "varbinary":
		return ClassBytes
	default:
		return ClassText
	}
}

// singlePrecision says whether a float type has 24 bits of mantissa: its text must be read as such, or two spellings
// of one value would differ.
func singlePrecision(declared string) bool {
	b := baseType(declared)
	return b == "real" || b == "float4"
}

// baseType is the type in lower case without its modifier; what follows the modifier stays ("[]", "without time zone").
func baseType(declared string) string {
	t := strings.ToLower(strings.TrimSpace(declared))
	open := strings.IndexByte(t, '(')
	if open < 0 {
		return t
	}
	end := strings.IndexByte(t[open:], ')')
	if end < 0 {
		return t
	}
	return strings.TrimSpace(strings.TrimSpace(t[:open]) + t[open+end+1:])
}
