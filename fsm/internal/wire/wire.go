// Package wire reads and writes the canonical bytes of commands, rows and verdicts.
//
// One function per type serves both directions: it names each field once, and [Coder] either appends it or reads it. The
// bytes are canonical (one value has exactly one encoding, and decoding refuses every other), because state hashes,
// snapshots and request digests are made of them. That is why this is not protobuf, whose bytes are not canonical and
// whose readers skip fields that they do not know.
//
//	unsigned, ids   minimal uvarint
//	signed          zigzag, then minimal uvarint
//	bool            one byte, 0 or 1
//	string, bytes   length as uvarint, then the bytes
//	slice           count as uvarint, then the elements
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of decoding. Any of them means that the bytes were not written by this encoding.
var (
	ErrTruncated    = errors.New("bytes end inside a value")
	ErrNotCanonical = errors.New("value is not in its canonical form")
	ErrTrailing     = errors.New("bytes go on after the last value")
	ErrTooLarge     = errors.New("number does not fit its field")
)

// Coder appends values to a buffer, or reads them from one. The zero Coder encodes, and then only reads its targets: rows
// are shared by a state and its views. After a first decoding error all
// reads leave their targets unset; Err tells.
type Coder struct {
	buf      []byte
	pos      int
	decoding bool
	err      error
}

// NewEncoder appends to buf[:0]; pass a scratch buffer to avoid allocation.
func NewEncoder(buf []byte) Coder { return Coder{buf: buf[:0]} }

// NewDecoder reads from buf, which must not change while strings decoded from it are being made.
func NewDecoder(buf []byte) Coder { return Coder{buf: buf, decoding: true} }

// Decoding says which direction the coder has.
func (c *Coder) Decoding() bool { return c.decoding }

// Bytes is what has been encoded so far.
func (c *Coder) Bytes() []byte { return c.buf }

// Reset drops what was encoded, keeping the buffer.
func (c *Coder) Reset() { c.buf, c.pos, c.err = c.buf[:0], 0, nil }

// Err is the first error.
func (c *Coder) Err() error { return c.err }

// Finish reports the first error, or ErrTrailing if a decoder has bytes left.
func (c *Coder) Finish() error {
	if c.err == nil && c.decoding && c.pos != len(c.buf) {
		c.err = ErrTrailing
	}
	return c.err
}

// Fail records err unless an earlier one is there.
func (c *Coder) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Uint64 codes an unsigned number.
func (c *Coder) Uint64(v *uint64) {
	if !c.decoding {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	*v = c.readUvarint()
}

func (c *Coder) readUvarint() uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.buf[c.pos:])
	switch {
	case n == 0:
		c.Fail(ErrTruncated)
	case n < 0:
		c.Fail(ErrTooLarge)
	case n > 1 && c.buf[c.pos+n-1] == 0:
		c.Fail(ErrNotCanonical)
	default:
		c.pos += n
		return v
	}
	return 0
}

// Bool codes one byte, 0 or 1.
func (c *Coder) Bool(v *bool) {
	b := uint8(0)
	if *v {
		b = 1
	}
	Uint8(c, &b)
	if c.decoding {
		if b > 1 {
			c.Fail(ErrNotCanonical)
		}
		*v = b == 1
	}
}

// Blob codes bytes. Decoding copies.
func (c *Coder) Blob(v *[]byte) {
	if !c.decoding {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = nil
	if raw := c.take(); len(raw) > 0 {
		*v = append([]byte(nil), raw...)
	}
}

func (c *Coder) take() []byte {
	n := c.readUvarint()
	if c.err != nil {
		return nil
	}
	if n > uint64(len(c.buf)-c.pos) {
		c.Fail(ErrTruncated)
		return nil
	}
	raw := c.buf[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return raw
}

// Uint codes a number of any unsigned 64-bit type.
func Uint[T ~uint64](c *Coder, v *T) {
	u := uint64(*v)
	c.Uint64(&u)
	if c.decoding {
		*v = T(u)
	}
}

// Uint32 codes a number that must fit 32 bits.
func Uint32[T ~uint32](c *Coder, v *T) {
	u := uint64(*v)
	c.Uint64(&u)
	if u > 1<<32-1 {
		c.Fail(ErrTooLarge)
		u = 0
	}
	if c.decoding {
		*v = T(u)
	}
}

// Uint8 codes one byte.
func Uint8[T ~uint8](c *Coder, v *T) {
	if !c.decoding {
		c.buf = append(c.buf, byte(*v))
		return
	}
	*v = 0
	if c.err != nil {
		return
	}
	if c.pos >= len(c.buf) {
		c.Fail(ErrTruncated)
		return
	}
	*v = T(c.buf[c.pos])
	c.pos++
}

// Int codes a signed number.
func Int[T ~int64](c *Coder, v *T) {
	s := int64(*v)
	u := uint64(s)<<1 ^ uint64(s>>63)
	c.Uint64(&u)
	if c.decoding {
		*v = T(int64(u>>1) ^ -int64(u&1))
	}
}

// Str codes a string of any string type.
func Str[T ~string](c *Coder, v *T) {
	if !c.decoding {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = T(c.take())
}

// Slice codes a count and then each element. A count that cannot fit the bytes left is refused before anything is
// allocated. An empty slice decodes as nil.
func Slice[T any](c *Coder, v *[]T, each func(*Coder, *T)) {
	n := uint64(len(*v))
	c.Uint64(&n)
	if c.decoding {
		*v = nil
		if c.err != nil || n == 0 {
			return
		}
		if n > uint64(len(c.buf)-c.pos) {
			c.Fail(fmt.Errorf("count %d: %w", n, ErrTruncated))
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(c, &(*v)[i])
	}
}
