package server

import (
	"fmt"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// The enums of weir.v1 have the numbers of the state machine's; a test compares them word by word.

func changefeedRow(f fsm.Changefeed) *weirv1.Changefeed {
	return &weirv1.Changefeed{
		Id: uint64(f.ID), Name: f.Name, Status: weirv1.ChangefeedStatus(f.Status), Source: f.Source, Sink: f.Sink,
		SinkFenced: f.SinkFenced, SinkMaxWriteMs: f.SinkMaxWriteMS, Start: nodewire.FromPosition(f.Start), Run: f.Run,
		CreatedAt: f.CreatedAt, SyncPointEvery: f.SyncPointEvery, Trigger: uint64(f.Trigger),
		Watermark: nodewire.FromPosition(f.Watermark), WatermarkAt: f.WatermarkAt, StatusAt: f.StatusAt, StatusBy: f.StatusBy,
		Reason: f.Reason, Detail: f.Detail, FailedBy: uint64(f.FailedBy),
	}
}

// watermarkHold is what in the state keeps a changefeed's watermark from going further; nil if nothing does.
func watermarkHold(view *fsm.View, feed fsm.Changefeed) *weirv1.WatermarkHold {
	at, holder := view.CheckpointBound(feed)
	hold := &weirv1.WatermarkHold{
		At: nodewire.FromPosition(at), Dispatcher: uint64(holder.Dispatcher), Node: string(holder.Node),
		Incarnation: uint64(holder.Incarnation), Operator: uint64(holder.Operator),
	}
	if holder.Dispatcher != 0 {
		hold.Text = fmt.Sprintf("dispatcher %d, which is %s at %s; see why with: weir dispatcher explain %d", holder.Dispatcher, holder.Detail, at, holder.Dispatcher)
		if holder.Dispatcher == feed.Trigger {
			hold.Text = "the trigger, " + hold.GetText()
		}
		return hold
	}
	for b := range view.Barriers(feed.ID) {
		hold.Barrier = nodewire.FromPosition(b.Key.At)
		hold.Text = fmt.Sprintf("the event at %s, which is %s; see why with: weir barrier get %s %s", b.Key.At, b.Status, feed.Name, b.Key.At)
		return hold
	}
	return nil
}

func tableRow(feed fsm.Changefeed, t fsm.Table, dispatchers uint32) *weirv1.Table {
	return &weirv1.Table{
		Id: int64(t.ID), Changefeed: feed.Name, Schema: t.Schema, Name: t.Name, Dropping: t.Dropping,
		CreatedAt: t.CreatedAt, Dispatchers: dispatchers,
	}
}

func (s *Server) dispatcherRow(view *fsm.View, d fsm.Dispatcher) *weirv1.Dispatcher {
	table, _ := view.Table(d.Table)
	feed, _ := view.ChangefeedByID(table.Changefeed)
	out := &weirv1.Dispatcher{
		Id: uint64(d.ID), Changefeed: feed.Name, Schema: table.Schema, Table: table.Name, TableId: int64(table.ID),
		Span: nodewire.FromSpan(d.Span), Phase: weirv1.Phase(d.Phase), Incarnation: uint64(d.Incarnation),
		Epoch: uint64(d.Epoch), Operator: uint64(d.Slot), Position: nodewire.FromPosition(d.Position),
		PlacedAt: d.PlacedAt, PhaseAt: d.PhaseAt, PhaseMs: d.PhaseMS, Failures: d.Failures,
		Trigger: table.Trigger, Waits: d.Waits, Leaving: d.Leaving,
	}
	if node, ok := view.NodeOf(d.Incarnation); ok {
		out.Node = string(node.Name)
	}
	if d.Phase == fsm.Absent {
		if holder, held := view.HeldBy(d); held {
			out.HeldBy = uint64(holder.ID)
		}
	}
	// What was heard of another placement says nothing about this one.
	if p, ok := s.progress(d.ID); ok && p.GetEpoch() == uint64(d.Epoch) {
		out.Progress = p
	}
	return out
}

func (s *Server) progress(id fsm.DispatcherID) (*weirv1.Progress, bool) {
	if s.config.Soft == nil {
		return nil, false
	}
	p, ok := s.config.Soft.Progress(id)
	if !ok {
		return nil, false
	}
	return nodewire.FromProgress(p), true
}

func recordRow(r fsm.PlacementRecord) *weirv1.PlacementRecord {
	return &weirv1.PlacementRecord{
		Seq: r.Seq, Epoch: uint64(r.Epoch), Node: string(r.Node), Incarnation: uint64(r.Incarnation), HasRun: r.HasRun,
		PlacedAt: r.PlacedAt, EndedAt: r.EndedAt, EndedMs: r.EndedMS, WallMs: r.WallMS, Reason: r.Reason, Detail: r.Detail,
		Position: nodewire.FromPosition(r.Position),
	}
}

func operatorRow(view *fsm.View, o fsm.Operator) *weirv1.Operator {
	row := &weirv1.Operator{
		Id: uint64(o.ID), Kind: weirv1.OperatorKind(o.Kind), Dispatcher: uint64(o.Dispatcher), Changefeed: o.Changefeed,
		Table: o.Table, From: string(o.From), FromIncarnation: uint64(o.FromIncarnation), To: string(o.To),
		ToIncarnation: uint64(o.ToIncarnation), Epoch: uint64(o.Epoch), Aborting: o.Aborting, Drop: o.Drop, By: o.By,
		Since: o.Since, SinceMs: o.SinceMS, Result: weirv1.OperatorResult(o.Result), Reason: o.Reason, Detail: o.Detail,
		Ended: o.Ended, EndedMs: o.EndedMS, ReplacedBy: uint64(o.ReplacedBy), WaitsFor: waitsFor(view, o), Moved: o.Moved,
		DeadlineMs: o.DeadlineMS, StuckAt: o.StuckAt,
	}
	for _, span := range o.Spans {
		row.Spans = append(row.Spans, nodewire.FromSpan(span))
	}
	for _, t := range o.Targets {
		row.Targets = append(row.Targets, &weirv1.OperatorTarget{Node: string(t.Node), Incarnation: uint64(t.Incarnation)})
	}
	for _, id := range o.Sources {
		row.Sources = append(row.Sources, uint64(id))
	}
	for _, id := range o.Made {
		row.Made = append(row.Made, uint64(id))
	}
	return row
}

// waitsFor says who has to do what before a running operator goes on.
func waitsFor(view *fsm.View, o fsm.Operator) string {
	if o.Result != 0 {
		return ""
	}
	d, ok := view.WaitsFor(o)
	if !ok || d.Phase == fsm.Absent || d.Phase == fsm.Running {
		return ""
	}
	node, _ := view.NodeOf(d.Incarnation)
	what := "stop"
	if d.Phase == fsm.Starting {
		what = "start"
	}
	text := fmt.Sprintf("node %s to %s dispatcher %d under epoch %s", node.Name, what, d.ID, d.Epoch)
	if node.Status == fsm.NodeStatusFenced {
		text += ", or to expire (it is fenced)"
	}
	return text
}

func (s *Server) nodeRow(view *fsm.View, n fsm.Node) *weirv1.Node {
	out := &weirv1.Node{
		Name: string(n.Name), Incarnation: uint64(n.Incarnation), Status: weirv1.NodeStatus(n.Status), Address: n.Address,
		LeaseMs: n.LeaseMS, ClockClass: uint32(n.ClockClass), Protocol: n.Protocol, BootId: n.BootID, LastTick: n.LastTick,
		RegisteredAt: n.RegisteredAt, RegisteredMs: n.RegisteredMS, FenceWhy: n.FenceWhy,
		Placements: view.Load(n.Incarnation).Placements, EndedAt: n.EndedAt, Drain: drainRow(view, n),
	}
	if s.config.Soft == nil {
		return out
	}
	if l, ok := s.config.Soft.Lease(n.Incarnation); ok {
		out.Lease = &weirv1.Lease{
			HeardAgeMs: uint64(max(l.HeardAge, 0).Milliseconds()), Named: l.Named, GateOpen: l.GateOpen,
			GateReason: l.GateReason, SetHashEqual: l.SetHashEqual,
		}
	}
	return out
}

func digestRow(d fsm.Digest) *weirv1.Digest { return &weirv1.Digest{A: d.A, B: d.B} }
