package dispatcher

import (
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// Value is one column value as the source gave it, without loss: numbers keep their decimal text.
type Value struct {
	Kind Kind
	// Text holds the value for KindNumber (decimal text as in the log), KindText (any other type in its text form) and
	// KindBytes (raw bytes); it is "true" or "false" for KindBool and empty for KindNull.
	Text string
}

// Kind says how Value.Text is meant.
type Kind uint8

// The kinds of values.
const (
	KindNull Kind = iota + 1
	KindBool
	KindNumber
	KindText
	KindBytes
)

// String is the kind's word.
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBool:
		return "bool"
	case KindNumber:
		return "number"
	case KindText:
		return "text"
	case KindBytes:
		return "bytes"
	default:
		return "unset"
	}
}

// Column is a column of a row change: its name, its type as the source declares it, and its value.
type Column struct {
	Name, Type string
	Value      Value
}

// TableName is a table's name at the source or the sink.
type TableName struct{ Schema, Name string }

// Ref is the name as the state machine and schema changes have it; a table without schema is in public.
func (t TableName) Ref() fsm.TableRef {
	if t.Schema == "" {
		return fsm.TableRef{Schema: "public", Name: t.Name}
	}
	return fsm.TableRef(t)
}

// String prints schema.name.
func (t TableName) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// Op is what a Change does to a row.
type Op uint8

// The operations on rows. A change of a row's key arrives as OpDelete of the old key followed by OpUpsert of the new
// one, each filtered by its own key, so that the two may belong to different spans.
const (
	OpUpsert Op = iota + 1
	OpDelete
)

// String is the operation's word.
func (o Op) String() string {
	switch o {
	case OpUpsert:
		return "upsert"
	case OpDelete:
		return "delete"
	default:
		return "unset"
	}
}

// Change is the change of one row.
type Change struct {
	Op Op
	// Table is the name at the source when the change was made.
	Table TableName
	// Key is the row's order-preserving key, by which spans own it.
	Key string
	// PK holds the primary-key columns, in key order, with the values that name the row downstream.
	PK []Column
	// Columns holds the columns that the change sets, the key's included; an upsert of an existing row leaves the
	// others as they are. Empty for OpDelete.
	Columns []Column
}

// Transaction is what one span sees of a source transaction, or of a part of it: its rows, or one schema change. A source
// transaction without schema changes is one Transaction, and its Position has the transaction's ts.
//
// A source transaction with schema changes is cut behind each of them. Its parts are numbered downwards from the
// transaction's ts, which the last part has, so that a schema change alone, or as the last thing, has the transaction's
// own ts; every reader of the log numbers alike. Changes may be empty (progress only). Everything at or before Position
// that belongs to the span is in this or an earlier Transaction.
type Transaction struct {
	// Position is what is downstream once the transaction has been written: its ts with stage rows, or with stage ddl if
	// it is an event.
	Position fsm.Position
	// CommitTimeMS is the source's commit time in Unix milliseconds, 0 if the source does not tell; for lag figures only.
	CommitTimeMS int64
	Changes      []Change
	// Event is set if this is a schema change; then there are no Changes. All rows before it came earlier, all after it
	// come later.
	Event *Event
}

// Event is a schema change. It is a function of the log alone: every reader that delivers it delivers the same.
type Event struct {
	// Statement is the event in words, as the source gave it.
	Statement string
	// Change is what it does; never [schema.KindNothing].
	Change schema.Change
	// Spec is what the state machine has to know of it.
	Spec fsm.BarrierSpec
}
