// Package wal2json reads change logs in the wal2json format, version 2: one JSON object a line, a transaction being a B
// line, its rows, and a C line.
//
// It knows files (plain or gzip, complete or growing), the lines, and how a line becomes changes of one table and key
// range. It must not know where changes go or who owns them.
//
// The position of a transaction is the nextlsn of its B line with stage rows; row lines carry none and take it from
// there. The plug-in must run with format-version=2, include-lsn, include-transaction, include-types and include-pk.
//
// What always holds: a transaction is delivered whole, after its C line was read, or not at all; positions strictly
// increase; a value arrives without loss (numbers as their decimal text); and nothing is skipped: a line that cannot be
// read or expressed stops the dispatcher with file, line, byte offset and the last good position.
//
// Rules that the format forces:
//   - An update leaves columns alone that the line does not carry (unchanged TOAST values). An update that changes the
//     key becomes a delete and an insert, so there the line must carry every column: those of the table's newest insert
//     line, or those that REPLICA IDENTITY FULL put into the identity. Else the dispatcher stops.
//   - The plug-in prints NaN and infinities as null. A null inside a primary key therefore stops the dispatcher, since
//     the row it means is not known; outside of the key it cannot be told from a real null.
//   - Schema changes (messages with prefix ddl, truncate) stop the dispatcher of the table they concern.
package wal2json
