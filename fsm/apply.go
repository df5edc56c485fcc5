package fsm

// entryContext is what commands know of the entry and the proposal that they stand in.
type entryContext struct {
	index, term uint64
	wallMS      int64
	by          string
}

// Apply carries out one entry and returns a verdict for each of its proposals, in order. Entries come in log order, each
// once.
func (s *State) Apply(e Entry) []Verdict {
	verdicts := make([]Verdict, len(e.Proposals))
	s.meta.Index, s.meta.RaftTerm = e.Index, e.Term
	for i := range e.Proposals {
		verdicts[i] = s.applyProposal(e, &e.Proposals[i])
	}
	s.sealMeta()
	return verdicts
}

// applyProposal checks what stands before every command, in this order: the request id, the term and the level, whether
// the cluster has begun; then the command itself. Refusals before the request's answer is kept do not burn its id.
func (s *State) applyProposal(e Entry, p *Proposal) Verdict {
	body := s.bodyDigest(p)
	if v, answered := s.answered(p, body); answered {
		return v
	}
	v := s.precheck(e, p)
	if v.Reason != Accepted {
		v.Index = e.Index
		return v
	}
	x := entryContext{index: e.Index, term: e.Term, wallMS: p.WallMS, by: p.By}
	v = p.Command.apply(s, x)
	s.settleBarriers(x)
	v.Index = e.Index
	s.remember(p, body, v)
	return v
}

func (s *State) precheck(e Entry, p *Proposal) Verdict {
	_, begins := p.Command.(*BeginTerm)
	if p.Term != e.Term || (!begins && p.Term != s.meta.Term) {
		return Verdict{Reason: StaleTerm, Facts: Facts{Term: s.meta.Term, Server: s.meta.Leader}}
	}
	if p.Level > s.meta.Level {
		return Verdict{Reason: FeatureLevel, Facts: Facts{Limit: "feature level", Have: uint64(s.meta.Level), Want: uint64(p.Level)}}
	}
	if s.meta.Generation == 0 && !beforeBootstrap(p.Command) {
		return Verdict{Reason: NotBootstrapped}
	}
	return Verdict{Reason: Accepted}
}

// beforeBootstrap says whether a command makes sense in a cluster without a generation.
func beforeBootstrap(c Command) bool {
	k := c.Kind()
	return k == KindBeginTerm || k == KindBeginGeneration || k == KindAnnounceServer || k == KindTick
}
