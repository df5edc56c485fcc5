package server

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// fewRows is how many rows of a table are sorted for a page rather than searched for.
const fewRows = 10_000

// dispatcherFilter is what a listing asks for, resolved in one view.
type dispatcherFilter struct {
	feed        fsm.ChangefeedID // 0: all
	table       fsm.TableID      // 0: all
	node        bool
	incarnation fsm.Incarnation
	phase       fsm.Phase // 0: all
}

// ListDispatchers implements weir.v1.
func (s *Server) ListDispatchers(
	ctx context.Context, req *weirv1.ListDispatchersRequest,
) (*weirv1.ListDispatchersResponse, error) {
	filters := filtersOf(
		"dispatchers", req.GetChangefeed(), req.GetSchema(), req.GetTable(), req.GetNode(), strconv.Itoa(int(req.GetPhase())),
	)
	after, err := parseNumberPage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	filter, err := resolveFilter(view, req)
	if err != nil {
		return nil, err
	}
	resp, size := &weirv1.ListDispatchersResponse{Header: header}, pageSize(req.GetPageSize())
	for id, row := range filter.candidates(view, fsm.DispatcherID(after), s.limits.Scan) {
		if row == nil { // looked at enough for one page
			resp.NextPageToken = numberPage(filters, uint64(id))
			break
		}
		if !filter.matches(view, *row) {
			continue
		}
		if n := len(resp.GetDispatchers()); n == size {
			resp.NextPageToken = numberPage(filters, resp.GetDispatchers()[n-1].GetId())
			break
		}
		resp.Dispatchers = append(resp.Dispatchers, s.dispatcherRow(view, *row))
	}
	return resp, nil
}

func resolveFilter(view *fsm.View, req *weirv1.ListDispatchersRequest) (dispatcherFilter, error) {
	f := dispatcherFilter{phase: fsm.Phase(req.GetPhase())}
	if req.GetPhase() < 0 || req.GetPhase() > weirv1.Phase_PHASE_STOPPING {
		return f, malformed("phase", "is not known")
	}
	if name := req.GetNode(); name != "" {
		node, ok := view.Node(fsm.NodeName(name))
		if !ok {
			return f, unknown(fsm.UnknownNode, fsm.Facts{Node: fsm.NodeName(name)}, view.Meta().Index)
		}
		f.node, f.incarnation = true, node.Incarnation
	}
	if req.GetChangefeed() == "" {
		if req.GetTable() != "" {
			return f, malformed("table", "needs the changefeed that it belongs to")
		}
		return f, nil
	}
	feed, err := feedNamed(view, req.GetChangefeed())
	if err != nil {
		return f, err
	}
	f.feed = feed.ID
	if req.GetTable() == "" {
		return f, nil
	}
	table, ok := tableNamed(view, feed, req.GetSchema(), req.GetTable())
	if !ok {
		ref := fsm.TableRef{Schema: req.GetSchema(), Name: req.GetTable()}
		return f, unknown(fsm.UnknownTable, fsm.Facts{Changefeed: feed.Name, Table: ref.String()}, view.Meta().Index)
	}
	f.table = table.ID
	return f, nil
}

// tableNamed finds the live table of the name, else the newest one that is being dropped.
func tableNamed(view *fsm.View, feed fsm.Changefeed, schema, name string) (fsm.Table, bool) {
	if t, ok := view.TableNamed(feed, schema, name); ok {
		return t, true
	}
	var found fsm.Table
	for t := range view.Tables(feed.ID) {
		if t.Schema == schema && t.Name == name {
			found = t
		}
	}
	return found, found.ID != 0
}

func (f dispatcherFilter) matches(view *fsm.View, row fsm.Dispatcher) bool {
	if f.phase != 0 && row.Phase != f.phase || f.node && row.Incarnation != f.incarnation || f.table != 0 && row.Table != f.table {
		return false
	}
	if f.feed == 0 {
		return true
	}
	t, _ := view.Table(row.Table)
	return t.Changefeed == f.feed
}

// candidates yields the rows after an id, by id, from the narrowest index there is. It bounds the work of one page: when
// it has looked at enough it yields nil with the last id that it looked at.
func (f dispatcherFilter) candidates(
	view *fsm.View, after fsm.DispatcherID, scan int,
) iter.Seq2[fsm.DispatcherID, *fsm.Dispatcher] {
	if f.node && f.incarnation != 0 {
		return f.sorted(view.DispatchersOn(f.incarnation), after)
	}
	if f.table != 0 {
		if rows, few := firstRows(view.DispatchersOfTable(f.table), min(fewRows, scan)); few {
			return f.sorted(slices.Values(rows), after)
		}
	}
	return func(yield func(fsm.DispatcherID, *fsm.Dispatcher) bool) {
		last := view.Meta().LastDispatcher
		for id := after + 1; id <= last; id++ {
			if id-after > fsm.DispatcherID(scan) {
				yield(id-1, nil)
				return
			}
			if row, ok := view.Dispatcher(id); ok && !yield(id, &row) {
				return
			}
		}
	}
}

func (dispatcherFilter) sorted(rows iter.Seq[fsm.Dispatcher], after fsm.DispatcherID) iter.Seq2[fsm.DispatcherID, *fsm.Dispatcher] {
	return func(yield func(fsm.DispatcherID, *fsm.Dispatcher) bool) {
		for row := range rows {
			if row.ID > after && !yield(row.ID, &row) {
				return
			}
		}
	}
}

// firstRows collects the rows by id if they are few.
func firstRows(seq iter.Seq[fsm.Dispatcher], most int) (rows []fsm.Dispatcher, few bool) {
	for row := range seq {
		if len(rows) == most {
			return nil, false
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b fsm.Dispatcher) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return rows, true
}

// GetDispatcher implements weir.v1.
func (s *Server) GetDispatcher(
	ctx context.Context, req *weirv1.GetDispatcherRequest,
) (*weirv1.GetDispatcherResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	row, ok := view.Dispatcher(fsm.DispatcherID(req.GetDispatcher()))
	if !ok {
		return nil, unknownDispatcher(view, req.GetDispatcher())
	}
	return &weirv1.GetDispatcherResponse{Header: header, Dispatcher: s.dispatcherRow(view, row)}, nil
}

func unknownDispatcher(view *fsm.View, id uint64) error {
	return unknown(fsm.UnknownDispatcher, fsm.Facts{Dispatcher: fsm.DispatcherID(id)}, view.Meta().Index)
}

// GetHistory implements weir.v1.
func (s *Server) GetHistory(ctx context.Context, req *weirv1.GetHistoryRequest) (*weirv1.GetHistoryResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	id := fsm.DispatcherID(req.GetDispatcher())
	resp := &weirv1.GetHistoryResponse{Header: header}
	for r := range view.History(id) {
		resp.Records = append(resp.Records, recordRow(r))
	}
	row, ok := view.Dispatcher(id)
	if ok {
		resp.Dispatcher = s.dispatcherRow(view, row)
	} else if len(resp.GetRecords()) == 0 {
		return nil, unknownDispatcher(view, req.GetDispatcher())
	}
	return resp, nil
}
