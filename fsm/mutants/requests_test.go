package mutants

// requestMutants break what makes a request take effect once.
func requestMutants() []mutant {
	const file = "fsm/request.go"
	return []mutant{
		{
			id: "answers-not-looked-up", rules: []string{"invariant 16", "B75"},
			breaks: "a request that is sent again is carried out again",
			file:   file,
			old:    "known, ok := s.requests.get(Request{ID: p.Request}); ok {",
			new:    "known, ok := s.requests.get(Request{ID: p.Request}); ok && !known.Verdict.OK() {",
			tells:  []catcher{test("TestReview_R24"), test("TestField_B01"), script("requests")},
		},
		{
			id: "entry-up-to-the-unknown", rules: []string{"R47"},
			breaks: "an entry is applied up to a command that this version does not know",
			file:   "fsm/logcodec/entry.go",
			old:    "\t\tif err != nil {\n\t\t\treturn e, err\n\t\t}\n\t\te.Proposals",
			new:    "\t\tif unknown := (*UnknownCommandError)(nil); errors.As(err, &unknown) {\n\t\t\treturn e, nil\n\t\t}\n\t\tif err != nil {\n\t\t\treturn e, err\n\t\t}\n\t\te.Proposals",
			tells:  []catcher{test("TestReview_R47")},
		},
		{
			id: "other-body", rules: []string{"R24", "invariant 16"},
			breaks: "another request under a used id gets the answer of the first one",
			file:   file,
			old:    "if known.Body != body {",
			new:    "if known.Body.A == 0 {",
			tells:  []catcher{test("TestReview_R24_AnIDWithAnotherBody"), script("requests")},
		},
		{
			id: "floor-not-raised", rules: []string{"R24", "invariant 16"},
			breaks: "a retry whose answer has been forgotten takes effect a second time",
			file:   file,
			old:    "s.meta.RequestFloorMS = max(s.meta.RequestFloorMS, oldest.TimeMS+1)",
			new:    "s.meta.RequestFloorMS = max(s.meta.RequestFloorMS, oldest.TimeMS)",
			tells:  []catcher{test("TestReview_R24_ALateRetry"), script("requests")},
		},
		{
			id: "stale-term-remembered", rules: []string{"R24"},
			breaks: "a refusal for a stale term burns the request's id",
			file:   "fsm/apply.go",
			old:    "\tif v.Reason != Accepted {\n\t\tv.Index = e.Index\n",
			new:    "\tif v.Reason != Accepted {\n\t\tv.Index = e.Index\n\t\ts.remember(p, body, v)\n",
			tells:  []catcher{test("TestReview_R24_AStaleTerm"), script("requests"), script("terms")},
		},
		{
			id: "time-of-the-future", rules: []string{"R24"},
			breaks: "a request from the future is taken, and raises the floor above everybody else's when it is forgotten",
			file:   file,
			old:    "if p.RequestTimeMS > s.meta.TimeMS {",
			new:    "if p.RequestTimeMS > s.meta.TimeMS+1<<40 {",
			tells:  []catcher{test("TestReview_R24"), script("requests")},
		},
		{
			id: "refusals-not-remembered", rules: []string{"R24", "invariant 16"},
			breaks: "a retry of a refused request is decided anew, and may be admitted",
			file:   file,
			old:    "if p.Request == \"\" {\n\t\treturn\n\t}\n\ts.meta.LastRequest++",
			new:    "if p.Request == \"\" || !v.OK() {\n\t\treturn\n\t}\n\ts.meta.LastRequest++",
			tells:  []catcher{test("TestReview_R24"), test("TestField_B01"), script("requests")},
		},
	}
}
