// Package schema reads PostgreSQL schema changes: from the statement, as a change log carries it, to what a replica has
// to do about it.
//
// It knows the words of CREATE, ALTER, DROP TABLE and TRUNCATE, of the types and constant defaults in them, how names
// are resolved, and which statements need nothing at a replica. It must not know logs, sinks, or how a sink declares a
// type.
//
// It is a reader of its own, because PostgreSQL's grammar compiled to WebAssembly costs every process more than a second
// and a quarter of a gigabyte when it meets its first statement. So it reads only what it can act on.
//
// What always holds:
//   - The result is a function of the message alone: every reader of one message comes to the same [Change] and the same
//     [fsm.BarrierSpec].
//   - A statement that is not understood, or whose effect on rows the log does not carry, is [KindUnsupported] and says
//     why. It is never taken for one that needs nothing: those are listed.
//   - Names are resolved: every table has a schema.
package schema
