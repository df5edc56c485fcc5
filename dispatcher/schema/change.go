package schema

import (
	"slices"

	"github.com/weir-project/weir/fsm"
)

// Kind says what a Change does.
type Kind uint8

// The kinds of changes.
const (
	// KindNothing needs nothing at a replica: an index, a comment, a default.
	KindNothing Kind = iota + 1
	KindCreate
	KindDrop
	// KindRename gives a table another name, schema, or both.
	KindRename
	KindAlter
	KindTruncate
	// KindUnsupported cannot be replicated; Change.Why says why.
	KindUnsupported
)

// String is the kind's word.
func (k Kind) String() string {
	switch k {
	case KindNothing:
		return "nothing"
	case KindCreate:
		return "create table"
	case KindDrop:
		return "drop table"
	case KindRename:
		return "rename table"
	case KindAlter:
		return "alter table"
	case KindTruncate:
		return "truncate"
	case KindUnsupported:
		return "unsupported"
	default:
		return "unset"
	}
}

// Change is what one schema change does to tables.
type Change struct {
	Kind Kind
	// Tables holds the tables that are changed: one for create, alter and rename (the old name), at least one for drop
	// and truncate, and for unsupported those that are known to be concerned, if any.
	Tables []fsm.TableRef
	// To is the new name, for rename.
	To fsm.TableRef
	// Columns and Key are the layout of a created table, Key its primary-key columns in key order, empty if it has none.
	// IfNotExists: a table that exists is left as it is.
	Columns     []Column
	Key         []string
	IfNotExists bool
	// Actions are what alter does, in order, at least one.
	Actions []Action
	// Why says in words, for unsupported, what stands in the way.
	Why string
	// Creates says, for unsupported, that the statement makes tables: whoever replicates what a log creates cannot go on
	// without them.
	Creates bool
}

// Column is a column of a created or altered table.
type Column struct {
	Name string
	// Type is spelt as the catalog spells it, for example "bigint", "numeric(12,2)" or "timestamp with time zone"; a type
	// that is not built in keeps its own name.
	Type    string
	NotNull bool
	// Default is the constant that rows without a value get; nil: none that is constant. Computed: rows get a value that
	// only the upstream can tell (a function, a sequence, a generated column).
	Default  *Literal
	Computed bool
}

// LiteralKind is the form in which a constant was written.
type LiteralKind uint8

// The forms of constants.
const (
	LiteralNull LiteralKind = iota + 1
	LiteralBool
	LiteralNumber
	LiteralString
)

// Literal is a constant of a statement: "true" or "false", the digits of a number, or the characters of a string.
type Literal struct {
	Kind LiteralKind
	Text string
}

// ActionKind says what an Action does to a table.
type ActionKind uint8

// The actions of ALTER TABLE that change a layout.
const (
	ActionAddColumn ActionKind = iota + 1
	ActionDropColumn
	ActionRenameColumn
	ActionAlterType
	// ActionSetKey makes Key the primary key.
	ActionSetKey
)

// Action is one step of an alter.
type Action struct {
	Kind ActionKind
	// Column is the column added, or the one whose type changes, with its new type.
	Column Column
	// Name is the column dropped or renamed, To its new name.
	Name, To string
	// Key holds the columns of the new primary key, in key order.
	Key []string
	// Using: values are converted by an expression that is more than the cast to the new type.
	Using bool
}

// maxStatement bounds the statement in a spec, in bytes: specs are kept in the replicated state.
const maxStatement = 1024

// Spec is what the state machine must know of the change; statement is the event in words. A change that needs nothing
// has no spec.
func (c *Change) Spec(statement string) fsm.BarrierSpec {
	spec := fsm.BarrierSpec{
		Influence: fsm.InfluenceTables, Tables: c.Influenced(), Trigger: true, Statement: clip(statement, maxStatement),
	}
	switch c.Kind {
	case KindCreate:
		spec.Add = []fsm.TableSpec{{Schema: c.Tables[0].Schema, Name: c.Tables[0].Name}}
	case KindDrop:
		spec.Drop = slices.Clone(c.Tables)
	case KindRename:
		spec.Rename = []fsm.TableRename{{From: c.Tables[0], To: c.To}}
	case KindUnsupported:
		if len(c.Tables) == 0 {
			spec.Influence = fsm.InfluenceAll
		}
	case KindNothing, KindAlter, KindTruncate:
	}
	return spec
}

// Influenced names the tables that the change concerns, both names of a renamed one. None means every table, or, for a
// change that needs nothing, none.
func (c *Change) Influenced() []fsm.TableRef {
	tables := slices.Clone(c.Tables)
	if c.Kind == KindRename {
		tables = append(tables, c.To)
	}
	return tables
}

// Concerns says whether a reader of table has to stop at the change.
func (c *Change) Concerns(table fsm.TableRef) bool {
	if c.Kind == KindUnsupported && len(c.Tables) == 0 {
		return true
	}
	return c.Kind != KindNothing && slices.Contains(c.Influenced(), table)
}

// ColumnsAfter are the names of a table's columns after the change, given those before; nil: not known.
func (c *Change) ColumnsAfter(before []string) []string {
	switch c.Kind {
	case KindCreate:
		if c.IfNotExists && before != nil {
			return before
		}
		after := make([]string, len(c.Columns))
		for i := range c.Columns {
			after[i] = c.Columns[i].Name
		}
		return after
	case KindAlter:
		return columnsAfter(before, c.Actions)
	case KindNothing, KindTruncate:
		return before
	case KindDrop, KindRename, KindUnsupported:
		return nil
	default:
		return nil
	}
}

func columnsAfter(before []string, actions []Action) []string {
	if before == nil {
		return nil
	}
	after := slices.Clone(before)
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case ActionAddColumn:
			if !slices.Contains(after, a.Column.Name) {
				after = append(after, a.Column.Name)
			}
		case ActionDropColumn:
			after = slices.DeleteFunc(after, func(name string) bool { return name == a.Name })
		case ActionRenameColumn:
			if at := slices.Index(after, a.Name); at >= 0 {
				after[at] = a.To
			}
		case ActionAlterType, ActionSetKey:
		}
	}
	return after
}

// Truncate is the change of a table that is emptied.
func Truncate(tables ...fsm.TableRef) Change { return Change{Kind: KindTruncate, Tables: tables} }

func unsupported(why string, tables ...fsm.TableRef) Change {
	return Change{Kind: KindUnsupported, Why: why, Tables: tables}
}
