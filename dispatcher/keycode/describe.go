package keycode

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
)

var errNotAKey = errors.New("not a key")

// Describe prints a key as a tuple, for example (17,"a b"). A key that stops after its first columns prints as the
// shorter tuple, the empty key as (). Bytes that are no key print as invalid: and their hex form.
func Describe(key string) string {
	var parts []string
	for rest := key; rest != ""; {
		part, next, err := describeColumn(rest)
		if err != nil {
			return "invalid:" + hex.EncodeToString([]byte(key))
		}
		parts, rest = append(parts, part), next
	}
	return "(" + strings.Join(parts, ",") + ")"
}

// describeColumn prints the first column of key and returns what follows it.
func describeColumn(key string) (text, rest string, err error) {
	payload := key[1:]
	switch key[0] {
	case tagNull:
		return "null", payload, nil
	case tagBool:
		return describeBool(payload)
	case tagInteger:
		if len(payload) < 8 {
			return "", "", errNotAKey
		}
		v := int64(binary.BigEndian.Uint64([]byte(payload[:8])) ^ signBit)
		return strconv.FormatInt(v, 10), payload[8:], nil
	case tagDecimal:
		return describeDecimal(payload)
	case tagFloat:
		if len(payload) < 8 {
			return "", "", errNotAKey
		}
		v := floatFromOrder(binary.BigEndian.Uint64([]byte(payload[:8])))
		return strconv.FormatFloat(v, 'g', -1, 64), payload[8:], nil
	case tagText:
		raw, rest, err := unescape(payload)
		return strconv.Quote(raw), rest, err
	case tagBytes:
		raw, rest, err := unescape(payload)
		return `\x` + hex.EncodeToString([]byte(raw)), rest, err
	default:
		return "", "", errNotAKey
	}
}

func describeBool(payload string) (text, rest string, err error) {
	if payload == "" || payload[0] > 1 {
		return "", "", errNotAKey
	}
	return strconv.FormatBool(payload[0] == 1), payload[1:], nil
}

func unescape(payload string) (raw, rest string, err error) {
	var b strings.Builder
	for {
		at := strings.IndexByte(payload, escape)
		if at < 0 || at+1 >= len(payload) {
			return "", "", errNotAKey
		}
		b.WriteString(payload[:at])
		mark := payload[at+1]
		payload = payload[at+2:]
		switch mark {
		case terminator:
			return b.String(), payload, nil
		case escapedNul:
			b.WriteByte(0)
		default:
			return "", "", errNotAKey
		}
	}
}

func describeDecimal(payload string) (text, rest string, err error) {
	if payload == "" {
		return "", "", errNotAKey
	}
	class, payload := payload[0], payload[1:]
	switch class {
	case decimalNegInf:
		return "-Infinity", payload, nil
	case decimalZero:
		return "0", payload, nil
	case decimalPosInf:
		return "Infinity", payload, nil
	case decimalNaN:
		return "NaN", payload, nil
	case decimalNegative:
		return describeMagnitude(payload, true, 0xFF)
	case decimalPositive:
		return describeMagnitude(payload, false, 0)
	default:
		return "", "", errNotAKey
	}
}

func describeMagnitude(payload string, negative bool, flip byte) (text, rest string, err error) {
	end := strings.IndexByte(payload[min(4, len(payload)):], flip)
	if end < 1 {
		return "", "", errNotAKey
	}
	raw := []byte(payload[:4+end])
	for i := range raw {
		raw[i] ^= flip
	}
	digits := make([]byte, 0, 2*end)
	for _, pair := range raw[4:] {
		if pair > 100 {
			return "", "", errNotAKey
		}
		digits = append(digits, '0'+(pair-1)/10, '0'+(pair-1)%10)
	}
	d := decimal{
		negative: negative,
		exponent: int32(binary.BigEndian.Uint32(raw) ^ exponentSign),
		digits:   strings.TrimRight(string(digits), "0"),
	}
	return d.String(), payload[4+end+1:], nil
}
