package fsm

// HighestLevel is the feature level up to which this version understands the log.
const HighestLevel = 1

func accepted(f Facts) Verdict { return Verdict{Reason: Accepted, Facts: f} }

func refused(r Reason, f Facts) Verdict { return Verdict{Reason: r, Facts: f} }

func malformed(detail string) Verdict { return refused(Malformed, Facts{Detail: detail}) }

func (m *BeginTerm) apply(s *State, x entryContext) Verdict {
	s.meta.Term, s.meta.Leader, s.meta.BeganAt = x.term, m.Server, x.index
	return accepted(Facts{Term: x.term, Server: m.Server})
}

func (m *BeginGeneration) apply(s *State, _ entryContext) Verdict {
	switch {
	case m.Why != GenerationBootstrap:
		return malformed("a generation of this feature level starts by bootstrap only")
	case m.Generation == 0 || m.Generation > MaxGeneration:
		return malformed("generation is not within 1 and 2^27-1")
	case m.Cluster == "" || len(m.Cluster) > maxName:
		return malformed("cluster id is empty or longer than 128 bytes")
	case s.meta.Generation != 0:
		return refused(AlreadyBootstrapped, Facts{Detail: s.meta.Cluster, Have: uint64(s.meta.Generation)})
	}
	s.meta.Generation, s.meta.Cluster = m.Generation, m.Cluster
	s.meta.LastEpoch = Epoch(token(m.Generation, 0))
	s.meta.LastIncarnation = Incarnation(token(m.Generation, 0))
	return accepted(Facts{Detail: m.Cluster, Have: uint64(m.Generation)})
}

func (m *AnnounceServer) apply(s *State, x entryContext) Verdict {
	if m.Server == "" || len(m.Server) > maxName || len(m.Address) > maxName || m.HighestLevel == 0 {
		return malformed("a server announces its id, its gRPC address and its highest feature level")
	}
	s.servers.put(&s.hash, Server{ID: m.Server, Address: m.Address, HighestLevel: m.HighestLevel, AnnouncedAt: x.index})
	return accepted(Facts{Server: m.Server})
}

func (m *SetFeatureLevel) apply(s *State, _ entryContext) Verdict {
	if m.Level < s.meta.Level {
		return malformed("a feature level is never lowered")
	}
	known := false
	for server := range s.Servers() {
		known = true
		if server.HighestLevel < m.Level {
			return refused(FeatureLevel, Facts{
				Server: server.ID, Limit: "highest level of a member", Have: uint64(server.HighestLevel), Want: uint64(m.Level),
			})
		}
	}
	if !known {
		return refused(FeatureLevel, Facts{Limit: "announced members", Want: uint64(m.Level)})
	}
	s.meta.Level = m.Level
	return accepted(Facts{Limit: "feature level", Have: uint64(m.Level)})
}

func (m *SetPolicy) apply(s *State, _ entryContext) Verdict {
	p := m.Policy
	if p.MaxDispatchers == 0 || p.MaxPlacementsPerNode == 0 || p.MaxOperators == 0 || p.MaxNodes == 0 ||
		p.KeepRequests == 0 || p.KeepRequestsMS == 0 || p.KeepOperators == 0 || p.KeepHistory == 0 || p.KeepHistoryEach == 0 ||
		p.KeepBarriers == 0 || p.OperatorDeadlineMS == 0 || p.BarrierDeadlineMS == 0 || p.FenceStuckMS == 0 || p.DrainAtOnce == 0 {
		return malformed("a limit of the policy is zero")
	}
	s.meta.Policy = p
	return accepted(Facts{})
}

// nextEpoch issues the next number of the sequence of epochs and op ids.
func (s *State) nextEpoch() Epoch {
	s.meta.LastEpoch++
	return s.meta.LastEpoch
}
