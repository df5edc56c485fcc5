package server

import (
	"context"
	"errors"
	"strconv"

	"github.com/weir-project/weir/api/internal/nodewire"
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
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.AdmitOperatorResponse{Header: s.decided(v), Admission: admission(v)}, nil
}

func admitOperator(view *fsm.View, field string, spec *weirv1.OperatorSpec) (*fsm.AdmitOperator, error) {
	if spec == nil {
		return nil, malformed(field, "is missing")
	}
	if spec.GetKind() < 0 || spec.GetKind() > weirv1.OperatorKind_OPERATOR_KIND_MERGE {
		return nil, malformed(field+".kind", "is not known")
	}
	command := &fsm.AdmitOperator{
		Op: fsm.OperatorKind(spec.GetKind()), Dispatcher: fsm.DispatcherID(spec.GetDispatcher()),
		From: fsm.NodeName(spec.GetFrom()), FromAny: spec.GetFromAny(), To: fsm.NodeName(spec.GetTo()),
		ExpectEpoch: fsm.Epoch(spec.GetExpectEpoch()),
	}
	for _, id := range spec.GetSources() {
		command.Sources = append(command.Sources, fsm.DispatcherID(id))
	}
	for _, name := range spec.GetTargets() {
		command.Targets = append(command.Targets, fsm.NodeName(name))
	}
	for _, span := range spec.GetSpans() {
		command.Spans = append(command.Spans, nodewire.ToSpan(span))
	}
	if len(spec.GetSplitKeys()) == 0 {
		return command, nil
	}
	if len(command.Spans) > 0 {
		return nil, malformed(field+".split_keys", "and spans are given; give one of them")
	}
	spans, err := cut(view, command.Dispatcher, spec.GetSplitKeys())
	command.Spans = spans
	return command, err
}

// cut makes the spans of a Split from their inner bounds.
func cut(view *fsm.View, id fsm.DispatcherID, keys [][]byte) ([]fsm.Span, error) {
	whole, ok := spanOf(view, id)
	if !ok { // not recorded: an earlier try of the request may have been carried out, and forgotten
		return nil, unknown(fsm.UnknownDispatcher, fsm.Facts{Dispatcher: id}, 0)
	}
	spans := make([]fsm.Span, 0, len(keys)+1)
	from := whole.Start
	for _, key := range keys {
		spans = append(spans, fsm.Span{Start: from, End: string(key)})
		from = string(key)
	}
	return append(spans, fsm.Span{Start: from, End: whole.End}), nil
}

// spanOf is the span of a dispatcher, also of one that a remembered Split has replaced: a request that is sent again
// must become the same command.
func spanOf(view *fsm.View, id fsm.DispatcherID) (fsm.Span, bool) {
	if row, ok := view.Dispatcher(id); ok {
		return row.Span, true
	}
	for op := range view.FinishedOperators() {
		if op.Kind == fsm.OpSplit && op.Dispatcher == id && len(op.Spans) > 0 {
			return fsm.Span{Start: op.Spans[0].Start, End: op.Spans[len(op.Spans)-1].End}, true
		}
	}
	return fsm.Span{}, false
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
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return nil, &Error{Kind: NotReady}
	}
	proposals, err := s.batch(view, req)
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

func (s *Server) batch(view *fsm.View, req *weirv1.AdmitBatchRequest) ([]fsm.Proposal, error) {
	specs, id := req.GetOperators(), req.GetHeader().GetRequestId()
	if err := s.checkBatch(len(specs), id, maxBatchID); err != nil {
		return nil, err
	}
	proposals := make([]fsm.Proposal, len(specs))
	for i, spec := range specs {
		command, err := admitOperator(view, "operators["+strconv.Itoa(i)+"]", spec)
		if err != nil {
			return nil, err
		}
		proposals[i] = s.proposal(req.GetHeader(), id+"#"+strconv.Itoa(i), command)
	}
	return proposals, nil
}

// checkBatch refuses a batch that is empty or too large, or whose parts could not have ids of their own.
func (s *Server) checkBatch(items int, id string, maxID int) error {
	switch {
	case items == 0:
		return malformed("operators", "is empty")
	case items > s.limits.Batch:
		return &Error{
			Kind: TooLarge, Have: uint64(items), Want: uint64(s.limits.Batch),
			Text: "a batch of " + strconv.Itoa(items) + " operators is too large; split it into batches of at most " + strconv.Itoa(s.limits.Batch),
		}
	case len(id) > maxID:
		return malformed("header.request_id", "of a batch may have at most "+strconv.Itoa(maxID)+" bytes")
	default:
		return nil
	}
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
