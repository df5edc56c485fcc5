// Package sqlite is the SQLite sink: it keeps replicas of tables in a database file that several processes may share.
//
// It knows the file, how a source's types map to SQLite's, and how changes become statements. It must not know who owns
// what: ownership is decided by the token guard (package fence/sqltoken), in the same transaction as every write.
//
// URI: sqlite:PATH, or sqlite:PATH?ledger=true, which also keeps a table of all accepted writes for audits.
//
// What always holds: a batch, its resume position and (if kept) its ledger line commit together or not at all; nothing
// is written unless the own fence row carries the own token; the lease is asked once the write lock is held and again
// right before the commit; once Close has returned, nothing of the writer can reach the file.
//
// Types: integers are INTEGER (64 bits, out of range is refused), decimals DECIMAL_TEXT (text affinity, so that 6.00
// stays 6.00), floats REAL (the same 64 bits come back, but SQLite has one zero and no NaN: NaN is kept as text),
// booleans 0 and 1, binary BLOB, everything else TEXT. Table public.x is x, table other.x is "other.x"; names that
// SQLite cannot tell apart are refused.
//
// Schema changes are made from what they do, not from the source's words, in one transaction with their record in
// weir_ddl. Only replicas of the changefeed are touched. Columns are nullable but for those of the primary key. An added
// column gets the constant default in the rows that are there; where the upstream computed values that the log does not
// carry, and there are rows, the change is refused. A column whose values are printed otherwise under its new type, and
// a change of the primary key, make the table anew, with its indexes and triggers; the time and the space that takes grow
// with the table. Fence rows belong to names and outlive their tables, so that a table that is created again under an old
// name is not open to older tokens. The sink's own tables begin with weir_: weir_tables and weir_columns say what the
// replicas are replicas of, weir_ddl and weir_syncpoints hold the events that were written.
//
// Costs: SQLite has one writer at a time for the whole file, in all processes, so a span waits for the others of the
// file (fsync included). Delete evaluates the key of every row of the table, in one transaction, unless the span is the
// whole table. A process that is stopped inside a transaction holds the lock until it dies: run the agent under a
// supervisor that kills a process whose heartbeat stands still.
package sqlite
