package keycode

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-project/weir/dispatcher"
)

const (
	tagNull    = 0x05
	tagBool    = 0x10
	tagInteger = 0x20
	tagDecimal = 0x28
	tagFloat   = 0x30
	tagText    = 0x40
	tagBytes   = 0x48

	escape     = 0x00 // starts an escape inside text and bytes
	escapedNul = 0xFF // escape, escapedNul: a zero byte
	terminator = 0x01 // escape, terminator: the end; below escapedNul, so that a prefix sorts first

	signBit = 1 << 63
)

// Encode is the key of a row whose primary-key columns, in key order, are cols. The error names the column whose value
// does not fit its declared type.
func Encode(cols []dispatcher.Column) (string, error) {
	key := make([]byte, 0, 16*len(cols))
	for _, c := range cols {
		var err error
		if key, err = appendColumn(key, c); err != nil {
			return "", fmt.Errorf("key column %s: %w", c.Name, err)
		}
	}
	return string(key), nil
}

func appendColumn(key []byte, c dispatcher.Column) ([]byte, error) {
	if c.Value.Kind == dispatcher.KindNull {
		return append(key, tagNull), nil
	}
	switch class := ClassOf(c.Type); class {
	case ClassBool:
		return appendBool(key, c.Value.Text)
	case ClassInteger:
		return appendInteger(key, c)
	case ClassDecimal:
		return appendDecimal(append(key, tagDecimal), c.Value.Text)
	case ClassFloat:
		return appendFloat(append(key, tagFloat), c.Value.Text, singlePrecision(c.Type))
	case ClassBytes:
		return appendEscaped(append(key, tagBytes), c.Value.Text), nil
	case ClassText:
		return appendEscaped(append(key, tagText), c.Value.Text), nil
	default:
		return nil, fmt.Errorf("type %q has no encoding (class %s)", c.Type, class)
	}
}

func appendBool(key []byte, text string) ([]byte, error) {
	switch text {
	case "true":
		return append(key, tagBool, 1), nil
	case "false":
		return append(key, tagBool, 0), nil
	default:
		return nil, fmt.Errorf("%q is not true or false", text)
	}
}

func appendInteger(key []byte, c dispatcher.Column) ([]byte, error) {
	v, err := strconv.ParseInt(c.Value.Text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not an integer of 64 bits, as type %s needs", c.Value.Text, c.Type)
	}
	return binary.BigEndian.AppendUint64(append(key, tagInteger), uint64(v)^signBit), nil
}

func appendEscaped(key []byte, text string) []byte {
	for {
		nul := strings.IndexByte(text, escape)
		if nul < 0 {
			return append(append(key, text...), escape, terminator)
		}
		key = append(append(key, text[:nul]...), escape, escapedNul)
		text = text[nul+1:]
	}
}
