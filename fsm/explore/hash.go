package explore

import (
	"encoding/binary"
	"math/bits"
)

// digest names a canonical encoding. 128 bits: among 10^8 states two share one with a probability below 10^-22.
type digest struct{ a, b uint64 }

const (
	hashA = 0x9e3779b97f4a7c15
	hashB = 0xbf58476d1ce4e5b9
	hashC = 0x94d049bb133111eb
	hashD = 0xd6e8feb86659fd93
)

func fold(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// digestOf hashes data; each half folds every eight bytes with constants of its own.
func digestOf(data []byte) digest {
	n := uint64(len(data))
	a, b := hashC^n, hashD+n
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		a = fold(a^w, hashA) + w
		b = fold(b+w, hashB) ^ bits.RotateLeft64(w, 31)
		data = data[8:]
	}
	var tail [8]byte
	copy(tail[:], data)
	w := binary.LittleEndian.Uint64(tail[:])
	a = fold(a^w, hashD) + n
	b = fold(b+w, hashA) ^ n
	return digest{a: fold(a^hashB, b|1) + a, b: fold(b^hashC, a|1) + b}
}
