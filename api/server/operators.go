package server

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// CancelOperator implements weir.v1.
func (s *Server) CancelOperator(
	ctx context.Context, req *weirv1.CancelOperatorRequest,
) (*weirv1.CancelOperatorResponse, error) {
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.CancelOperatorResponse{Header: s.decided(v)}, nil
}

// GetOperator implements weir.v1.
func (s *Server) GetOperator(ctx context.Context, req *weirv1.GetOperatorRequest) (*weirv1.GetOperatorResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	op, err := operatorOf(view, req.GetOpId())
	if err != nil {
		return nil, err
	}
	return &weirv1.GetOperatorResponse{Header: header, Operator: operatorRow(view, op)}, nil
}

func operatorOf(view *fsm.View, id uint64) (fsm.Operator, error) {
	op, ok := view.Operator(fsm.OpID(id))
	if !ok {
		return op, unknown(fsm.NoSuchOperator, fsm.Facts{Operator: fsm.OpID(id)}, view.Meta().Index)
	}
	return op, nil
}

// ListOperators implements weir.v1.
func (s *Server) ListOperators(
	ctx context.Context, req *weirv1.ListOperatorsRequest,
) (*weirv1.ListOperatorsResponse, error) {
	filters := filtersOf(
		"operators", strconv.Itoa(int(req.GetState())), req.GetChangefeed(), strconv.FormatUint(req.GetDispatcher(), 10),
		req.GetNode(),
	)
	after, err := parseNumberPage(req.GetPageToken(), filters)
	if err != nil {
		return nil, err
	}
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	operators, err := operatorsAfter(view, req.GetState(), after)
	if err != nil {
		return nil, err
	}
	resp, size := &weirv1.ListOperatorsResponse{Header: header}, pageSize(req.GetPageSize())
	for op := range operators {
		if !operatorMatches(req, op) {
			continue
		}
		if n := len(resp.GetOperators()); n == size {
			resp.NextPageToken = numberPage(filters, resp.GetOperators()[n-1].GetId())
			break
		}
		resp.Operators = append(resp.Operators, operatorRow(view, op))
	}
	return resp, nil
}

// operatorsAfter yields the operators that come after the one with the id: running ones by id, finished ones in the
// order of their ends, newest first. A finished one that has been forgotten meanwhile was the last.
func operatorsAfter(view *fsm.View, state weirv1.OperatorState, after uint64) (iter.Seq[fsm.Operator], error) {
	switch state {
	case weirv1.OperatorState_OPERATOR_STATE_UNSPECIFIED, weirv1.OperatorState_OPERATOR_STATE_RUNNING:
		return func(yield func(fsm.Operator) bool) {
			for op := range view.Operators() {
				if uint64(op.ID) > after && !yield(op) {
					return
				}
			}
		}, nil
	case weirv1.OperatorState_OPERATOR_STATE_FINISHED:
		return func(yield func(fsm.Operator) bool) {
			skip := after != 0
			for op := range view.FinishedOperators() {
				if skip {
					skip = uint64(op.ID) != after
					continue
				}
				if !yield(op) {
					return
				}
			}
		}, nil
	default:
		return nil, malformed("state", "is not known")
	}
}

func operatorMatches(req *weirv1.ListOperatorsRequest, op fsm.Operator) bool {
	node := fsm.NodeName(req.GetNode())
	return (req.GetChangefeed() == "" || req.GetChangefeed() == op.Changefeed) &&
		(req.GetDispatcher() == 0 || req.GetDispatcher() == uint64(op.Dispatcher)) &&
		(node == "" || node == op.From || node == op.To)
}

// answerMargin is what a call that waits keeps of its deadline to bring the answer home.
const answerMargin = 100 * time.Millisecond

// WaitOperator implements weir.v1. It reads once as asked, so that the operator is known; from then on this server's own
// state is enough, since an operator that has ended stays ended.
func (s *Server) WaitOperator(
	ctx context.Context, req *weirv1.WaitOperatorRequest,
) (*weirv1.WaitOperatorResponse, error) {
	view, header, err := s.view(ctx, req)
	if err != nil {
		return nil, err
	}
	op, err := operatorOf(view, req.GetOpId())
	if err != nil {
		return nil, err
	}
	wait := s.limits.Wait
	if asked := time.Duration(req.GetWaitMs()) * time.Millisecond; asked > 0 {
		wait = min(wait, asked)
	}
	over := s.config.Timers.NewTimer(wait)
	defer over.Stop()
	early, cancel := s.early(ctx)
	defer cancel()
	ticker := s.config.Timers.NewTicker(pollPeriod)
	defer ticker.Stop()
	answer := func() (*weirv1.WaitOperatorResponse, error) {
		return &weirv1.WaitOperatorResponse{Header: header, Operator: operatorRow(view, op), Ended: op.Result != 0}, nil
	}
	for op.Result == 0 {
		select {
		case <-early.Done():
			return answer()
		case <-over.C():
			return answer()
		case <-s.stopped:
			return nil, &Error{Kind: ShuttingDown}
		case <-ticker.C():
		}
		if view, header, err = s.laterView(view, header); err != nil {
			return nil, err
		}
		if op, err = operatorOf(view, req.GetOpId()); err != nil {
			return nil, err
		}
	}
	return answer()
}

// early ends a little before ctx, so that there is time to answer.
func (s *Server) early(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-answerMargin))
	}
	return context.WithCancel(ctx)
}

// laterView is this server's own state if it is later than the view, as long as the server may answer.
func (s *Server) laterView(
	view *fsm.View, header *weirv1.ResponseHeader,
) (*fsm.View, *weirv1.ResponseHeader, error) {
	if ok, _ := s.config.Contact.Contact(); !ok && !header.GetStale() {
		return nil, nil, &Error{Kind: Fenced}
	}
	now, age, ok := s.config.Reader.Local()
	if !ok || now.Meta().Index <= view.Meta().Index {
		return view, header, nil
	}
	h := s.header(now)
	h.Stale = header.GetStale()
	if h.GetStale() {
		h.AgeMs = uint64(max(age, 0).Milliseconds())
	}
	return now, h, nil
}
