package cast

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema"
)

// Fill is the value that existing rows get in a column that is added. The error says in words why it is not known.
func Fill(c schema.Column) (dispatcher.Value, error) {
	switch {
	case c.Computed:
		return dispatcher.Value{}, errors.New("the upstream computed the value of column " + c.Name + " in each row that was there, and the log does not carry these values")
	case c.Default == nil || c.Default.Kind == schema.LiteralNull:
		return dispatcher.Value{Kind: dispatcher.KindNull}, nil
	}
	v, err := literal(typeOf(c.Type), *c.Default)
	if err != nil {
		return dispatcher.Value{}, fmt.Errorf("how the upstream stores the default %q of column %s of type %s is not known to this release", c.Default.Text, c.Name, c.Type)
	}
	return v, nil
}

var errUnknown = errors.New("unknown")

func literal(t column, l schema.Literal) (dispatcher.Value, error) {
	if t.array {
		return text(l.Text, l.Kind == schema.LiteralString && l.Text == "{}")
	}
	written := l.Kind == schema.LiteralNumber || l.Kind == schema.LiteralString
	trimmed := strings.TrimSpace(l.Text)
	var err error
	switch t.class {
	case keycode.ClassInteger:
		var v int64
		v, err = strconv.ParseInt(trimmed, 10, 64)
		return numeric(strconv.FormatInt(v, 10), written, err)
	case keycode.ClassDecimal:
		scale, bounded := t.scale()
		if bounded {
			trimmed, err = rescale(trimmed, scale)
		} else {
			trimmed, err = plainDecimal(trimmed)
		}
		return numeric(trimmed, written, err)
	case keycode.ClassFloat:
		var v float64
		v, err = strconv.ParseFloat(trimmed, t.bits())
		return numeric(strconv.FormatFloat(v, 'g', -1, t.bits()), written, err)
	case keycode.ClassBool:
		b, err := parseBool(trimmed)
		return dispatcher.Value{Kind: dispatcher.KindBool, Text: strconv.FormatBool(b)}, err
	case keycode.ClassBytes:
		raw, err := hex.DecodeString(strings.TrimPrefix(l.Text, `\x`))
		if !strings.HasPrefix(l.Text, `\x`) && l.Text != "" {
			err = errUnknown
		}
		return dispatcher.Value{Kind: dispatcher.KindBytes, Text: string(raw)}, err
	case keycode.ClassText:
		return textLiteral(t, l)
	default:
		return dispatcher.Value{}, errUnknown
	}
}

func numeric(printed string, written bool, err error) (dispatcher.Value, error) {
	if !written || err != nil {
		return dispatcher.Value{}, errUnknown
	}
	return dispatcher.Value{Kind: dispatcher.KindNumber, Text: printed}, nil
}

func text(printed string, known bool) (dispatcher.Value, error) {
	if !known {
		return dispatcher.Value{}, errUnknown
	}
	return dispatcher.Value{Kind: dispatcher.KindText, Text: printed}, nil
}

func textLiteral(t column, l schema.Literal) (dispatcher.Value, error) {
	if t.isText() {
		return text(t.fit(l.Text), true)
	}
	if l.Kind != schema.LiteralString {
		return dispatcher.Value{}, errUnknown
	}
	switch t.base {
	case "json":
		return text(l.Text, true)
	case "jsonb":
		return text(l.Text, slices.Contains([]string{"{}", "[]", "null", "true", "false", `""`, "0"}, l.Text))
	case "uuid":
		return text(l.Text, regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(l.Text))
	case "date":
		_, err := time.Parse(time.DateOnly, l.Text)
		return text(l.Text, err == nil)
	case "timestamp without time zone":
		_, err := time.Parse(time.DateTime, l.Text)
		return text(l.Text, err == nil)
	default:
		return text(l.Text, !t.builtIn())
	}
}
