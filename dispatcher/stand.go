package dispatcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// stop is an event that the dispatcher has read up to: it writes nothing beyond it before it has passed.
type stop struct {
	key   fsm.BarrierKey
	event *Event // nil for a sync point
}

func (s *stop) spec() fsm.BarrierSpec {
	if s.event == nil {
		return fsm.SyncPointSpec()
	}
	return s.event.Spec
}

func (w *worker) key(at fsm.Position) fsm.BarrierKey {
	return fsm.BarrierKey{Changefeed: w.order.Work.ChangefeedID, Run: w.order.Work.Run, At: at}
}

// meet sets the stop that comes before a transaction, or that the transaction is. It says whether the transaction has
// been dealt with so far: kept for later, or gone.
//
// Every event after the ordered start is met, also one before the sink's resume point: what the sink has of it says
// nothing about what the state machine knows.
func (w *worker) meet(tx *Transaction) bool {
	work := &w.order.Work
	if at, any := fsm.NextSyncPoint(work.SyncPointEvery, w.met.Max(work.SyncPointAfter)); any && at.Less(tx.Position) {
		w.held = tx
		w.halt(&stop{key: w.key(at)})
		return true
	}
	if tx.Event == nil || !w.met.Less(tx.Position) {
		return false
	}
	w.halt(&stop{key: w.key(tx.Position), event: tx.Event})
	return true
}

// halt has everything before the stop written, and that there is nothing else before it.
func (w *worker) halt(s *stop) {
	w.event = s
	w.reach(s.key.Before())
}

// reach has it noted at the sink that nothing is missing up to a position.
func (w *worker) reach(at fsm.Position) {
	if n := len(w.pending); w.sunk.Less(at) && (n == 0 || w.pending[n-1].Position.Less(at)) {
		w.pending = append(w.pending, Transaction{Position: at})
	}
}

// stand waits at the stop until the event has been written, by this dispatcher if it is told to, and the
// acknowledgement allows it to go on.
func (w *worker) stand(hard, soft context.Context) *ending {
	w.walked(w.event.key.Before())
	st := w.life.join(w)
	w.tell(EventWaiting, st.key, 0, false)
	for {
		select {
		case <-soft.Done():
			return stopped()
		case <-st.news:
		}
		state, p, ordered := w.life.standing(st)
		switch {
		case ordered:
			if end := w.writeEvent(hard, soft, st, p); end != nil {
				return end
			}
			if w.event == nil { // the source is being read again
				w.life.leave(st)
				return nil
			}
		case state == StandPast:
			w.life.leave(st)
			w.pass(st.key)
			return nil
		case state == StandForgotten:
			return failed(ReasonForgotten, "the state machine knows no event at "+st.key.At.String()+" of changefeed "+
				w.order.Work.Changefeed+" in this run; the dispatcher is placed again from where it stands")
		}
	}
}

// pass goes on beyond an event.
func (w *worker) pass(key fsm.BarrierKey) {
	w.tell(EventPassed, key, 0, false)
	w.met, w.event = key.At, nil
	w.walked(key.At)
	w.reach(key.At)
}

// walked notes that everything up to a position is downstream, and every event up to it passed.
func (w *worker) walked(to fsm.Position) {
	if w.position().Less(to) {
		w.note(func(s *WorkerStatus) { s.Position = to })
	}
}

// writeEvent writes the event at which the dispatcher stands, and has it said how that went.
func (w *worker) writeEvent(hard, soft context.Context, st *stand, p permission) *ending {
	said, end := w.tryEvent(hard, soft, p)
	w.life.wrote(st, said)
	return end
}

// tryEvent makes the call until it is known how it went, or until the placement ends. A call that may have taken effect
// is repeated: the record at the sink then tells.
func (w *worker) tryEvent(hard, soft context.Context, p permission) (fsm.BarrierSaid, *ending) {
	said := fsm.SaidNotBegun
	for {
		if end := w.ready(hard, soft); end != nil || w.event == nil {
			return said, end
		}
		ddl, recorded := w.ddl(p), false
		c := w.call(hard, SinkCall{Kind: CallEvent, Event: w.event.key, Permission: p.number}, func(ctx context.Context, a *attempt) error {
			var err error
			recorded, err = w.writer.WriteDDL(ctx, ddl, a.allow)
			return err
		})
		if c.result == resultDone {
			w.failures = 0
			w.tell(EventWritten, w.event.key, p.number, recorded)
			return fsm.SaidWritten, nil
		}
		if c.outcome == CallUnknown {
			said = fsm.SaidUnknown
		}
		if _, refused := errors.AsType[*StopError](c.err); refused {
			said = fsm.SaidNotBegun
		}
		if end := w.after(soft, CallEvent, c); end != nil {
			return said, end
		}
	}
}

// ready brings the dispatcher to where it may make a call about its event: under a claim of the present opening of the
// gate. The event is gone when the source has to be read again.
func (w *worker) ready(hard, soft context.Context) *ending {
	for soft.Err() == nil && w.event != nil {
		if w.opening != 0 && w.opening == w.life.gate.State().Opening {
			if w.awaitEffect(soft) == nil {
				return nil
			}
			break
		}
		if end := w.claim(hard, soft); end != nil {
			return end
		}
	}
	if soft.Err() != nil {
		return stopped()
	}
	return nil
}

// ddl is what the sink has to do. An event that is about nothing that the changefeed replicates leaves its record alone.
func (w *worker) ddl(p permission) DDL {
	work := &w.order.Work
	ddl := DDL{Key: DDLKey{Changefeed: work.Changefeed, Run: work.Run, Position: w.event.key.At}}
	if w.event.event == nil {
		return ddl
	}
	ddl.Change, ddl.Statement = w.event.event.Change, w.event.event.Statement
	for _, ref := range p.tables {
		ddl.Tables = append(ddl.Tables, TableName(ref))
	}
	if len(p.tables) == 0 && len(w.event.event.Spec.Add) == 0 && !ddl.Change.Creates {
		ddl.Change = schema.Change{Kind: schema.KindNothing}
	}
	return ddl
}

// tell leaves evidence.
func (w *worker) tell(kind EventKind, key fsm.BarrierKey, permission uint64, recorded bool) {
	n := w.life.node
	if n.cfg.Ledger == nil {
		return
	}
	n.cfg.Ledger.Event(EventNote{
		Kind: kind, Node: n.cfg.Node, Incarnation: w.life.inc, Dispatcher: w.pair.Dispatcher, Epoch: w.pair.Epoch,
		Changefeed: w.order.Work.Changefeed, Key: key, Permission: permission, Recorded: recorded, At: n.cfg.Clock.Now(),
	})
}

// troubleText says what a person has to know of a report that is not taken.
func troubleText(st *stand) string {
	what := "does not fit the changefeed: look at its distance of sync points, and at the event in the source"
	if st.trouble == fsm.SpecMismatch {
		what = "is not the event that others report there: run one build of the source everywhere, over one log"
	}
	return fmt.Sprintf("%v: the event at %v %s", st.trouble, st.key.At, what)
}
