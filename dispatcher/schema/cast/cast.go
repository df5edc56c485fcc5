package cast

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
)

// Func converts one value that is not null.
type Func func(dispatcher.Value) (dispatcher.Value, error)

// Between returns what a change of a column's type does to its values; nil if they are printed as before. The error says
// in words that this is not known. A Func itself refuses values for which it is not known.
func Between(from, to string) (Func, error) {
	f, t := typeOf(from), typeOf(to)
	if f == t || (f.base == t.base && f.array && t.array && t.modifier == "") {
		return nil, nil
	}
	unknown := fmt.Errorf("what becomes of values of type %s as %s is not known to this release", from, to)
	if f.array || t.array {
		return nil, unknown
	}
	switch t.class {
	case keycode.ClassInteger:
		return toInteger(f, unknown)
	case keycode.ClassDecimal:
		return toDecimal(f, t, unknown)
	case keycode.ClassFloat:
		return toFloat(f, t, unknown)
	case keycode.ClassBool:
		return toBool(f, unknown)
	case keycode.ClassText:
		return toText(f, t, unknown)
	case keycode.ClassBytes:
		return nil, unknown // there is one such type, and nothing becomes it by a cast alone
	default:
		return nil, unknown
	}
}

// number makes a Func of a function over a value's text, whose result is a number.
func number(convert func(string) (string, error)) Func {
	return func(v dispatcher.Value) (dispatcher.Value, error) {
		text, err := convert(v.Text)
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: text}, err
	}
}

func toInteger(f column, unknown error) (Func, error) {
	switch {
	case f.class == keycode.ClassInteger:
		return nil, nil
	case f.class == keycode.ClassDecimal:
		return number(func(text string) (string, error) { return rescale(text, 0) }), nil
	case f.class == keycode.ClassFloat:
		return number(func(text string) (string, error) {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Abs(v) >= 1<<63 {
				return "", fmt.Errorf("%q is no integer", text)
			}
			return strconv.FormatInt(int64(math.RoundToEven(v)), 10), nil
		}), nil
	case f.class == keycode.ClassBool:
		return number(func(text string) (string, error) {
			if text == "true" {
				return "1", nil
			}
			return "0", nil
		}), nil
	case f.isText():
		return number(func(text string) (string, error) {
			v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return strconv.FormatInt(v, 10), err
		}), nil
	default:
		return nil, unknown
	}
}

func toDecimal(f, t column, unknown error) (Func, error) {
	exact := f.class == keycode.ClassInteger || f.class == keycode.ClassDecimal
	scale, bounded := t.scale()
	switch {
	case !exact && !f.isText():
		return nil, unknown // of floats the upstream rounds away digits
	case exact && !bounded:
		return nil, nil
	case bounded:
		return number(func(text string) (string, error) { return rescale(strings.TrimSpace(text), scale) }), nil
	default:
		return number(func(text string) (string, error) { return plainDecimal(strings.TrimSpace(text)) }), nil
	}
}

func toFloat(f, t column, unknown error) (Func, error) {
	switch {
	case f.class == keycode.ClassFloat, f.class == keycode.ClassInteger, f.class == keycode.ClassDecimal, f.isText():
	default:
		return nil, unknown
	}
	from, to := f.bits(), t.bits()
	return number(func(text string) (string, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), from)
		if err != nil {
			return "", fmt.Errorf("%q is no floating-point number", text)
		}
		return strconv.FormatFloat(v, 'g', -1, to), nil
	}), nil
}

func toBool(f column, unknown error) (Func, error) {
	boolean := func(convert func(string) (bool, error)) Func {
		return func(v dispatcher.Value) (dispatcher.Value, error) {
			b, err := convert(v.Text)
			return dispatcher.Value{Kind: dispatcher.KindBool, Text: strconv.FormatBool(b)}, err
		}
	}
	switch {
	case f.class == keycode.ClassBool:
		return nil, nil
	case f.class == keycode.ClassInteger:
		return boolean(func(text string) (bool, error) { return text != "0", nil }), nil
	case f.isText():
		return boolean(parseBool), nil
	default:
		return nil, unknown
	}
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "false", "f", "no", "n", "off", "0":
		return false, nil
	default:
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
}

func toText(f, t column, unknown error) (Func, error) {
	prints := f.isText() || f.class == keycode.ClassInteger || f.class == keycode.ClassDecimal || f.class == keycode.ClassBool ||
		(f.class == keycode.ClassText && (f.printsAlike() || !f.builtIn()))
	switch {
	case t.isText() && prints:
		return func(v dispatcher.Value) (dispatcher.Value, error) {
			return dispatcher.Value{Kind: dispatcher.KindText, Text: t.fit(f.unpad(v.Text))}, nil
		}, nil
	case f.base == t.base && t.modifier == "": // more digits of seconds, say, than before
		return nil, nil
	case t.base == "json" && f.isText(), !t.builtIn() && (f.isText() || (f.class == keycode.ClassText && !f.builtIn())):
		return func(v dispatcher.Value) (dispatcher.Value, error) {
			return dispatcher.Value{Kind: dispatcher.KindText, Text: f.unpad(v.Text)}, nil
		}, nil
	default:
		return nil, unknown
	}
}
