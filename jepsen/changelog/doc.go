// Package changelog makes change logs in wal2json's second format, and works out from such a file alone what a replica of
// it must hold.
//
// It knows the format and its own tables. It shares no code with the product's reader, whose mistakes it is to show.
//
// Invariants: nextlsn grows from transaction to transaction. A flush may end anywhere, also inside a line, as that of a
// real writer does; what is complete is never changed.
package changelog
