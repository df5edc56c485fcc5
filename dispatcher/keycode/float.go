package keycode

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// canonicalNaN is the one NaN that keys hold. Its order value is above that of +Inf, as the databases that can hold a
// NaN in a key sort it.
const canonicalNaN = 0x7FF8000000000001

// appendFloat writes the IEEE bits so that bytes order as the numbers: a negative number has all bits flipped, the
// others the sign bit. -0 is 0, since both are one value to a unique key; every NaN is one value above +Infinity.
func appendFloat(key []byte, text string, single bool) ([]byte, error) {
	v, err := parseFloat(text, single)
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64(key, floatOrder(v)), nil
}

func parseFloat(text string, single bool) (float64, error) {
	bits := 64
	if single {
		bits = 32
	}
	v, err := strconv.ParseFloat(text, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a floating-point number of %d bits", text, bits)
	}
	return v, nil
}

func floatOrder(v float64) uint64 {
	switch {
	case math.IsNaN(v):
		return canonicalNaN | signBit
	case v < 0:
		return ^math.Float64bits(v)
	default: // -0, too, for it is not below 0: it gets its sign bit back and so the order of 0
		return math.Float64bits(v) | signBit
	}
}

func floatFromOrder(order uint64) float64 {
	if order&signBit != 0 {
		return math.Float64frombits(order &^ signBit)
	}
	return math.Float64frombits(^order)
}
