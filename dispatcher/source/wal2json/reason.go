package wal2json

import "github.com/weir-project/weir/dispatcher"

// The reasons for which a dispatcher stops, as they stand in [dispatcher.StopError].
const (
	// ReasonInvalidSource: the URI cannot be used.
	ReasonInvalidSource = "INVALID_SOURCE"
	// ReasonMalformed: a line is damaged, truncated or out of place.
	ReasonMalformed = "MALFORMED_LOG"
	// ReasonChanged: a file that is followed was shrunk, replaced or removed.
	ReasonChanged = "LOG_CHANGED"
	// ReasonNoPrimaryKey: a row has no usable primary key.
	ReasonNoPrimaryKey = "NO_PRIMARY_KEY"
	// ReasonBadKey: a primary key holds a value that has no key bytes.
	ReasonBadKey = "BAD_KEY_VALUE"
	// ReasonKeyChange: a key was changed by a line that does not carry the whole row.
	ReasonKeyChange = "KEY_CHANGE_INCOMPLETE"
	// ReasonDDL: schema changes stand in the log in a way that gives them no position.
	ReasonDDL = dispatcher.ReasonDDLUnsupported
	// ReasonUnknownTable: the log has no row of the table.
	ReasonUnknownTable = "UNKNOWN_TABLE"
	// ReasonTooFewKeys: a table cannot be split so often.
	ReasonTooFewKeys = "TOO_FEW_KEYS"
)

// problem is a refusal before it knows its place in the file.
type problem struct{ reason, text string }
