package sqltoken

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
)

// Token orders owners: by the epoch of the placement, then by the number of the claim. Both stay below 2^63.
type Token struct{ Epoch, Claim uint64 }

// Compare orders tokens.
func (t Token) Compare(u Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Claim, u.Claim))
}

// String prints epoch#claim.
func (t Token) String() string { return fmt.Sprintf("%d#%d", t.Epoch, t.Claim) }

// Position is how far a range is downstream; opaque but for its order. Zero is before everything.
type Position struct {
	TS    uint64
	Stage uint8
}

// Compare orders positions.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.TS, q.TS), cmp.Compare(p.Stage, q.Stage))
}

// Range is the key range [Start, End); an empty End has no upper bound.
type Range struct{ Start, End string }

// overlaps says whether a key exists that lies in both.
func (r Range) overlaps(o Range) bool {
	return (r.End == "" || o.Start < r.End) && (o.End == "" || r.Start < o.End)
}

// Owner is who claims: rows of another cluster or changefeed are never taken over unless they are released. Resume
// positions of another run are not used. Session is for people who read the rows.
type Owner struct {
	Cluster, Changefeed string
	Run                 uint64
	Session             string
}

// Tx is what a write may use: a connection inside the guard's transaction.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// Connector hands out connections; a *sql.DB is one.
type Connector interface {
	Conn(ctx context.Context) (*sql.Conn, error)
}

// StaleError says that somebody holds a newer token over the range, or part of it: this owner must stop.
type StaleError struct {
	Table      string
	Own, Found Token
	// Holder is the session of the found row; Released says that the range was given up under this very token.
	Holder   string
	Released bool
}

// Error says who is newer.
func (e *StaleError) Error() string {
	if e.Released {
		return fmt.Sprintf("token %s for %s was released and writes no more", e.Own, e.Table)
	}
	return fmt.Sprintf("token %s for %s is stale: token %s of session %q is newer", e.Own, e.Table, e.Found, e.Holder)
}

// OtherOwnerError says that a row of another cluster or changefeed lies in the range.
type OtherOwnerError struct {
	Table string
	Owner Owner
}

// Error says whose it is.
func (e *OtherOwnerError) Error() string {
	return fmt.Sprintf("%s is claimed by changefeed %q of cluster %q", e.Table, e.Owner.Changefeed, e.Owner.Cluster)
}

// Refusal tells about a claim or write that was refused because its token is stale.
type Refusal struct {
	Table      string
	Range      Range
	Own, Found Token
	Holder     string
	// Claim says that a claim was refused rather than a write.
	Claim bool
}
