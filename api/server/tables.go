package server

import (
	"context"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// AddTables implements weir.v1.
func (s *Server) AddTables(ctx context.Context, req *weirv1.AddTablesRequest) (*weirv1.AddTablesResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.AddTablesResponse{Header: s.decided(v)}, nil
}

func addTables(req *weirv1.AddTablesRequest) (fsm.Command, error) {
	start, err := nodewire.ToPosition(req.GetStart())
	if err != nil {
		return nil, malformed("start", err.Error())
	}
	return &fsm.AddTables{
		Changefeed: req.GetChangefeed(), Start: start, Tables: nodewire.ToTableSpecs(req.GetTables()),
	}, nil
}

// DropTables implements weir.v1.
func (s *Server) DropTables(ctx context.Context, req *weirv1.DropTablesRequest) (*weirv1.DropTablesResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.DropTablesResponse{Header: s.decided(v)}, nil
}

func dropTables(req *weirv1.DropTablesRequest) fsm.Command {
	command := &fsm.DropTables{Changefeed: req.GetChangefeed()}
	for _, t := range req.GetTables() {
		command.Tables = append(command.Tables, fsm.TableRef{Schema: t.GetSchema(), Name: t.GetName()})
	}
	return command
}

// ListTables implements weir.v1. A page ends early when enough dispatchers have been counted for it.
func (s *Server) ListTables(ctx context.Context, req *weirv1.ListTablesRequest) (*weirv1.ListTablesResponse, error) {
	filters := filtersOf("tables", req.GetChangefeed())
	after, err := parseNumberPage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	feed, err := feedNamed(view, req.GetChangefeed())
	if err != nil {
		return nil, err
	}
	resp, size, counted := &weirv1.ListTablesResponse{Header: header}, pageSize(req.GetPageSize()), 0
	for t := range view.Tables(feed.ID) {
		if t.Trigger || uint64(t.ID) <= after {
			continue
		}
		if n := len(resp.GetTables()); n == size || counted > s.limits.Scan {
			resp.NextPageToken = numberPage(filters, uint64(resp.GetTables()[n-1].GetId()))
			break
		}
		dispatchers := uint32(0)
		for range view.DispatchersOfTable(t.ID) {
			dispatchers++
		}
		counted += int(dispatchers)
		resp.Tables = append(resp.Tables, tableRow(feed, t, dispatchers))
	}
	return resp, nil
}
