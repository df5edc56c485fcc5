package cast

import (
	"fmt"
	"math/big"
	"strings"
)

// rescale prints a decimal number with so many decimals, rounded half away from zero, as the upstream does.
func rescale(text string, decimals int) (string, error) {
	if text == "NaN" {
		return text, nil
	}
	plain, err := plainDecimal(text)
	if err != nil {
		return "", err
	}
	if decimals < 0 {
		return "", fmt.Errorf("a scale of %d is not known to this release", decimals)
	}
	digits, negative := strings.CutPrefix(plain, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	cut := fraction
	if len(fraction) > decimals {
		cut = fraction[:decimals]
	}
	v, ok := new(big.Int).SetString(whole+cut+strings.Repeat("0", decimals-len(cut)), 10)
	if !ok {
		return "", fmt.Errorf("%q is not a decimal number", text)
	}
	if len(fraction) > decimals && fraction[decimals] >= '5' {
		v.Add(v, big.NewInt(1))
	}
	all := v.String()
	if missing := decimals + 1 - len(all); missing > 0 {
		all = strings.Repeat("0", missing) + all
	}
	out := all[:len(all)-decimals]
	if decimals > 0 {
		out += "." + all[len(all)-decimals:]
	}
	if negative && v.Sign() != 0 {
		out = "-" + out
	}
	return out, nil
}

// plainDecimal prints a number as the upstream prints it: no plus, no needless zeros in front, a digit before the point.
func plainDecimal(text string) (string, error) {
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole+fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return "", fmt.Errorf("%q is not a plain decimal number", text)
	}
	out := strings.TrimLeft(whole, "0")
	if out == "" {
		out = "0"
	}
	if fraction != "" {
		out += "." + fraction
	}
	if negative && strings.Trim(out, "0.") != "" {
		out = "-" + out
	}
	return out, nil
}
