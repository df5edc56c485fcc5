package server

import (
	"context"

	"github.com/weir-project/weir/api/internal/nodewire"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// CreateChangefeed implements weir.v1.
func (s *Server) CreateChangefeed(
	ctx context.Context, req *weirv1.CreateChangefeedRequest,
) (*weirv1.CreateChangefeedResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.CreateChangefeedResponse{Header: s.decided(v), ChangefeedId: uint64(v.Facts.ChangefeedID)}, nil
}

func createChangefeed(req *weirv1.CreateChangefeedRequest) (fsm.Command, error) {
	start, err := nodewire.ToPosition(req.GetStart())
	if err != nil {
		return nil, malformed("start", err.Error())
	}
	return &fsm.CreateChangefeed{
		Name: req.GetName(), Source: req.GetSource(), Sink: req.GetSink(), SinkFenced: req.GetSinkFenced(),
		SinkMaxWriteMS: req.GetSinkMaxWriteMs(), Start: start, Tables: nodewire.ToTableSpecs(req.GetTables()),
		SyncPointEvery: req.GetSyncPointEvery(),
	}, nil
}

// UpdateChangefeed implements weir.v1.
func (s *Server) UpdateChangefeed(
	ctx context.Context, req *weirv1.UpdateChangefeedRequest,
) (*weirv1.UpdateChangefeedResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.UpdateChangefeedResponse{Header: s.decided(v)}, nil
}

func updateChangefeed(req *weirv1.UpdateChangefeedRequest) fsm.Command {
	return &fsm.UpdateChangefeed{
		Name: req.GetName(), Source: req.GetSource(), HasSyncPoints: req.SyncPointEvery != nil,
		SyncPointEvery: req.GetSyncPointEvery(),
	}
}

// PauseChangefeed implements weir.v1.
func (s *Server) PauseChangefeed(
	ctx context.Context, req *weirv1.PauseChangefeedRequest,
) (*weirv1.PauseChangefeedResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.PauseChangefeedResponse{Header: s.decided(v), Stopping: v.Facts.Have}, nil
}

// ResumeChangefeed implements weir.v1.
func (s *Server) ResumeChangefeed(
	ctx context.Context, req *weirv1.ResumeChangefeedRequest,
) (*weirv1.ResumeChangefeedResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.ResumeChangefeedResponse{Header: s.decided(v), Run: v.Facts.Run}, nil
}

func resumeChangefeed(req *weirv1.ResumeChangefeedRequest) (fsm.Command, error) {
	from, err := nodewire.ToPosition(req.GetFrom())
	if err != nil {
		return nil, malformed("from", err.Error())
	}
	return &fsm.ResumeChangefeed{
		Name: req.GetName(), HasFrom: req.GetFrom() != nil, From: from, Force: req.GetForce(),
	}, nil
}

// RemoveChangefeed implements weir.v1.
func (s *Server) RemoveChangefeed(
	ctx context.Context, req *weirv1.RemoveChangefeedRequest,
) (*weirv1.RemoveChangefeedResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.RemoveChangefeedResponse{Header: s.decided(v)}, nil
}

// ListChangefeeds implements weir.v1.
func (s *Server) ListChangefeeds(
	ctx context.Context, req *weirv1.ListChangefeedsRequest,
) (*weirv1.ListChangefeedsResponse, error) {
	filters := filtersOf("changefeeds")
	after, err := parseNumberPage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, size := &weirv1.ListChangefeedsResponse{Header: header}, pageSize(req.GetPageSize())
	for feed := range view.Changefeeds() {
		if uint64(feed.ID) <= after {
			continue
		}
		if len(resp.GetChangefeeds()) == size {
			resp.NextPageToken = numberPage(filters, resp.GetChangefeeds()[size-1].GetId())
			break
		}
		resp.Changefeeds = append(resp.Changefeeds, changefeedRow(feed))
	}
	return resp, nil
}

// GetChangefeed implements weir.v1.
func (s *Server) GetChangefeed(
	ctx context.Context, req *weirv1.GetChangefeedRequest,
) (*weirv1.GetChangefeedResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	feed, err := feedNamed(view, req.GetName())
	if err != nil {
		return nil, err
	}
	row := changefeedRow(feed)
	for t := range view.Tables(feed.ID) {
		if !t.Trigger {
			row.Tables++
		}
		for range view.DispatchersOfTable(t.ID) {
			row.Dispatchers++
		}
	}
	for range view.AbsentDispatchers(feed.ID) {
		row.Absent++
	}
	for range view.Barriers(feed.ID) {
		row.Barriers++
	}
	row.Hold = watermarkHold(view, feed)
	return &weirv1.GetChangefeedResponse{Header: header, Changefeed: row}, nil
}

func feedNamed(view *fsm.View, name string) (fsm.Changefeed, error) {
	feed, ok := view.Changefeed(name)
	if !ok {
		return feed, unknown(fsm.UnknownChangefeed, fsm.Facts{Changefeed: name}, view.Meta().Index)
	}
	return feed, nil
}
