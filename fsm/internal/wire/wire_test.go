package wire

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type sample struct {
	a uint64
	b uint32
	c uint8
	d bool
	e int64
	f string
	g []byte
	h []string
}

func (s *sample) code(c *Coder) {
	c.Uint64(&s.a)
	Uint32(c, &s.b)
	Uint8(c, &s.c)
	c.Bool(&s.d)
	Int(c, &s.e)
	Str(c, &s.f)
	c.Blob(&s.g)
	Slice(c, &s.h, Str[string])
}

func TestEveryValueComesBackAndEveryOtherEncodingIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := sample{
			a: rapid.Uint64().Draw(t, "a"), b: rapid.Uint32().Draw(t, "b"), c: rapid.Uint8().Draw(t, "c"),
			d: rapid.Bool().Draw(t, "d"), e: rapid.Int64().Draw(t, "e"), f: rapid.String().Draw(t, "f"),
			h: rapid.SliceOf(rapid.String()).Draw(t, "h"),
		}
		if g := rapid.SliceOf(rapid.Byte()).Draw(t, "g"); len(g) > 0 {
			in.g = g
		}
		if len(in.h) == 0 {
			in.h = nil
		}
		enc := NewEncoder(nil)
		in.code(&enc)
		raw := append([]byte(nil), enc.Bytes()...)

		var out sample
		dec := NewDecoder(raw)
		out.code(&dec)
		require.NoError(t, dec.Finish())
		require.Equal(t, in, out)

		// Whatever else decodes must encode back to the very bytes that it came from.
		mutated := append([]byte(nil), raw...)
		mutated[rapid.IntRange(0, len(mutated)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		var other sample
		dec = NewDecoder(mutated)
		other.code(&dec)
		if dec.Finish() == nil {
			again := NewEncoder(nil)
			other.code(&again)
			require.Equal(t, mutated, again.Bytes())
		}
	})
}

func TestBadBytesAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  []byte
		read func(*Coder)
		want error
	}{
		"uvarint cut off":        {[]byte{0x80}, func(c *Coder) { c.Uint64(new(uint64)) }, ErrTruncated},
		"uvarint with padding":   {[]byte{0x80, 0x00}, func(c *Coder) { c.Uint64(new(uint64)) }, ErrNotCanonical},
		"uvarint over 64 bits":   {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, func(c *Coder) { c.Uint64(new(uint64)) }, ErrTooLarge},
		"33 bits in a uint32":    {[]byte{0x80, 0x80, 0x80, 0x80, 0x10}, func(c *Coder) { Uint32(c, new(uint32)) }, ErrTooLarge},
		"bool of two":            {[]byte{2}, func(c *Coder) { c.Bool(new(bool)) }, ErrNotCanonical},
		"string longer than it":  {[]byte{3, 'a'}, func(c *Coder) { Str(c, new(string)) }, ErrTruncated},
		"count beyond the bytes": {[]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, func(c *Coder) { Slice(c, new([]string), Str[string]) }, ErrTruncated},
		"bytes left over":        {[]byte{1, 1}, func(c *Coder) { c.Uint64(new(uint64)) }, ErrTrailing},
		"nothing":                {nil, func(c *Coder) { Uint8(c, new(uint8)) }, ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			dec := NewDecoder(tc.raw)
			tc.read(&dec)
			require.ErrorIs(t, dec.Finish(), tc.want)
		})
	}
}

// TestEncodingOnlyReads: views share the rows of a state, so a snapshot encodes what is being applied to meanwhile. The
// race detector sees a write, also one of the same value.
func TestEncodingOnlyReads(t *testing.T) {
	one := sample{a: 1, b: 2, c: 3, d: true, e: -5, f: "f", g: []byte("g"), h: []string{"h"}}
	shared := []sample{one, one}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var c Coder
			for range 100 {
				c.Reset()
				Slice(&c, &shared, func(c *Coder, s *sample) {
					Uint(c, &s.a)
					s.code(c)
				})
			}
		})
	}
	readers.Wait()
}
