package wal2json

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

const ddlPrefix = "ddl"

// change is a schema change as a line of the log tells it.
type change struct {
	what      schema.Change
	statement string
	// truncate: it comes from T lines, which the plug-in writes one by one for the tables of one statement.
	truncate bool
}

// schemaChange reads a line that is a schema change; nil for all others, and for one that needs nothing at a replica.
func schemaChange(l *line) *change {
	switch {
	case l.Action == "T":
		return &change{what: schema.Truncate(fsm.TableRef{Schema: l.Schema, Name: l.Table}), truncate: true}
	case l.Action == "M" && l.Prefix == ddlPrefix:
		message := schema.ParseMessage(l.Content)
		what := message.Change()
		if what.Kind == schema.KindNothing {
			return nil
		}
		return &change{what: what, statement: message.Text()}
	default:
		return nil
	}
}

// absorb makes c stand for next, which follows it without a row between, if the two are one statement; it says whether
// it did.
func (c *change) absorb(next *change) bool {
	if c.truncate && next.truncate {
		for _, t := range next.what.Tables {
			if !slices.Contains(c.what.Tables, t) {
				c.what.Tables = append(c.what.Tables, t)
			}
		}
		return true
	}
	return !c.truncate && !next.truncate && c.what.Same(&next.what)
}

// event is the change as readers deliver it.
func (c *change) event() *dispatcher.Event {
	statement := c.statement
	if c.truncate {
		names := make([]string, len(c.what.Tables))
		for i, t := range c.what.Tables {
			names[i] = t.String()
		}
		statement = "TRUNCATE " + strings.Join(names, ", ")
	}
	return &dispatcher.Event{Statement: statement, Change: c.what, Spec: c.what.Spec(statement)}
}

// outside is the problem of a schema change that belongs to no transaction: such a message is in the log at once,
// whatever becomes of the change.
func outside(c *change, after uint64) *problem {
	return &problem{ReasonDDL, fmt.Sprintf(
		"the schema change %q after position %d stands outside of transactions, so that nobody knows whether and when it took effect; let the event trigger emit transactional messages and take a new log",
		clip(c.statement), after)}
}
