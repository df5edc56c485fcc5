package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

const (
	// maxEntry is how many commands of a batch are proposed together.
	maxEntry = 256
	// maxBatchID leaves room for the item's number in its request id.
	maxBatchID = fsm.MaxRequestID - len("#4095") - 1
)

// AdmitOperator implements weir.v1.
func (s *Server) AdmitOperator(
	ctx context.Context, req *weirv1.AdmitOperatorRequest,
) (*weirv1.AdmitOperatorResponse, error) {
	command, err := admitCommand("operator", req.GetOperator())
	if err != nil {
		return nil, err
	}
	v, err := s.propose(ctx, req.GetHeader(), command)
	if err != nil {
		return nil, err
	}
	return &weirv1.AdmitOperatorResponse{Header: s.decided(v), Admission: admission(v)}, nil
}

func admitCommand(field string, spec *weirv1.OperatorSpec) (*fsm.AdmitOperator, error) {
	if spec == nil {
		return nil, malformed(field, "is missing")
	}
	if spec.GetKind() < 0 || spec.GetKind() > weirv1.OperatorKind_OPERATOR_KIND_STOP {
		return nil, malformed(field+".kind", "is not known")
	}
	return &fsm.AdmitOperator{
		Op: fsm.OperatorKind(spec.GetKind()), Dispatcher: fsm.DispatcherID(spec.GetDispatcher()),
		From: fsm.NodeName(spec.GetFrom()), FromAny: spec.GetFromAny(), To: fsm.NodeName(spec.GetTo()),
		ExpectEpoch: fsm.Epoch(spec.GetExpectEpoch()),
	}, nil
}

func admission(v fsm.Verdict) *weirv1.Admission {
	return &weirv1.Admission{
		OpId: uint64(v.Facts.Operator), Dispatcher: uint64(v.Facts.Dispatcher), Epoch: uint64(v.Facts.Epoch),
		Index: v.Index, Replayed: v.Replayed,
	}
}

// AdmitBatch implements weir.v1. Each item has a request id of its own, so that the whole call can be repeated: what was
// decided keeps its verdict, what was not is decided then.
func (s *Server) AdmitBatch(ctx context.Context, req *weirv1.AdmitBatchRequest) (*weirv1.AdmitBatchResponse, error) {
	proposals, err := s.batch(req)
	if err != nil {
		return nil, err
	}
	resp := &weirv1.AdmitBatchResponse{Verdicts: make([]*weirv1.AdmitVerdict, 0, len(proposals))}
	last := fsm.Verdict{}
	for len(proposals) > 0 {
		n := min(len(proposals), maxEntry)
		verdicts, err := s.proposeAll(ctx, proposals[:n]...)
		if err != nil {
			return nil, halfWay(err, len(resp.GetVerdicts()))
		}
		for _, v := range verdicts {
			// The refusal of an item that would pass by itself is one of the whole call, which is sent again then.
			if err := s.rejection(v); err != nil && reasonClass(v.Reason) == outcome.NotProposed {
				return nil, halfWay(err, len(resp.GetVerdicts()))
			}
			resp.Verdicts = append(resp.Verdicts, s.itemVerdict(v))
			if v.Index >= last.Index {
				last.Index = v.Index
			}
		}
		proposals = proposals[n:]
	}
	resp.Header = s.decided(last)
	return resp, nil
}

// halfWay keeps an error from claiming that nothing was proposed when a part was.
func halfWay(err error, decided int) error {
	var own *Error
	if decided == 0 || errors.As(err, &own) && own.Kind == UnknownOutcome {
		return err
	}
	return &Error{
		Kind: UnknownOutcome, Err: err,
		Text: "only the first " + strconv.Itoa(decided) + " operators were decided; send the batch again with the same request id",
	}
}

func (s *Server) batch(req *weirv1.AdmitBatchRequest) ([]fsm.Proposal, error) {
	specs, id := req.GetOperators(), req.GetHeader().GetRequestId()
	switch {
	case len(specs) == 0:
		return nil, malformed("operators", "is empty")
	case len(specs) > s.limits.Batch:
		return nil, &Error{
			Kind: TooLarge, Have: uint64(len(specs)), Want: uint64(s.limits.Batch),
			Text: "a batch of " + strconv.Itoa(len(specs)) + " operators is too large; split it into batches of at most " + strconv.Itoa(s.limits.Batch),
		}
	case len(id) > maxBatchID:
		return nil, malformed("header.request_id", "of a batch may have at most "+strconv.Itoa(maxBatchID)+" bytes")
	}
	proposals := make([]fsm.Proposal, len(specs))
	for i, spec := range specs {
		command, err := admitCommand("operators["+strconv.Itoa(i)+"]", spec)
		if err != nil {
			return nil, err
		}
		proposals[i] = s.proposal(req.GetHeader(), id+"#"+strconv.Itoa(i), command)
	}
	return proposals, nil
}

func (s *Server) itemVerdict(v fsm.Verdict) *weirv1.AdmitVerdict {
	err := s.rejection(v)
	if err == nil {
		return &weirv1.AdmitVerdict{Verdict: &weirv1.AdmitVerdict_Admission{Admission: admission(v)}}
	}
	r := refuse(err, true)
	r.facts[outcome.FactClass] = r.class.String()
	return &weirv1.AdmitVerdict{Verdict: &weirv1.AdmitVerdict_Refusal{Refusal: &weirv1.Refusal{
		Reason: r.reason, Message: r.message, Facts: r.facts, Code: int32(r.code),
	}}}
}
