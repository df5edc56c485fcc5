package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

const (
	defaultMissing = 20
	maxMissing     = 1000
)

// ListBarriers implements weir.v1.
func (s *Server) ListBarriers(
	ctx context.Context, req *weirv1.ListBarriersRequest,
) (*weirv1.ListBarriersResponse, error) {
	words := []string{"barriers", req.GetChangefeed()}
	if req.GetEnded() {
		words[0] = "ended barriers"
	}
	filters := filtersOf(words...)
	after, first, err := parsePage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	if !first && len(after) != barrierPageBytes {
		return nil, malformed("page_token", "is not one that a list has given")
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	only := fsm.ChangefeedID(0)
	if name := req.GetChangefeed(); name != "" {
		feed, err := feedNamed(view, name)
		if err != nil {
			return nil, err
		}
		only = feed.ID
	}
	resp, size, last := &weirv1.ListBarriersResponse{Header: header}, pageSize(req.GetPageSize()), ""
	for b := range barriersOf(view, req.GetEnded(), only) {
		key := barrierPage(b, req.GetEnded())
		if !first && key <= after {
			continue
		}
		if len(resp.GetBarriers()) == size {
			resp.NextPageToken = pageToken{filters: filters, after: last}.String()
			break
		}
		resp.Barriers = append(resp.Barriers, barrierRow(view, b))
		last = key
	}
	return resp, nil
}

// barriersOf yields the open barriers in key order, or the ended ones, newest first; of one changefeed, or of all (0).
func barriersOf(view *fsm.View, ended bool, only fsm.ChangefeedID) iter.Seq[fsm.Barrier] {
	all := view.BarrierRecords()
	if !ended {
		all = openBarriers(view)
	}
	return func(yield func(fsm.Barrier) bool) {
		for b := range all {
			if (only == 0 || only == b.Key.Changefeed) && !yield(b) {
				return
			}
		}
	}
}

func openBarriers(view *fsm.View) iter.Seq[fsm.Barrier] {
	return func(yield func(fsm.Barrier) bool) {
		for feed := range view.Changefeeds() {
			for b := range view.Barriers(feed.ID) {
				if !yield(b) {
					return
				}
			}
		}
	}
}

const barrierPageBytes = 4 * 8

// barrierPage is a barrier's place in a list: its key, or, for ended ones, how new it is. Places sort as the list does.
func barrierPage(b fsm.Barrier, ended bool) string {
	place := [4]uint64{uint64(b.Key.Changefeed), b.Key.Run, b.Key.At.TS, uint64(b.Key.At.Stage)}
	if ended {
		place = [4]uint64{^b.Seq}
	}
	var out []byte
	for _, n := range place {
		out = binary.BigEndian.AppendUint64(out, n)
	}
	return string(out)
}

// GetBarrier implements weir.v1.
func (s *Server) GetBarrier(ctx context.Context, req *weirv1.GetBarrierRequest) (*weirv1.GetBarrierResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	key, err := barrierKey(view, req.GetChangefeed(), req.GetRun(), req.GetAt())
	if err != nil {
		return nil, err
	}
	b, open := view.Barrier(key)
	if !open {
		over := false
		if b, over = view.BarrierRecord(key); !over {
			return nil, unknownBarrier(view, req.GetChangefeed(), key)
		}
	}
	row := barrierRow(view, b)
	if open {
		listMissing(view, b, row, int(req.GetMissing()))
	}
	return &weirv1.GetBarrierResponse{Header: header, Barrier: row}, nil
}

func unknownBarrier(view *fsm.View, feed string, key fsm.BarrierKey) error {
	return unknown(fsm.UnknownBarrier, fsm.Facts{Changefeed: feed, ChangefeedID: key.Changefeed, Run: key.Run, At: key.At}, view.Meta().Index)
}

// barrierKey names a barrier by its changefeed's name; run 0 is the present one.
func barrierKey(view *fsm.View, name string, run uint64, at *weirv1.Position) (fsm.BarrierKey, error) {
	feed, err := feedNamed(view, name)
	if err != nil {
		return fsm.BarrierKey{}, err
	}
	position, err := nodewire.ToPosition(at)
	if err != nil {
		return fsm.BarrierKey{}, malformed("at", err.Error())
	}
	key := fsm.BarrierKey{Changefeed: feed.ID, Run: run, At: position}
	if run == 0 {
		key.Run = feed.Run
	}
	if !key.Valid() {
		return key, malformed("at", "is "+position.String()+", where no event stands: give TS/ddl, or TS alone for a sync point")
	}
	return key, nil
}

// DecideBarrier implements weir.v1.
func (s *Server) DecideBarrier(
	ctx context.Context, req *weirv1.DecideBarrierRequest,
) (*weirv1.DecideBarrierResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.DecideBarrierResponse{Header: s.decided(v)}, nil
}

func decideBarrier(view *fsm.View, req *weirv1.DecideBarrierRequest) (fsm.Command, error) {
	key, err := barrierKey(view, req.GetChangefeed(), req.GetRun(), req.GetAt())
	if err != nil {
		return nil, err
	}
	if req.GetDecision() < 0 || req.GetDecision() > weirv1.BarrierDecision_BARRIER_DECISION_SKIP {
		return nil, malformed("decision", "is not known")
	}
	return &fsm.DecideBarrier{
		Key: key, Permission: req.GetPermission(), Decision: fsm.BarrierDecision(req.GetDecision()),
	}, nil
}

func barrierRow(view *fsm.View, b fsm.Barrier) *weirv1.Barrier {
	feed, _ := view.ChangefeedByID(b.Key.Changefeed)
	writer, _ := view.NodeOf(b.WriterIncarnation)
	row := &weirv1.Barrier{
		Changefeed: feed.Name, ChangefeedId: uint64(b.Key.Changefeed), Run: b.Key.Run, At: nodewire.FromPosition(b.Key.At),
		Spec: nodewire.FromSpec(&b.Spec), Status: weirv1.BarrierStatus(b.Status), Result: weirv1.BarrierResult(b.Result),
		TriggerSaid: b.TriggerSaid, Permission: b.Permission, Writer: uint64(b.Writer), WriterEpoch: uint64(b.WriterEpoch),
		WriterNode: string(writer.Name), WriterIncarnation: uint64(b.WriterIncarnation), NotBegun: b.NotBegun, Unknown: b.Unknown,
		OpenedAt: b.OpenedAt, GrantedAt: b.GrantedAt, WrittenAt: b.WrittenAt, EndedAt: b.EndedAt, OpenedMs: b.OpenedMS,
		OpenedBy: uint64(b.OpenedBy), DeadlineMs: b.DeadlineMS, StuckAt: b.StuckAt, Notes: b.Notes,
	}
	if b.Status == fsm.BarrierEnded {
		return row
	}
	members, behind, unpassed := view.BarrierProgress(b.Key)
	row.Members, row.Behind, row.Unpassed = uint64(members), uint64(behind), uint64(unpassed)
	row.WaitsFor = barrierWaitsFor(feed, b, row)
	return row
}

// barrierWaitsFor says what must happen before an open barrier goes on.
func barrierWaitsFor(feed fsm.Changefeed, b fsm.Barrier, row *weirv1.Barrier) string {
	name := feed.Name + " " + b.Key.At.String()
	switch b.Status {
	case fsm.BarrierInWriting:
		return fmt.Sprintf("dispatcher %d on node %s to write it", b.Writer, row.GetWriterNode())
	case fsm.BarrierPassing:
		return fmt.Sprintf("%d of %d dispatchers to pass it", row.GetUnpassed(), row.GetMembers())
	case fsm.BarrierUndecided:
		return "a decision whether it was written: compare the sink, then: weir barrier decide " + name
	case fsm.BarrierEnded:
		return ""
	case fsm.BarrierCollecting:
	default:
	}
	switch {
	case row.GetBehind() > 0:
		return fmt.Sprintf("%d of %d dispatchers to reach it", row.GetBehind(), row.GetMembers())
	case b.Spec.TriggerTakesPart() && !b.TriggerSaid:
		return fmt.Sprintf("dispatcher %d, the trigger, to report it after its earlier events", feed.Trigger)
	case feed.Status != fsm.ChangefeedRunning:
		return fmt.Sprintf("changefeed %s to run: it is %s", feed.Name, feed.Status)
	default:
		return "a dispatcher that runs, is in no operator and stands at it, to write it"
	}
}

// listMissing names some of those that an open barrier waits for.
func listMissing(view *fsm.View, b fsm.Barrier, row *weirv1.Barrier, most int) {
	if most == 0 {
		most = defaultMissing
	}
	most = min(most, maxMissing)
	for d := range view.BarrierMissing(b) {
		if len(row.GetMissing()) == most {
			row.MissingMore = true
			return
		}
		t, _ := view.Table(d.Table)
		node, _ := view.NodeOf(d.Incarnation)
		row.Missing = append(row.Missing, &weirv1.BarrierMissing{
			Dispatcher: uint64(d.ID), Schema: t.Schema, Table: t.Name, Trigger: t.Trigger, Span: nodewire.FromSpan(d.Span),
			Phase: weirv1.Phase(d.Phase), Node: string(node.Name), Incarnation: uint64(d.Incarnation), Epoch: uint64(d.Epoch),
			Operator: uint64(d.Slot), Position: nodewire.FromPosition(d.Position),
		})
	}
}
