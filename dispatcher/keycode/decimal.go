package keycode

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An exact decimal is a class byte and, for a finite number other than zero, the exponent e and the digits d of
// 0.d1d2d3... * 10^e with d1 and the last digit not zero, so that a number has one form:
//
//	class    10 -Infinity   18 negative   20 zero   28 positive   30 +Infinity   38 NaN
//	e        4 bytes, big endian, sign bit flipped
//	digits   two a byte: 1 + their value (01..64), a last odd digit followed by 0
//	end      00
//
// For negative numbers everything behind the class has its bits flipped, which reverses the order.
const (
	decimalNegInf   = 0x10
	decimalNegative = 0x18
	decimalZero     = 0x20
	decimalPositive = 0x28
	decimalPosInf   = 0x30
	decimalNaN      = 0x38

	exponentSign = 1 << 31
	// plainDigits is the widest number that is printed without an exponent.
	plainDigits = 40
)

// decimal is 0.digits * 10^exponent; digits without leading and trailing zeros, empty for zero.
type decimal struct {
	negative bool
	exponent int32
	digits   string
}

func appendDecimal(key []byte, text string) ([]byte, error) {
	switch strings.ToLower(text) {
	case "nan":
		return append(key, decimalNaN), nil
	case "infinity", "inf", "+infinity":
		return append(key, decimalPosInf), nil
	case "-infinity", "-inf":
		return append(key, decimalNegInf), nil
	}
	d, err := parseDecimal(text)
	if err != nil {
		return nil, err
	}
	switch {
	case d.digits == "":
		return append(key, decimalZero), nil
	case d.negative:
		key = append(key, decimalNegative)
		start := len(key)
		key = appendMagnitude(key, d)
		for i := start; i < len(key); i++ {
			key[i] = ^key[i]
		}
		return key, nil
	default:
		return appendMagnitude(append(key, decimalPositive), d), nil
	}
}

func appendMagnitude(key []byte, d decimal) []byte {
	key = binary.BigEndian.AppendUint32(key, uint32(d.exponent)^exponentSign)
	for i := 0; i < len(d.digits); i += 2 {
		pair := (d.digits[i] - '0') * 10
		if i+1 < len(d.digits) {
			pair += d.digits[i+1] - '0'
		}
		key = append(key, pair+1)
	}
	return append(key, 0)
}

// parseDecimal reads [sign] digits [. digits] [e exponent], with a digit on at least one side of the point.
func parseDecimal(text string) (decimal, error) {
	bad := fmt.Errorf("%q is not a decimal number", text)
	rest, negative := text, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		negative, rest = rest[0] == '-', rest[1:]
	}
	var exponent int64
	if at := strings.IndexAny(rest, "eE"); at >= 0 {
		var err error
		if exponent, err = strconv.ParseInt(rest[at+1:], 10, 32); err != nil {
			return decimal{}, bad
		}
		rest = rest[:at]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return decimal{}, bad
	}
	exponent += int64(len(whole))
	significant := strings.TrimLeft(digits, "0")
	exponent -= int64(len(digits) - len(significant))
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return decimal{}, nil
	}
	if exponent < math.MinInt32 || exponent > math.MaxInt32 {
		return decimal{}, fmt.Errorf("%q has an exponent beyond 32 bits", text)
	}
	return decimal{negative: negative, exponent: int32(exponent), digits: significant}, nil
}

// String prints the number in the shortest plain form, or with an exponent where that would be long.
func (d decimal) String() string {
	n, e := len(d.digits), int(d.exponent)
	sign := ""
	if d.negative {
		sign = "-"
	}
	switch {
	case n == 0:
		return "0"
	case e > plainDigits || e < -plainDigits:
		frac := ""
		if n > 1 {
			frac = "." + d.digits[1:]
		}
		return sign + d.digits[:1] + frac + "e" + strconv.Itoa(e-1)
	case e <= 0:
		return sign + "0." + strings.Repeat("0", -e) + d.digits
	case e >= n:
		return sign + d.digits + strings.Repeat("0", e-n)
	default:
		return sign + d.digits[:e] + "." + d.digits[e:]
	}
}
