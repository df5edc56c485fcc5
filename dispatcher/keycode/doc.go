// Package keycode turns the primary key of a row into bytes whose order is the order of the keys.
//
// It knows the encoding, how to print a key for people, and how to build one from what they type. It must not know
// sources, sinks, or where keys are stored.
//
// The format is pinned by testdata/golden.txt: spans, fence rows and stored positions hold such keys, so a byte that
// means something else tomorrow would give rows to the wrong dispatcher. Each column is a tag and a payload:
//
//	tag  column                     payload
//	05   NULL                       none
//	10   boolean                    00 or 01
//	20   integer types              8 bytes, big endian, sign bit flipped
//	28   numeric, decimal           class, then exponent and digits (see decimal.go)
//	30   real, double precision     8 bytes, IEEE order (see float.go)
//	40   text and any other type    the text, 00 as 00 FF, then 00 01
//	48   bytea and other binary     the bytes, 00 as 00 FF, then 00 01
//
// The tags 00 and FF are never used, so a key followed by FF is above every key that continues it.
//
// What always holds: keys of one column list compare as the tuples do, column by column, NULL first; equal values have
// equal keys (1.0 and 1.00, 0 and -0.0) and different values different ones; a key of the first columns is a prefix of,
// and so sorts before, every key that continues it. Text compares by its bytes, which for UTF-8 is the order of code
// points and not that of a collation. The tag is chosen by the declared type alone, so that a key that a user types and
// the key of a row agree.
package keycode
