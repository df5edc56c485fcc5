package sqlite

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
)

// notANumber is how a NaN is kept; SQLite would turn the number into NULL.
const notANumber = "NaN"

// bind is the column's value as the driver takes it.
func bind(c dispatcher.Column) (any, error) {
	if c.Value.Kind == dispatcher.KindNull {
		return nil, nil
	}
	switch keycode.ClassOf(c.Type) {
	case keycode.ClassInteger:
		v, err := strconv.ParseInt(c.Value.Text, 10, 64)
		if err != nil {
			return nil, unsupported(c, "an integer of 64 bits")
		}
		return v, nil
	case keycode.ClassFloat:
		v, err := strconv.ParseFloat(c.Value.Text, 64)
		if err != nil {
			return nil, unsupported(c, "a floating-point number of 64 bits")
		}
		if math.IsNaN(v) {
			return notANumber, nil
		}
		return v, nil
	case keycode.ClassBool:
		switch c.Value.Text {
		case "true":
			return int64(1), nil
		case "false":
			return int64(0), nil
		}
		return nil, unsupported(c, "true or false")
	case keycode.ClassBytes:
		return []byte(c.Value.Text), nil
	case keycode.ClassDecimal, keycode.ClassText:
		return c.Value.Text, nil
	default:
		return nil, unsupported(c, "of a known type")
	}
}

func unsupported(c dispatcher.Column, want string) error {
	return &dispatcher.StopError{Reason: ReasonValue, Text: fmt.Sprintf("column %s of type %s: %q is not %s, which is what the sink can hold", c.Name, c.Type, c.Value.Text, want)}
}

// unbind is the value as the source would have given it, for the key columns of a row that is read back.
func unbind(declared string, stored any) (dispatcher.Value, error) {
	class := keycode.ClassOf(declared)
	switch v := stored.(type) {
	case nil:
		return dispatcher.Value{Kind: dispatcher.KindNull}, nil
	case int64:
		if class == keycode.ClassBool {
			return dispatcher.Value{Kind: dispatcher.KindBool, Text: strconv.FormatBool(v != 0)}, nil
		}
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: strconv.FormatInt(v, 10)}, nil
	case float64:
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case string:
		if class == keycode.ClassText {
			return dispatcher.Value{Kind: dispatcher.KindText, Text: v}, nil
		}
		return dispatcher.Value{Kind: dispatcher.KindNumber, Text: v}, nil
	case []byte:
		return dispatcher.Value{Kind: dispatcher.KindBytes, Text: string(v)}, nil
	default:
		return dispatcher.Value{}, fmt.Errorf("stored value of type %T cannot be read back as %s", stored, declared)
	}
}
