package fsm

// Fork returns an independent copy in O(1): both share rows until one of them writes. It is how a command is tried
// without a log entry, and how several commands are applied together or not at all.
func (s *State) Fork() *State {
	f := &State{data: s.cloneData(), metaDigest: s.metaDigest, trace: s.trace}
	f.ownScratch()
	return f
}

// Fork returns a state that stands where the view stands, and leaves the view as it is. One goroutine at a time may fork
// a view; readers need not care.
func (v *View) Fork() *State {
	f := &State{data: v.cloneData()}
	f.ownScratch()
	f.metaDigest = f.digestMeta()
	return f
}

// DryRun returns the verdict that the proposal would get in the entry after the view's, in the term that the view
// holds. Nothing changes. A request that has been answered gets its first answer, as it would in the log.
func (v *View) DryRun(p Proposal) Verdict {
	f := v.Fork()
	p.Term = f.meta.Term
	return f.Apply(Entry{Index: f.meta.Index + 1, Term: f.meta.Term, Proposals: []Proposal{p}})[0]
}
