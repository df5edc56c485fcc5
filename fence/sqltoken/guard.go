package sqltoken

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
)

// ErrNotClaimed is returned by a write before the first claim.
var ErrNotClaimed = errors.New("sqltoken: the range is not claimed")

// Config says what a Guard guards.
type Config struct {
	DB      Connector
	Dialect Dialect
	// Begin starts a transaction on a connection, for a database whose locks want a wait of their own; optional, by
	// default the dialect's statement is executed once.
	Begin func(context.Context, *sql.Conn) error
	// Table is the downstream table's name as the fence rows hold it; Range the claimed keys.
	Table string
	Range Range
	Owner Owner
	// Prepare runs inside each claim's transaction, before anything is decided; optional. It may create what the sink
	// needs, or refuse the claim.
	Prepare func(context.Context, Tx) error
	// OnRefused is told about every claim and write that is refused because of its token; optional. It must not block.
	OnRefused func(Refusal)
}

func (c Config) validate() error {
	switch {
	case c.DB == nil:
		return errors.New("sqltoken: Config.DB is missing")
	case c.Dialect.Begin == "" || c.Dialect.Placeholder == nil || c.Dialect.InsertIgnore == "":
		return errors.New("sqltoken: Config.Dialect is incomplete")
	case c.Table == "":
		return errors.New("sqltoken: Config.Table is empty")
	case c.Range.End != "" && c.Range.Start >= c.Range.End:
		return fmt.Errorf("sqltoken: range %q to %q holds no key", c.Range.Start, c.Range.End)
	case c.Owner.Cluster == "" || c.Owner.Changefeed == "":
		return errors.New("sqltoken: Config.Owner names no cluster or changefeed")
	case c.Owner.Run > math.MaxInt64:
		return errors.New("sqltoken: Config.Owner.Run is above 2^63")
	}
	return nil
}

// Guard ties the writes of one owner to its fence row. It is used by one goroutine at a time.
type Guard struct {
	cfg     Config
	token   Token
	claimed bool
}

// New returns a guard that has claimed nothing yet.
func New(cfg Config) (*Guard, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Begin == nil {
		cfg.Begin = func(ctx context.Context, conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, cfg.Dialect.Begin)
			return err
		}
	}
	return &Guard{cfg: cfg}, nil
}

// Effect is what a guarded transaction changes in the own fence row besides its own rows.
type Effect struct {
	// Resume, if set, is how far the range is downstream once the transaction has committed. It never goes back.
	Resume *Position
	// Release gives the range up: the row stays, so that older tokens remain refused, but holds no resume position any
	// more, other changefeeds may claim it, and this owner's writes are refused until it claims again.
	Release bool
}

// Token is the token of the last claim that succeeded; zero before it.
func (g *Guard) Token() Token { return g.token }

// Claim takes the range for token and returns the position to resume at: start, or the least resume position of the
// rows that cover the range, if that is later. In one transaction, under the table's lock row, it refuses with
// *StaleError where an overlapping row has a higher token and with *OtherOwnerError where one belongs to somebody else;
// cuts the overlapping rows; and inserts its own. An equal token is the own claim, so a claim whose outcome is unknown
// can be repeated. allow is called when the lock is held and again as the last thing before the commit.
func (g *Guard) Claim(ctx context.Context, token Token, start Position, allow func() error) (Position, error) {
	if token.Epoch > math.MaxInt64 || token.Claim > math.MaxInt64 || token.Epoch == 0 {
		return Position{}, fmt.Errorf("sqltoken: token %s is not between 1 and 2^63", token)
	}
	var resume Position
	err := g.transact(ctx, allow, func(ctx context.Context, s store) error {
		if err := s.prepare(ctx); err != nil {
			return err
		}
		if g.cfg.Prepare != nil {
			if err := g.cfg.Prepare(ctx, s.tx); err != nil {
				return err
			}
		}
		rows, err := s.overlapping(ctx, g.cfg.Range)
		if err != nil {
			return err
		}
		own := row{span: g.cfg.Range, token: token, owner: g.cfg.Owner, resume: start}
		p, err := planClaim(g.cfg.Table, own, rows)
		if err != nil {
			return err
		}
		resume = p.resume
		return apply(ctx, s, p)
	})
	if err != nil {
		g.tell(err, true)
		return Position{}, fmt.Errorf("claim %s: %w", g.cfg.Table, err)
	}
	g.token, g.claimed = token, true
	return resume, nil
}

