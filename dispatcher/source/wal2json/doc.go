// Package wal2json reads change logs in the wal2json format, version 2: one JSON object a line, a transaction being a B
// line, its rows, and a C line.
//
// It knows files (plain or gzip, complete or growing), the lines, and how a line becomes changes of one table and key
// range, or a schema change. It must not know where changes go, who owns them, or what a statement means (package
// dispatcher/schema does).
//
// The position of a transaction is the nextlsn of its B line with stage rows; row lines carry none and take it from
// there. Schema changes are messages with prefix ddl, and truncates. A transaction that mixes them with rows is cut
// behind each of them, and the parts are numbered downwards: the last part has the transaction's own ts, the one before
// it one less, and so on, 24 at most. A part's schema change stands at the part's ts with stage ddl. How a transaction
// is cut depends on its lines alone, so that every reader finds an event at one position. The truncates of one statement
// are one event, and so are messages that repeat each other. The plug-in must run with format-version=2, include-lsn, include-transaction, include-types and include-pk.
//
// What always holds: nothing of a transaction is delivered before its C line was read; positions strictly increase; what
// a reader delivers after a position does not depend on where it began; a value arrives without loss (numbers as their decimal text); and nothing is skipped: a line that cannot be
// read or expressed stops the dispatcher with file, line, byte offset and the last good position.
//
// Rules that the format forces:
//   - An update leaves columns alone that the line does not carry (unchanged TOAST values). An update that changes the
//     key becomes a delete and an insert, so there the line must carry every column: those of the table's newest insert
//     line, or those that REPLICA IDENTITY FULL put into the identity. Else the dispatcher stops.
//   - The plug-in prints NaN and infinities as null. A null inside a primary key therefore stops the dispatcher, since
//     the row it means is not known; outside of the key it cannot be told from a real null.
//   - What a whole row has is changed by schema changes, too; a table's earlier names are followed back.
//   - A schema change outside of a transaction stops the dispatchers that it concerns.
package wal2json
