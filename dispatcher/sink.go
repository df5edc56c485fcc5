package dispatcher

import (
	"context"
	"strconv"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// Token is the fencing token at sinks: the epoch of the placement, and the number of the claim within the epoch, which
// the node counts from 1. Tokens compare by epoch, then claim. Both stay below 2^63.
type Token struct {
	Epoch fsm.Epoch
	Claim uint64
}

// SinkSpec says what one dispatcher writes.
type SinkSpec struct {
	// URI names the sink as the changefeed gives it, for example "sqlite:/var/lib/replica.db".
	URI string
	// Cluster and Changefeed own the fence rows that are written; Run is the changefeed's run number.
	Cluster    string
	Changefeed string
	Run        uint64
	// Table is the downstream table, Span the key range that is claimed.
	Table TableName
	Span  fsm.Span
	// Trigger: the writer claims a range that belongs to no table, one per changefeed; it writes events and progress, and
	// no rows. Table and Span are not used then.
	Trigger bool
	// Session names the writing process for operators who read the fence rows: node name and incarnation.
	Session string
}

// Sink opens span writers. Implementations must be safe for concurrent use, and importing their package is what links
// the driver.
type Sink interface {
	// Open prepares a writer; it writes nothing and claims nothing.
	Open(ctx context.Context, spec SinkSpec) (SpanWriter, error)
	// Properties says what the sink promises.
	Properties() SinkProperties
}

// SinkProperties says what a sink promises about stale owners.
type SinkProperties struct {
	// Fenced: every write checks the token in its own transaction. A sink that cannot do so shows as unfenced.
	Fenced bool
	// MaxWriteMS is w, the longest time in milliseconds from the lease check before a write to its effect; used only
	// for sinks that are not fenced, and required there.
	MaxWriteMS uint32
}

// Batch is what one Write commits: whole transactions of one span, in order, and the position after the last one.
type Batch struct {
	Changes []Change
	// Resume is stored beside the rows in the same transaction: everything of the span up to it is downstream.
	Resume fsm.Position
}

// DDL is an event that a sink records, once: a schema change, or a sync point. A DDL whose record exists is not run
// again.
type DDL struct {
	// Key is its record at the sink. Its stage says whether it is a schema change or a sync point.
	Key DDLKey
	// Change is what a schema change does, Statement the words in which the source gave it. Not set in a sync point.
	Change    schema.Change
	Statement string
	// Tables are those of the change that the changefeed replicates, for sinks that have to look at each of them when an
	// earlier attempt may have taken effect in part. A sink must not rely on them to find what the change does.
	Tables []TableName
}

// ReasonDDLUnsupported is the reason of a schema change that cannot be replicated.
const ReasonDDLUnsupported = "DDL_UNSUPPORTED"

// DDLKey names a barrier event of a changefeed.
type DDLKey struct {
	Changefeed string
	Run        uint64
	Position   fsm.Position
}

// SpanWriter writes one span under one token. It is used by one goroutine at a time, except Close, which may be called
// at any time, makes a running call return, and is called once. Every method that changes anything does so in one
// transaction of the sink that holds a lock on exactly the writer's own fence row and needs that row to carry the
// writer's token; otherwise it changes nothing and returns a *FencedError.
//
// The write path calls allow as the last thing before the effect is sent (before the statements of a transaction start
// and again before its commit): when it returns an error nothing may be sent any more and the call returns that error.
type SpanWriter interface {
	// Claim writes the token over the span, cutting what it overlaps, and returns the resume position: start, or the
	// minimum of the resume positions of the overlapped rows if they cover the whole span without a gap and belong to
	// this run, whichever is later. It refuses with *FencedError if a higher token overlaps, and with
	// *ClaimedByOtherError if a row of another cluster or changefeed does. An equal token is the own claim, repeatable.
	// Claim also creates what the sink needs for the table's fence rows.
	Claim(ctx context.Context, token Token, start fsm.Position, allow func() error) (fsm.Position, error)
	// Write applies a batch and stores its resume position.
	Write(ctx context.Context, batch Batch, allow func() error) error
	// WriteDDL makes a schema change and leaves its record, or leaves the record of a sync point alone; done says that a
	// record was there already, and nothing was done. What the same event did under an earlier run is found and
	// completed, not repeated: a table that is there with that layout, a column of that type, a table that is gone or has
	// its new name. Tables that are not replicas of this changefeed are left alone. A change that the sink cannot
	// express is refused with a *StopError of reason ReasonDDLUnsupported that names the statement, the position, why,
	// and what to do.
	WriteDDL(ctx context.Context, ddl DDL, allow func() error) (done bool, err error)
	// Delete removes the rows of the span and its resume position (clean-up after a table was dropped on purpose).
	Delete(ctx context.Context, allow func() error) error
	// Close returns when nothing of the writer can reach the sink any more.
	Close() error
}

// FencedError says that a newer owner has claimed (part of) the span; the writer must stop.
type FencedError struct {
	Own, Found Token
	Table      TableName
	Holder     string // session that holds the newer token, as its fence row says; empty if unknown
}

// Error names both tokens.
func (e *FencedError) Error() string {
	return "FENCED: the sink refused token " + e.Own.String() + " for " + e.Table.String() + ": token " + e.Found.String() +
		" of " + orUnknown(e.Holder) + " is newer; this node stops the dispatcher"
}

// ClaimedByOtherError says that the span's range is claimed by another cluster or changefeed.
type ClaimedByOtherError struct {
	Table                    TableName
	Cluster, Changefeed, URI string
}

// Error says who holds the range and how to release it.
func (e *ClaimedByOtherError) Error() string {
	return "SINK_CLAIMED_BY_OTHER: " + e.Table.String() + " at " + e.URI + " is claimed by changefeed " + e.Changefeed + " of cluster " +
		e.Cluster + "; use another sink, or release the old claim at the sink once that changefeed is gone"
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown session"
	}
	return s
}

// String prints epoch and claim.
func (t Token) String() string { return t.Epoch.String() + "#" + strconv.FormatUint(t.Claim, 10) }

// Compare orders tokens by epoch, then claim.
func (t Token) Compare(u Token) int {
	switch {
	case t == u:
		return 0
	case t.Epoch < u.Epoch || (t.Epoch == u.Epoch && t.Claim < u.Claim):
		return -1
	default:
		return 1
	}
}
