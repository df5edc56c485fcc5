// Package logcodec turns commands into the bytes of log entries and states into snapshots, and back.
//
// It knows format versions and the golden files that hold them. It must not know transport or policy. Decoding is
// strict: an entry is read completely before anything of it may be applied, and bytes that this version does not know
// stop the server, since skipping them would let it drift apart from the others.
//
//	entry     | version 2 | count | proposal ... |
//	proposal  | kind | length | term | level | request id | request time | wall | by | command fields |
//	snapshot  | magic "WEIRSNAP" | version 2 | header length | header | record ... | 0 | trailer |
//	record    | section (not 0) | length | row |
//	trailer   | rows | state hash, two 64-bit halves | CRC-64 of everything before it |
//
// Numbers are minimal uvarints except the last three of the trailer, which are 8 bytes, big-endian.
//
// Until the first release the format is open: it may change without a new version number, and what an older build wrote
// is refused. From the first release on, golden files freeze it.
package logcodec
