package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence/sqltoken"
	"github.com/weir-project/weir/fsm"
)

// writer writes one span; see [dispatcher.SpanWriter].
type writer struct {
	cfg    Config
	files  *files
	file   *file
	spec   dispatcher.SinkSpec
	table  string // name at the sink
	ledger bool
	guard  *sqltoken.Guard

	running sync.WaitGroup // the call that is under way

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc // of the call that is under way
}

var _ dispatcher.SpanWriter = (*writer)(nil)

// begin starts a call; end must be called when it is over.
func (w *writer) begin(ctx context.Context) (call context.Context, end func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, nil, ErrClosed
	}
	call, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	w.running.Add(1)
	return call, func() { cancel(); w.running.Done() }, nil
}

// Close makes a running call return and waits for it: SQLite writes in this process, so when no call runs, nothing can
// reach the file.
func (w *writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.closed = true
	if w.cancel != nil {
		w.cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
	return w.files.release(w.file)
}

// prepare runs in the transaction of each claim.
func (w *writer) prepare(ctx context.Context, tx sqltoken.Tx) error {
	for _, statement := range []string{createTables, createColumns, createDDL, createSyncPoints} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create the sink's own tables: %w", err)
		}
	}
	if !w.spec.Trigger {
		if err := register(ctx, tx, w.table, w.spec.Table); err != nil {
			return err
		}
	}
	return w.prepareLedger(ctx, tx)
}

// Claim takes the span; see [dispatcher.SpanWriter].
func (w *writer) Claim(ctx context.Context, token dispatcher.Token, start fsm.Position, allow func() error) (fsm.Position, error) {
	call, end, err := w.begin(ctx)
	if err != nil {
		return fsm.Position{}, err
	}
	defer end()
	resume, err := w.guard.Claim(call, sqltoken.Token{Epoch: uint64(token.Epoch), Claim: token.Claim}, toGuard(start), allow)
	if err != nil {
		return fsm.Position{}, w.refuse(err)
	}
	return fromGuard(resume), nil
}

// Write applies a batch; see [dispatcher.SpanWriter].
func (w *writer) Write(ctx context.Context, batch dispatcher.Batch, allow func() error) error {
	event := WriteEvent{Op: OpWrite, Rows: len(batch.Changes), Resume: batch.Resume}
	if w.spec.Trigger && len(batch.Changes) > 0 {
		return errors.New("sqlite: a trigger writes no rows")
	}
	return w.guarded(ctx, &event, allow, func(ctx context.Context, tx sqltoken.Tx) (sqltoken.Effect, error) {
		if err := apply(ctx, tx, w.table, batch.Changes); err != nil {
			return sqltoken.Effect{}, err
		}
		resume := toGuard(batch.Resume)
		return sqltoken.Effect{Resume: &resume}, nil
	})
}

// WriteDDL makes a schema change, or records a sync point, once; see [dispatcher.SpanWriter].
func (w *writer) WriteDDL(ctx context.Context, ddl dispatcher.DDL, allow func() error) (done bool, err error) {
	event := WriteEvent{Op: OpDDL, Resume: ddl.Key.Position}
	err = w.guarded(ctx, &event, allow, func(ctx context.Context, tx sqltoken.Tx) (sqltoken.Effect, error) {
		e := ddlEvent{tx: tx, spec: &w.spec, token: w.guard.Token(), ddl: &ddl}
		if done, err = e.run(ctx); done {
			event.Op = OpDDLKnown
		}
		return sqltoken.Effect{}, err
	})
	return done && err == nil, err
}

// Delete removes the rows of the span and gives the span up; see [dispatcher.SpanWriter]. A trigger's are the records of
// its changefeed's events.
func (w *writer) Delete(ctx context.Context, allow func() error) error {
	event := WriteEvent{Op: OpDelete}
	return w.guarded(ctx, &event, allow, func(ctx context.Context, tx sqltoken.Tx) (sqltoken.Effect, error) {
		if w.spec.Trigger {
			return sqltoken.Effect{Release: true}, deleteRecords(ctx, tx, w.spec.Cluster, w.spec.Changefeed)
		}
		rows, err := deleteSpan(ctx, tx, w.table, w.spec.Span)
		event.Rows = rows
		return sqltoken.Effect{Release: true}, err
	})
}

// guarded runs fn under the guard, with its line in the ledger, and tells about it.
func (w *writer) guarded(ctx context.Context, event *WriteEvent, allow func() error, fn func(context.Context, sqltoken.Tx) (sqltoken.Effect, error)) error {
	call, end, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = w.guard.Guarded(call, allow, func(ctx context.Context, tx sqltoken.Tx) (sqltoken.Effect, error) {
		effect, err := fn(ctx, tx)
		if err != nil {
			return sqltoken.Effect{}, err
		}
		return effect, w.enter(ctx, tx, event)
	})
	if err != nil {
		err = w.refuse(err)
	}
	if w.cfg.OnWrite != nil {
		event.Table, event.Span, event.Token, event.Err = w.spec.Table, w.spec.Span, w.token(), err
		w.cfg.OnWrite(*event)
	}
	return err
}

func (w *writer) token() dispatcher.Token {
	t := w.guard.Token()
	return dispatcher.Token{Epoch: fsm.Epoch(t.Epoch), Claim: t.Claim}
}

// refuse translates the guard's and the driver's errors.
func (w *writer) refuse(err error) error {
	if e, ok := errors.AsType[*sqltoken.StaleError](err); ok {
		return &dispatcher.FencedError{
			Own:    dispatcher.Token{Epoch: fsm.Epoch(e.Own.Epoch), Claim: e.Own.Claim},
			Found:  dispatcher.Token{Epoch: fsm.Epoch(e.Found.Epoch), Claim: e.Found.Claim},
			Table:  w.spec.Table,
			Holder: e.Holder,
		}
	}
	if e, ok := errors.AsType[*sqltoken.OtherOwnerError](err); ok {
		return &dispatcher.ClaimedByOtherError{
			Table: w.spec.Table, Cluster: e.Owner.Cluster, Changefeed: e.Owner.Changefeed, URI: w.spec.URI,
		}
	}
	if stop, ok := errors.AsType[*dispatcher.StopError](err); ok {
		return stop
	}
	return explain(w.file.path, err)
}

func toGuard(p fsm.Position) sqltoken.Position {
	return sqltoken.Position{TS: p.TS, Stage: uint8(p.Stage)}
}

func fromGuard(p sqltoken.Position) fsm.Position {
	return fsm.Position{TS: p.TS, Stage: fsm.Stage(p.Stage)}
}
