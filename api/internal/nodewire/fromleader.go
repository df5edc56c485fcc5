package nodewire

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// FromLeader spells a message of the leader.
func FromLeader(m session.FromLeader) (*weirv1.SessionResponse, error) {
	switch {
	case m.Ack != nil:
		a := &weirv1.Ack{Seq: m.Ack.Seq, Term: m.Ack.Term, Index: m.Ack.Index, ElapsedNs: m.Ack.ElapsedNS}
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_Ack{Ack: a}}, nil
	case m.Orders != nil:
		o := &weirv1.Orders{
			Term: m.Orders.Term, Index: m.Orders.Index, Orders: every(m.Orders.Orders, fromOrder), More: m.Orders.More,
			Barriers: every(m.Orders.Barriers, fromBarrierOrder),
		}
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_Orders{Orders: o}}, nil
	case m.ReportAck != nil:
		r := &weirv1.ReportAck{
			Term: m.ReportAck.Term, Index: m.ReportAck.Index, Pairs: every(m.ReportAck.Pairs, fromReported),
		}
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_ReportAck{ReportAck: r}}, nil
	case m.Barrier != nil:
		a, err := fromBarrierAnswer(m.Barrier)
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_BarrierAnswer{BarrierAnswer: a}}, err
	case m.AskBarriers != nil:
		a := &weirv1.AskBarriers{Key: fromKey(m.AskBarriers.Key)}
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_AskBarriers{AskBarriers: a}}, nil
	case m.AskList != nil:
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_AskList{AskList: &weirv1.AskList{}}}, nil
	case m.Close != nil:
		c := &weirv1.Close{Reason: m.Close.Reason, Text: m.Close.Text, Leader: m.Close.Leader}
		return &weirv1.SessionResponse{Message: &weirv1.SessionResponse_Close{Close: c}}, nil
	default:
		return nil, errEmpty
	}
}

// ToLeader reads a message of the leader.
func ToLeader(m *weirv1.SessionResponse) (session.FromLeader, error) {
	switch x := m.GetMessage().(type) {
	case *weirv1.SessionResponse_Ack:
		return session.FromLeader{Ack: &session.Ack{
			Seq: x.Ack.GetSeq(), Term: x.Ack.GetTerm(), Index: x.Ack.GetIndex(), ElapsedNS: x.Ack.GetElapsedNs(),
		}}, nil
	case *weirv1.SessionResponse_Orders:
		orders, err := toOrders(x.Orders)
		return session.FromLeader{Orders: orders}, err
	case *weirv1.SessionResponse_ReportAck:
		pairs, err := each(x.ReportAck.GetPairs(), toReported)
		return session.FromLeader{ReportAck: &session.ReportAck{
			Term: x.ReportAck.GetTerm(), Index: x.ReportAck.GetIndex(), Pairs: pairs,
		}}, err
	case *weirv1.SessionResponse_BarrierAnswer:
		answer, err := toBarrierAnswer(x.BarrierAnswer)
		return session.FromLeader{Barrier: answer}, err
	case *weirv1.SessionResponse_AskBarriers:
		key, err := toKey(x.AskBarriers.GetKey())
		return session.FromLeader{AskBarriers: &session.AskBarriers{Key: key}}, err
	case *weirv1.SessionResponse_AskList:
		return session.FromLeader{AskList: &session.AskList{}}, nil
	case *weirv1.SessionResponse_Close:
		return session.FromLeader{Close: &session.Close{
			Reason: x.Close.GetReason(), Text: x.Close.GetText(), Leader: x.Close.GetLeader(),
		}}, nil
	default:
		return session.FromLeader{}, errEmpty
	}
}

func toOrders(o *weirv1.Orders) (*session.Orders, error) {
	orders, err := each(o.GetOrders(), toOrder)
	if err != nil {
		return nil, err
	}
	barriers, err := each(o.GetBarriers(), toBarrierOrder)
	return &session.Orders{
		Term: o.GetTerm(), Index: o.GetIndex(), Orders: orders, Barriers: barriers, More: o.GetMore(),
	}, err
}

func fromOrder(o fsm.Order) *weirv1.Order {
	out := &weirv1.Order{
		Kind: weirv1.OrderKind(o.Kind), Dispatcher: uint64(o.Dispatcher), Epoch: uint64(o.Epoch), Operator: uint64(o.Operator),
	}
	if o.Kind == fsm.OrderStart {
		w := &o.Work
		out.Work = &weirv1.Work{
			Changefeed: w.Changefeed, Run: w.Run, Source: w.Source, Sink: w.Sink, SinkFenced: w.SinkFenced,
			SinkMaxWriteMs: w.SinkMaxWriteMS, Schema: w.Schema, Table: w.Table, TableId: int64(w.TableID),
			Span: FromSpan(w.Span), Start: FromPosition(w.Start), ChangefeedId: uint64(w.ChangefeedID), Trigger: w.Trigger,
			SyncPointEvery: w.SyncPointEvery, SyncPointAfter: FromPosition(w.SyncPointAfter),
		}
	}
	return out
}

func toOrder(o *weirv1.Order) (fsm.Order, error) {
	out := fsm.Order{
		Dispatcher: fsm.DispatcherID(o.GetDispatcher()), Epoch: fsm.Epoch(o.GetEpoch()), Operator: fsm.OpID(o.GetOperator()),
	}
	switch o.GetKind() {
	case weirv1.OrderKind_ORDER_KIND_STOP:
		out.Kind = fsm.OrderStop
		return out, nil
	case weirv1.OrderKind_ORDER_KIND_START:
		out.Kind = fsm.OrderStart
	case weirv1.OrderKind_ORDER_KIND_UNSPECIFIED:
		fallthrough
	default:
		return out, fmt.Errorf("order has the unknown kind %d", o.GetKind())
	}
	if o.GetWork() == nil {
		return out, fmt.Errorf("start of dispatcher %d says nothing about its work", o.GetDispatcher())
	}
	start, err := ToPosition(o.GetWork().GetStart())
	after, afterErr := ToPosition(o.GetWork().GetSyncPointAfter())
	w := o.GetWork()
	out.Work = fsm.Work{
		Changefeed: w.GetChangefeed(), Run: w.GetRun(), Source: w.GetSource(), Sink: w.GetSink(), SinkFenced: w.GetSinkFenced(),
		SinkMaxWriteMS: w.GetSinkMaxWriteMs(), Schema: w.GetSchema(), Table: w.GetTable(), TableID: fsm.TableID(w.GetTableId()),
		Span: ToSpan(w.GetSpan()), Start: start, ChangefeedID: fsm.ChangefeedID(w.GetChangefeedId()), Trigger: w.GetTrigger(),
		SyncPointEvery: w.GetSyncPointEvery(), SyncPointAfter: after,
	}
	return out, errors.Join(err, afterErr)
}

func fromReported(p session.ReportedPair) *weirv1.ReportedPair {
	return &weirv1.ReportedPair{Pair: fromPair(p.Pair), What: weirv1.ReportKind(p.What)}
}

func toReported(p *weirv1.ReportedPair) (session.ReportedPair, error) {
	what, err := toReportKind(p.GetWhat())
	return session.ReportedPair{Pair: toPair(p.GetPair()), What: what}, err
}
