// Package sqltoken is the token guard for SQL sinks: it makes a sink refuse a stale owner, even when every clock lies.
//
// It knows fence rows, how a claim cuts what it overlaps, and how a write is tied to its own row. It must not know what
// is written, who schedules whom, or which driver is below database/sql: the few things in which databases differ are a
// [Dialect].
//
// A fence row is a key range of a downstream table with the token of its owner and the resume position of the range.
//
// What always holds:
//   - Rows of one table never overlap.
//   - Where a row is, its token never decreases; a key range once claimed keeps a row for good, so that no older token
//     can claim it. A range that is given up stays as a released row.
//   - A write commits only if, under a lock on exactly the writer's own row, that row has the writer's token and range.
//     A row that a claim has cut therefore fences its whole owner, and a claim waits for a write that is under way.
//   - The resume position of a range commits in one transaction with what was written.
package sqltoken