func apply(ctx context.Context, s store, p plan) error {
	for _, r := range p.remove {
		if err := s.remove(ctx, r); err != nil {
			return err
		}
	}
	for _, r := range p.insert {
		if err := s.insert(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Guarded runs fn in a transaction that holds a lock on exactly the own row and needs it to carry the own token and
// range, else it changes nothing and returns *StaleError. Whatever fn returns as its effect commits with what it did.
// allow is called when the transaction has its lock and again as the last thing before the commit.
func (g *Guard) Guarded(ctx context.Context, allow func() error, fn func(context.Context, Tx) (Effect, error)) error {
	if !g.claimed {
		return ErrNotClaimed
	}
	err := g.transact(ctx, allow, func(ctx context.Context, s store) error {
		own, err := g.check(ctx, s)
		if err != nil {
			return err
		}
		effect, err := fn(ctx, s.tx)
		if err != nil {
			return err
		}
		return g.settle(ctx, s, own, effect)
	})
	if err != nil {
		g.tell(err, false)
		return err
	}
	return nil
}

// check reads the own row and says whether it still is.
func (g *Guard) check(ctx context.Context, s store) (row, error) {
	own, there, err := s.at(ctx, g.cfg.Range.Start)
	if err != nil {
		return row{}, err
	}
	if there && own.token == g.token && own.span == g.cfg.Range {
		if own.released {
			return row{}, &StaleError{Table: g.cfg.Table, Own: g.token, Found: own.token, Holder: own.owner.Session, Released: true}
		}
		return own, nil
	}
	return row{}, g.stale(ctx, s)
}

// stale names the highest token that took (part of) the range.
func (g *Guard) stale(ctx context.Context, s store) error {
	rows, err := s.overlapping(ctx, g.cfg.Range)
	if err != nil {
		return err
	}
	e := &StaleError{Table: g.cfg.Table, Own: g.token}
	for _, r := range rows {
		if r.token.Compare(e.Found) > 0 {
			e.Found, e.Holder = r.token, r.owner.Session
		}
	}
	return e
}

func (g *Guard) settle(ctx context.Context, s store, own row, effect Effect) error {
	switch {
	case effect.Release:
		return s.setResume(ctx, own.span.Start, Position{}, true)
	case effect.Resume == nil:
		return nil
	case effect.Resume.Compare(own.resume) < 0:
		return fmt.Errorf("resume position of %s would go back from %d/%d to %d/%d",
			g.cfg.Table, own.resume.TS, own.resume.Stage, effect.Resume.TS, effect.Resume.Stage)
	default:
		return s.setResume(ctx, own.span.Start, *effect.Resume, false)
	}
}

func (g *Guard) tell(err error, claim bool) {
	e, stale := errors.AsType[*StaleError](err)
	if stale && g.cfg.OnRefused != nil {
		g.cfg.OnRefused(Refusal{Table: g.cfg.Table, Range: g.cfg.Range, Own: e.Own, Found: e.Found, Holder: e.Holder, Claim: claim})
	}
}

// transact runs fn inside a transaction. Begin and commit are plain statements: database/sql's own transactions end in a
// goroutine of their own when a context does, and a caller that was told so could not know whether the lock is gone.
func (g *Guard) transact(ctx context.Context, allow func() error, fn func(context.Context, store) error) error {
	conn, err := g.cfg.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// Close hands the connection back; after a commit its error must not make the write look failed.
	defer func() { _ = conn.Close() }()
	if err := g.cfg.Begin(ctx, conn); err != nil {
		abandon(ctx, conn)
		return fmt.Errorf("begin: %w", err)
	}
	s := store{tx: conn, dialect: g.cfg.Dialect, table: g.cfg.Table}
	if err := run(ctx, s, allow, fn); err != nil {
		abandon(ctx, conn)
		return err
	}
	// The commit ignores the context: cut off in the middle, its outcome would be unknown for no gain.
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		abandon(ctx, conn)
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func run(ctx context.Context, s store, allow func() error, fn func(context.Context, store) error) error {
	if err := allow(); err != nil {
		return err
	}
	if err := fn(ctx, s); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return allow()
}

// abandon rolls back; a connection that cannot is thrown away, which ends its transaction.
func abandon(ctx context.Context, conn *sql.Conn) {
	if _, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err == nil {
		return
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // returns the very error that makes the pool drop it
}
