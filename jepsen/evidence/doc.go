// Package evidence reads what the agents and the sinks noted while a run went on: the edges of write gates, the calls to
// sinks, the sink's own ledger, and the rows that it holds in the end.
//
// It knows the formats. It does not know which of it is wrong.
package evidence
