package fsm

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Digest is a 128-bit hash. The state hash is the sum, modulo 2^64 in each half, of the digests of all rows: a sum can
// be kept up to date row by row, and does not depend on the order in which rows came to be. It detects divergence; it
// is no defence against someone who chooses rows.
type Digest struct{ A, B uint64 }

// String prints 32 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.A, d.B) }

func (d *Digest) add(o Digest) { d.A += o.A; d.B += o.B }
func (d *Digest) sub(o Digest) { d.A -= o.A; d.B -= o.B }

// Odd constants with well-mixed bits (the fractional parts of the square roots of the first primes).
const (
	mixA = 0x6a09e667f3bcc909
	mixB = 0xbb67ae8584caa73b
	mixC = 0x3c6ef372fe94f82b
	mixD = 0xa54ff53a5f1d36f1
)

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// digestOf hashes data under a tag that separates kinds of rows. Each half folds every eight bytes by a 64x64 to 128-bit
// multiplication, with constants of its own.
func digestOf(tag uint8, data []byte) Digest {
	a := uint64(tag)*mixC ^ mixA
	b := uint64(tag)*mixD ^ mixB
	n := uint64(len(data))
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		a = fold(a^w, mixB) + w
		b = fold(b+w, mixC) ^ bits.RotateLeft64(w, 29)
		data = data[8:]
	}
	var tail [8]byte
	copy(tail[:], data)
	w := binary.LittleEndian.Uint64(tail[:])
	a = fold(a^w, mixD) + n
	b = fold(b+w, mixA) ^ n
	return Digest{A: fold(a^mixC, b|1) + a, B: fold(b^mixD, a|1) + b}
}

// PairHash is what one placement adds to a node's set hash. Nodes compute the same sum over the dispatchers that they
// run, from the acknowledgement of "running" to that of "stopped"; a difference that lasts shows an orphan.
func PairHash(d DispatcherID, e Epoch) uint64 {
	x := fold(uint64(d)^mixA, mixB)
	return fold(x^uint64(e), mixC) ^ fold(uint64(e)+mixD, x|1)
}
