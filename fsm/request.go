package fsm

// bodyDigest names what a request asks for, so that an id that is used twice for different things is noticed.
func (s *State) bodyDigest(p *Proposal) Digest {
	if p.Request == "" {
		return Digest{}
	}
	s.hash.coder.Reset()
	p.Command.Code(&s.hash.coder)
	return digestOf(uint8(p.Command.Kind()), s.hash.coder.Bytes())
}

// answered finds the request's first answer, or refuses a request that may have had one which is forgotten.
func (s *State) answered(p *Proposal, body Digest) (Verdict, bool) {
	if p.Request == "" {
		return Verdict{}, false
	}
	refuse := func(r Reason, f Facts) (Verdict, bool) {
		return Verdict{Reason: r, Facts: f, Index: s.meta.Index}, true
	}
	if len(p.Request) > MaxRequestID {
		return refuse(Malformed, Facts{Detail: "request id is longer than 64 bytes"})
	}
	if known, ok := s.requests.get(Request{ID: p.Request}); ok {
		if known.Body != body {
			return refuse(RequestIDReused, Facts{Have: known.Verdict.Index})
		}
		v := known.Verdict
		v.Replayed = true
		return v, true
	}
	if p.RequestTimeMS < s.meta.RequestFloorMS {
		return refuse(RequestTooOld, Facts{Have: p.RequestTimeMS, Want: s.meta.RequestFloorMS})
	}
	if p.RequestTimeMS > s.meta.TimeMS {
		return refuse(RequestTooNew, Facts{Have: p.RequestTimeMS, Want: s.meta.TimeMS})
	}
	return Verdict{}, false
}

// remember keeps the answer and forgets the oldest ones beyond the policy. Forgetting raises the floor: a retry of a
// forgotten request carries a time below it, and is refused rather than carried out twice.
func (s *State) remember(p *Proposal, body Digest, v Verdict) {
	if p.Request == "" {
		return
	}
	s.meta.LastRequest++
	v.RefusedNames, v.Reports = nil, nil
	row := Request{
		ID: p.Request, Seq: s.meta.LastRequest, Body: body, TimeMS: p.RequestTimeMS, KeptMS: s.meta.TimeMS, Verdict: v,
	}
	s.requests.put(&s.hash, row)
	s.answers.set(row.Seq, row.ID)
	s.forgetRequests()
}

// forgetAtOnce bounds the work of one command.
const forgetAtOnce = 4

func (s *State) forgetRequests() {
	for range forgetAtOnce {
		seq, id, ok := s.answers.oldest()
		if !ok {
			return
		}
		oldest, _ := s.requests.get(Request{ID: id})
		aged := s.meta.TimeMS-oldest.KeptMS > s.meta.Policy.KeepRequestsMS
		if !aged && s.requests.len() <= int(s.meta.Policy.KeepRequests) {
			return
		}
		s.requests.drop(&s.hash, oldest)
		s.answers.del(seq)
		s.meta.RequestFloorMS = max(s.meta.RequestFloorMS, oldest.TimeMS+1)
	}
}
