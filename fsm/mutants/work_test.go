package mutants

// workMutants break what operators, changefeeds, tables and snapshots do.
func workMutants() []mutant {
	const (
		operator   = "fsm/operator.go"
		table      = "fsm/table.go"
		changefeed = "fsm/changefeed.go"
	)
	return []mutant{
		{
			id: "abort-without-stop", rules: []string{"invariant 2", "invariant 6"},
			breaks: "an Add that is cancelled leaves its node without an order to stop",
			file:   operator,
			old:    "row.Phase == Starting {\n\t\ts.enter(row, Stopping, x)",
			new:    "row.Phase == Running {\n\t\ts.enter(row, Stopping, x)",
			tells:  []catcher{script("admission_add"), invariant("running operators are those in slots")},
		},
		{
			id: "replace-through-an-empty-slot", rules: []string{"invariant 2", "invariant 7", "replace"},
			breaks: "the operator that a removal replaces goes on beside it",
			file:   operator,
			old:    "s.finish(old, OpReplaced, why, x)",
			new:    "s.finish(0, OpReplaced, why, x)",
			tells:  []catcher{invariant("running operators are those in slots"), script("admission_add")},
		},
		{
			id: "removal-holds-nothing", rules: []string{"R06", "invariant 5", "invariant 7"},
			breaks: "the range of a running removal is free for a new dispatcher",
			file:   operator,
			old:    "\ts.removals.add(s.heldRange(row))\n\tif row.Phase == Stopping",
			new:    "\tif row.Phase == Stopping",
			tells:  []catcher{script("admission_held"), script("drop_at_every_step"), invariant("indexes equal a recomputation"), invariant("no start while a removal holds the range")},
		},
		{
			id: "removal-without-stop", rules: []string{"invariant 7", "replace"},
			breaks: "a removal of what is starting orders no stop",
			file:   operator,
			old:    "\tif row.Phase == Stopping {\n\t\ts.setDispatcher(row)\n\t} else {",
			new:    "\tif row.Phase != Running {\n\t\ts.setDispatcher(row)\n\t} else {",
			tells:  []catcher{invariant("running operators are those in slots"), script("drop_at_every_step")},
		},
		{
			id: "drop-misses-the-absent", rules: []string{"invariant 7", "B07"},
			breaks: "a dropped table keeps its dispatchers that run nowhere",
			file:   table,
			old:    "s.admit(now, ReqDrop, admission{drop: true}, x)",
			new:    "if now.Phase != Absent {\n\t\t\t\ts.admit(now, ReqDrop, admission{drop: true}, x)\n\t\t\t}",
			tells:  []catcher{script("drop_at_every_step"), script("drop_changefeed"), invariant("after a drop nothing is started")},
		},
		{
			id: "spans-overlap", rules: []string{"invariant 5"},
			breaks: "the spans of a pre-split table overlap",
			file:   table,
			old:    "\t\tfrom = to\n",
			new:    "\t\tfrom = from + to[:0]\n",
			tells:  []catcher{invariant("spans of a table never overlap")},
		},
		{
			id: "table-twice", rules: []string{"invariant 5", "tables"},
			breaks: "two tables write the same downstream table",
			file:   table,
			old:    "if id, taken := s.targets.get(target{sink, spec.Schema, spec.Name}); taken {",
			new:    "if id, taken := s.targets.get(target{sink, spec.Schema, spec.Name}); taken && id == 0 {",
			tells:  []catcher{script("refusals"), script("drop_changefeed")},
		},
		{
			id: "pause-misses-operators", rules: []string{"R21", "pause"},
			breaks: "a pause lets running operators go on",
			file:   changefeed,
			old:    "case inSlot && !op.Aborting && op.Kind != OpRemove && op.Kind != OpStop:",
			new:    "case inSlot && !op.Aborting && op.Kind == OpMove:",
			tells:  []catcher{script("pause"), invariant("a paused changefeed runs nothing")},
		},
		{
			id: "pause-misses-runners", rules: []string{"R21", "pause"},
			breaks: "a pause sets a flag and leaves dispatchers running",
			file:   changefeed,
			old:    "\tcase row.Phase == Running:\n\t\top = s.open",
			new:    "\tcase row.Phase == Running && row.Failures > 0:\n\t\top = s.open",
			tells:  []catcher{script("pause"), invariant("a paused changefeed runs nothing")},
		},
		{
			id: "resume-of-a-running-one", rules: []string{"B10", "R21"},
			breaks: "a resume of what runs already is accepted",
			file:   changefeed,
			old:    "case !feed.stopped():\n\t\treturn refused(ChangefeedNotPaused, f)",
			new:    "case feed.Status == ChangefeedIsRemoving:\n\t\treturn refused(ChangefeedNotPaused, f)",
			tells:  []catcher{script("pause"), test("TestField_B10")},
		},
		{
			id: "name-free-too-early", rules: []string{"R06"},
			breaks: "the name of a changefeed is free while its last removal still runs",
			file:   changefeed,
			old:    "case len(tables) == 0:\n",
			new:    "case len(tables) < 2:\n",
			tells:  []catcher{script("drop_changefeed"), invariant("no orphans")},
		},
		{
			id: "same-run", rules: []string{"R21", "runs"},
			breaks: "a changefeed that is set back keeps its run, so that old events and resume points count",
			file:   changefeed,
			old:    "\tfeed.Run++\n",
			new:    "\tfeed.Run += 0\n",
			tells:  []catcher{invariant("no orphans")},
		},
		{
			id: "field-not-in-the-snapshot", rules: []string{"B67", "invariant 15"},
			breaks: "a row forgets one of its fields in snapshots and in the state hash",
			file:   "fsm/rows.go",
			old:    "\tc.Bool(&d.HasRun)\n\twire.Uint(c, &d.Incarnation)",
			new:    "\twire.Uint(c, &d.Incarnation)",
			tells:  []catcher{test("TestField_B67")},
		},
		{
			id: "held-range-not-restored", rules: []string{"B67", "R06", "invariant 15"},
			breaks: "a restored state does not know what its removals hold",
			file:   "fsm/snapshot.go",
			old:    "ok && op.Kind == OpRemove {",
			new:    "ok && op.Kind == OpStop {",
			tells:  []catcher{test("TestField_B22_IndexesEqual"), invariant("indexes equal a recomputation")},
		},
		{
			id: "view-changes", rules: []string{"B69", "invariant 15"},
			breaks: "a reader's view changes under its hands",
			file:   "fsm/state.go",
			old:    "operators: d.operators.clone(),",
			new:    "operators: d.operators,",
			tells:  []catcher{test("TestField_B69")},
		},
	}
}
