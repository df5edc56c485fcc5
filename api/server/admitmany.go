package server

import (
	"context"
	"strconv"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

const (
	// ChunkSize is how many operators of an AdmitMany without all-or-nothing are decided in one entry.
	ChunkSize = 256
	// maxManyID leaves room for the chunk's number in its request id.
	maxManyID = fsm.MaxRequestID - len("#4294967295")
)

// AdmitMany implements weir.v1.
func (s *Server) AdmitMany(ctx context.Context, req *weirv1.AdmitManyRequest) (*weirv1.AdmitManyResponse, error) {
	if !req.GetAllOrNothing() {
		return s.admitChunks(ctx, req)
	}
	v, err := s.change(ctx, req)
	if err != nil {
		return nil, err
	}
	return &weirv1.AdmitManyResponse{Header: s.decided(v), Verdicts: s.itemVerdicts(v, len(req.GetOperators()))}, nil
}

// admitChunks decides the operators chunk by chunk. Each chunk has a request id of its own, so that the whole call can be
// repeated: what was decided keeps its verdicts, what was not is decided then.
func (s *Server) admitChunks(ctx context.Context, req *weirv1.AdmitManyRequest) (*weirv1.AdmitManyResponse, error) {
	specs, id := req.GetOperators(), req.GetHeader().GetRequestId()
	if err := s.checkBatch(len(specs), id, maxManyID); err != nil {
		return nil, err
	}
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return nil, &Error{Kind: NotReady}
	}
	whole, err := admitMany(view, req)
	if err != nil {
		return nil, err
	}
	resp, last := &weirv1.AdmitManyResponse{Verdicts: make([]*weirv1.AdmitVerdict, 0, len(specs))}, fsm.Verdict{}
	for chunk := req.GetFirstChunk(); len(whole.Items) > 0; chunk++ {
		n := min(len(whole.Items), ChunkSize)
		part := &fsm.AdmitMany{Items: whole.Items[:n]}
		verdicts, err := s.proposeAll(ctx, s.proposal(req.GetHeader(), id+"#"+strconv.FormatUint(uint64(chunk), 10), part))
		if err == nil && reasonClass(verdicts[0].Reason) == outcome.NotProposed {
			err = s.rejection(verdicts[0])
		}
		if err != nil {
			return nil, halfWay(err, len(resp.GetVerdicts()))
		}
		last, whole.Items = verdicts[0], whole.Items[n:]
		resp.Verdicts = append(resp.Verdicts, s.itemVerdicts(last, n)...)
	}
	resp.Header = s.decided(last)
	return resp, nil
}

// itemVerdicts are those of an AdmitMany's n items. A refusal of the whole is one of each.
func (s *Server) itemVerdicts(v fsm.Verdict, n int) []*weirv1.AdmitVerdict {
	verdicts := make([]*weirv1.AdmitVerdict, n)
	for i := range verdicts {
		item := v
		if v.OK() && i < len(v.Items) {
			item = fsm.Verdict{Reason: v.Items[i].Reason, Facts: v.Items[i].Facts, Index: v.Index, Replayed: v.Replayed}
		}
		verdicts[i] = s.itemVerdict(item)
	}
	return verdicts
}

func admitMany(view *fsm.View, req *weirv1.AdmitManyRequest) (*fsm.AdmitMany, error) {
	command := &fsm.AdmitMany{AllOrNothing: req.GetAllOrNothing()}
	for i, spec := range req.GetOperators() {
		item, err := admitOperator(view, "operators["+strconv.Itoa(i)+"]", spec)
		if err != nil {
			return nil, err
		}
		command.Items = append(command.Items, *item)
	}
	return command, nil
}
