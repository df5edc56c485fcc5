package nodewire

import (
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// FromNode spells a message of a node.
func FromNode(m session.FromNode) (*weirv1.SessionRequest, error) {
	switch {
	case m.Hello != nil:
		return &weirv1.SessionRequest{Message: &weirv1.SessionRequest_Hello{Hello: fromHello(m.Hello)}}, nil
	case m.Heartbeat != nil:
		return &weirv1.SessionRequest{Message: &weirv1.SessionRequest_Heartbeat{Heartbeat: fromHeartbeat(m.Heartbeat)}}, nil
	case m.Report != nil:
		r := &weirv1.Report{Reports: every(m.Report.Reports, fromReport)}
		return &weirv1.SessionRequest{Message: &weirv1.SessionRequest_Report{Report: r}}, nil
	case m.Barrier != nil:
		b := fromBarrierReports(m.Barrier)
		return &weirv1.SessionRequest{Message: &weirv1.SessionRequest_BarrierReports{BarrierReports: b}}, nil
	case m.List != nil:
		l := &weirv1.PairList{Pairs: every(m.List.Pairs, fromPair)}
		return &weirv1.SessionRequest{Message: &weirv1.SessionRequest_List{List: l}}, nil
	default:
		return nil, errEmpty
	}
}

// ToNode reads a message of a node.
func ToNode(m *weirv1.SessionRequest) (session.FromNode, error) {
	switch x := m.GetMessage().(type) {
	case *weirv1.SessionRequest_Hello:
		return session.FromNode{Hello: toHello(x.Hello)}, nil
	case *weirv1.SessionRequest_Heartbeat:
		h, err := toHeartbeat(x.Heartbeat)
		return session.FromNode{Heartbeat: h}, err
	case *weirv1.SessionRequest_Report:
		reports, err := each(x.Report.GetReports(), toReport)
		return session.FromNode{Report: &session.Report{Reports: reports}}, err
	case *weirv1.SessionRequest_BarrierReports:
		reports, err := toBarrierReports(x.BarrierReports)
		return session.FromNode{Barrier: reports}, err
	case *weirv1.SessionRequest_List:
		return session.FromNode{List: &session.List{Pairs: every(x.List.GetPairs(), toPair)}}, nil
	default:
		return session.FromNode{}, errEmpty
	}
}

func fromHello(h *session.Hello) *weirv1.Hello {
	return &weirv1.Hello{
		Cluster: h.Cluster, Node: string(h.Node), Incarnation: uint64(h.Incarnation), Protocol: h.Protocol,
	}
}

func toHello(h *weirv1.Hello) *session.Hello {
	return &session.Hello{
		Cluster: h.GetCluster(), Node: fsm.NodeName(h.GetNode()), Incarnation: fsm.Incarnation(h.GetIncarnation()),
		Protocol: h.GetProtocol(),
	}
}

func fromHeartbeat(h *session.Heartbeat) *weirv1.Heartbeat {
	return &weirv1.Heartbeat{
		Seq: h.Seq, GateOpen: h.GateOpen, GateReason: h.GateReason, NewestAck: h.NewestAck, OrdersTerm: h.OrdersTerm,
		OrdersIndex: h.OrdersIndex, SetHash: h.SetHash, Dispatchers: h.Dispatchers,
		HighestGeneration: uint64(h.HighestGeneration), Progress: every(h.Progress, FromProgress),
		Crews: every(h.Crews, fromCrew),
	}
}

func fromCrew(c session.Crew) *weirv1.Crew {
	return &weirv1.Crew{ChangefeedId: uint64(c.Changefeed), SetHash: c.SetHash, Minimum: FromPosition(c.Minimum)}
}

func toCrew(c *weirv1.Crew) (session.Crew, error) {
	at, err := ToPosition(c.GetMinimum())
	return session.Crew{Changefeed: fsm.ChangefeedID(c.GetChangefeedId()), SetHash: c.GetSetHash(), Minimum: at}, err
}

func toHeartbeat(h *weirv1.Heartbeat) (*session.Heartbeat, error) {
	progress, err := each(h.GetProgress(), toProgress)
	if err != nil {
		return nil, err
	}
	crews, err := each(h.GetCrews(), toCrew)
	return &session.Heartbeat{
		Seq: h.GetSeq(), GateOpen: h.GetGateOpen(), GateReason: h.GetGateReason(), NewestAck: h.GetNewestAck(),
		OrdersTerm: h.GetOrdersTerm(), OrdersIndex: h.GetOrdersIndex(), SetHash: h.GetSetHash(),
		Dispatchers: h.GetDispatchers(), HighestGeneration: fsm.Generation(h.GetHighestGeneration()), Progress: progress,
		Crews: crews,
	}, err
}

func fromReport(r fsm.PlacementReport) *weirv1.PlacementReport {
	return &weirv1.PlacementReport{
		Placement: FromStopped(r.PlacementPosition), What: weirv1.ReportKind(r.What), Reason: r.Reason, Detail: r.Detail,
		Fatal: r.Fatal,
	}
}

func toReport(r *weirv1.PlacementReport) (fsm.PlacementReport, error) {
	what, err := toReportKind(r.GetWhat())
	if err != nil {
		return fsm.PlacementReport{}, err
	}
	at, err := ToStopped(r.GetPlacement())
	return fsm.PlacementReport{
		PlacementPosition: at, What: what, Reason: r.GetReason(), Detail: r.GetDetail(), Fatal: r.GetFatal(),
	}, err
}

func toReportKind(k weirv1.ReportKind) (fsm.ReportKind, error) {
	if k <= weirv1.ReportKind_REPORT_KIND_UNSPECIFIED || k > weirv1.ReportKind_REPORT_KIND_START_FAILED {
		return 0, fmt.Errorf("report has the unknown kind %d", k)
	}
	return fsm.ReportKind(k), nil
}

func fromPair(p session.Pair) *weirv1.Pair {
	return &weirv1.Pair{Dispatcher: uint64(p.Dispatcher), Epoch: uint64(p.Epoch)}
}

func toPair(p *weirv1.Pair) session.Pair {
	return session.Pair{Dispatcher: fsm.DispatcherID(p.GetDispatcher()), Epoch: fsm.Epoch(p.GetEpoch())}
}
