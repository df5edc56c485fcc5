package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

// B01: Add(D->n1) and Move(D, from nowhere, to n2) race. The first in the log wins, the other learns the winner's id, and
// one start is all that is ever ordered: in one entry or in two, in either order, with the leader lost between the two.
func TestField_B01_OneOfTwoRacingOperatorsWins(t *testing.T) {
	for seed := range uint64(300) {
		pick := scenario.Seeded(seed)
		c := newCluster(t, 1)
		race := []fsm.Proposal{
			request("add", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}),
			request("move", 0, &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, To: "n2"}),
		}
		if pick(2) == 0 {
			race[0], race[1] = race[1], race[0]
		}
		var first, second fsm.Verdict
		switch pick(3) {
		case 0:
			vs := c.entry(race...)
			first, second = vs[0], vs[1]
		case 1:
			first, second = c.entry(race[0])[0], c.entry(race[1])[0]
		default: // the leader of term 1 is lost in between; what it had proposed is retried by the next one
			first = c.entry(race[0])[0]
			stale := race[1]
			stale.Term, c.term = 1, 2
			c.ok(&fsm.BeginTerm{Server: "s2"})
			require.Equal(t, fsm.StaleTerm, c.entry(stale)[0].Reason)
			second = c.entry(race[1])[0]
		}
		require.Equal(t, fsm.Accepted, first.Reason)
		require.Equal(t, fsm.OperatorExists, second.Reason)
		require.Equal(t, first.Facts.Operator, second.Facts.Operator, "the loser names the winner")
		require.Contains(t, second.Sentence(), first.Facts.Operator.String())
		require.Equal(t, first.Facts.Node, second.Facts.Node)
		want := []pair{{fsm.OrderStart, 1, first.Facts.Epoch}}
		require.ElementsMatch(t, want, append(c.pairs("n1"), c.pairs("n2")...))
		require.Equal(t, 1, c.s.OperatorCount())

		// Both clients ask again with their ids: the same answers, and nothing new.
		c.unchanged(func() {
			for i, v := range []fsm.Verdict{first, second} {
				again := c.entry(race[i])[0]
				require.True(t, again.Replayed)
				require.Equal(t, v.Facts, again.Facts)
				require.Equal(t, v.Reason, again.Reason)
			}
		})
		// The loser's node has nothing to say.
		loser := fsm.NodeName("n1")
		if first.Facts.Node == "n1" {
			loser = "n2"
		}
		c.unchanged(func() {
			require.Equal(t, fsm.ReportStale, c.report(loser, fsm.ReportRunning, 1, first.Facts.Epoch, 0))
			require.Equal(t, fsm.ReportInert, c.report(loser, fsm.ReportStopped, 1, first.Facts.Epoch, 0))
		})
		require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 1, 0))
		require.Equal(t, fsm.Running, c.row(1).Phase)
	}
}

// B05: the epoch that a Move raises itself does not make it stale; one that something else raised does.
func TestField_B05_AnOperatorsOwnStepDoesNotCancelIt(t *testing.T) {
	c := newCluster(t, 1)
	e1 := c.runs(1, "n1")
	v := c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, From: "n1", To: "n2", ExpectEpoch: e1})
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 0))
	e2 := c.row(1).Epoch
	require.Greater(t, e2, e1)
	require.Equal(t, v.Facts.Operator, c.row(1).Slot, "still in its slot under its own new epoch")
	require.Equal(t, fsm.ReportCounted, c.report("n2", fsm.ReportRunning, 1, e2, 0))
	op, _ := c.s.Operator(v.Facts.Operator)
	require.Equal(t, fsm.OpDone, op.Result)
	require.Equal(t, e2, op.Epoch)

	// A foreign change: n2 is lost while the next Move waits for it, and somebody acts on what was.
	v = c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, From: "n2", To: "n3", ExpectEpoch: e2})
	c.expire("n2")
	e3 := c.row(1).Epoch
	require.Greater(t, e3, e2, "an origin that expired counts as stopped")
	require.Equal(t, v.Facts.Operator, c.row(1).Slot)
	c.expire("n3")
	op, _ = c.s.Operator(v.Facts.Operator)
	require.Equal(t, fsm.OpFailed, op.Result)
	require.Equal(t, fsm.EndedByExpiry, op.Reason)
	require.Equal(t, fsm.Absent, c.row(1).Phase)
	c.unchanged(func() {
		for _, e := range []fsm.Epoch{e1, e2, e3} {
			require.Equal(t, fsm.EpochMismatch, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1", ExpectEpoch: e}).Reason)
		}
	})
}

// forgetful keeps next to nothing, so that what happened is soon forgotten.
func forgetful(c *cluster) {
	p := fsm.DefaultPolicy()
	p.KeepOperators, p.KeepHistory, p.KeepHistoryEach, p.KeepRequests = 2, 2, 1, 2
	p.FailAfter = 0
	c.ok(&fsm.SetPolicy{Policy: p})
}

// B09 (a): a removal is complete and forgotten; its "stopped" comes once more. Nothing happens, since D is not wanted.
func TestField_B09a_StoppedOfWhatWasRemovedIsNothing(t *testing.T) {
	c := newCluster(t, 5)
	forgetful(c)
	e := c.runs(1, "n1")
	op := c.ok(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1}).Facts.Operator
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	for d := range fsm.DispatcherID(4) {
		c.runs(d+2, "n2")
	}
	_, known := c.s.Operator(op)
	require.False(t, known, "the removal is forgotten")
	c.unchanged(func() {
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, e, 20))
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, e, 0))
	})
	for row := range c.s.AbsentDispatchers(1) {
		require.Equal(t, c.trigger(), row.ID, "it came back")
	}
}

// B09 (b): D is wanted, its node stops it because of an old Stop, and no operator is there. The state wants it, so it is
// absent and will be placed.
func TestField_B09b_StoppedOfWhatIsWantedIsPlacedAgain(t *testing.T) {
	c := newCluster(t, 1)
	c.runs(1, "n1")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 30))
	var absent []fsm.DispatcherID
	for row := range c.s.AbsentDispatchers(1) {
		absent = append(absent, row.ID)
	}
	require.Equal(t, []fsm.DispatcherID{1, c.trigger()}, absent)
	require.Equal(t, fsm.At(30), c.row(1).Position)
	c.runs(1, "n2")
}

// B09 (c): as (a), but 10,000 commands and a snapshot later.
func TestField_B09c_StoppedOfWhatWasRemovedLongAgoIsNothing(t *testing.T) {
	c := newCluster(t, 6)
	forgetful(c)
	e := c.runs(1, "n1")
	c.ok(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1})
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	pick := scenario.Seeded(9)
	commands := 0
	for commands < 10_000 {
		d := fsm.DispatcherID(2 + pick(5))
		to := fsm.NodeName(fmt.Sprintf("n%d", 2+pick(2)))
		batch := []fsm.Proposal{{Command: &fsm.Tick{ElapsedMS: 100, Base: c.inc("n1"), Bits: []byte{0b111}}}}
		row := c.row(d)
		if owner, placed := c.s.NodeOf(row.Incarnation); !placed {
			batch = append(batch, fsm.Proposal{Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d, To: to}})
		} else {
			what := []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped}[pick(2)]
			batch = append(batch, fsm.Proposal{Command: &fsm.ReportPlacements{Node: owner.Name, Incarnation: row.Incarnation, Reports: []fsm.PlacementReport{
				{PlacementPosition: fsm.PlacementPosition{Dispatcher: d, Epoch: row.Epoch}, What: what},
			}}})
		}
		for _, v := range c.apply(batch...) {
			require.Equal(t, fsm.Accepted, v.Reason)
		}
		commands += len(batch)
	}
	c.restart()
	c.unchanged(func() {
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, e, 20))
		require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStartFailed, 1, e, 0))
		require.Equal(t, fsm.ReportStale, c.report("n1", fsm.ReportRunning, 1, e, 0), "and what still runs is told to stop")
	})
	require.Equal(t, 5, c.spans())
}

// B11: the recovery of n1 acts on a list that is one entry old. Its proposal carries what it was based on.
func TestField_B11_ADecisionFromAnOldListIsRefused(t *testing.T) {
	c := newCluster(t, 1)
	e1 := c.runs(1, "n1")
	list := c.row(1) // what the recovery loop has read
	require.Equal(t, e1, list.Epoch)
	c.move("n1", "n2")
	c.expire("n1")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 1, 0))
	owner := c.row(1)
	c.unchanged(func() {
		v := c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n3", ExpectEpoch: list.Epoch})
		require.Equal(t, fsm.EpochMismatch, v.Reason)
		require.Equal(t, owner.Epoch, v.Facts.Epoch)
		require.Equal(t, fsm.NodeName("n2"), v.Facts.Node)
		v = c.do(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, From: "n1", To: "n3"})
		require.Equal(t, fsm.NotOwner, v.Reason)
		require.Equal(t, fsm.NodeName("n2"), v.Facts.Node)
		v = c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n3"})
		require.Equal(t, fsm.AlreadyOwned, v.Reason)
		require.Equal(t, fsm.NodeName("n2"), v.Facts.Node)
		v = c.do(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1, ExpectEpoch: list.Epoch})
		require.Equal(t, fsm.EpochMismatch, v.Reason)
	})
	require.Equal(t, owner, c.row(1))
}

// B22: after pause and resume D lives on n2. The loss of n1, which once had it, does not touch it.
func TestField_B22_TheLossOfAFormerOwnerTouchesNothing(t *testing.T) {
	c := newCluster(t, 2)
	c.runs(1, "n1")
	c.ok(&fsm.PauseChangefeed{Name: "shop"})
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	c.ok(&fsm.ResumeChangefeed{Name: "shop"})
	c.runs(1, "n2")
	before := c.row(1)
	c.restart()
	c.expire("n1")
	require.Equal(t, before, c.row(1))
	require.Equal(t, uint32(1), c.s.Load(c.inc("n2")).Placements)
	for row := range c.s.DispatchersOn(c.inc("n1")) {
		t.Errorf("n1 still has dispatcher %d", row.ID)
	}
}

// B22, the kind of fault: every secondary index equals the one derived from the rows, after every entry and every restore.
// CheckInvariants makes the recomputation; what reads through the indexes is compared here with a pass over all rows.
func TestField_B22_IndexesEqualARecomputation(t *testing.T) {
	for seed := range uint64(4) {
		l := scenario.NewRandomLog(scenario.Seeded(seed))
		for i := range 250 {
			l.Next()
			s := l.State()
			require.NoError(t, s.CheckInvariants(), "seed %d, entry %d", seed, i+1)
			if i%5 == 0 {
				requireReadsFit(t, restoredFrom(t, s.View()))
			}
			requireReadsFit(t, s)
		}
	}
}

func requireReadsFit(t *testing.T, s *fsm.State) {
	t.Helper()
	on, absent := map[fsm.Incarnation][]fsm.DispatcherID{}, map[fsm.ChangefeedID][]fsm.DispatcherID{}
	loads, orders := map[fsm.Incarnation]fsm.Load{}, map[fsm.Incarnation]int{}
	for row := range s.Dispatchers() {
		if row.Phase == fsm.Absent {
			table, _ := s.Table(row.Table)
			absent[table.Changefeed] = append(absent[table.Changefeed], row.ID)
			continue
		}
		on[row.Incarnation] = append(on[row.Incarnation], row.ID)
		load := loads[row.Incarnation]
		load.Placements++
		if row.HasRun {
			load.Set++
			load.SetHash += fsm.PairHash(row.ID, row.Epoch)
		}
		loads[row.Incarnation] = load
		if row.Phase != fsm.Running {
			orders[row.Incarnation]++
		}
	}
	for n := range s.Nodes() {
		var have []fsm.DispatcherID
		for row := range s.DispatchersOn(n.Incarnation) {
			have = append(have, row.ID)
		}
		require.Equal(t, on[n.Incarnation], have)
		require.Equal(t, loads[n.Incarnation], s.Load(n.Incarnation))
		require.Equal(t, orders[n.Incarnation], s.PendingCount(n.Incarnation))
		require.Equal(t, orders[n.Incarnation] > 0, s.HasPending(n.Incarnation))
	}
	for feed := range s.Changefeeds() {
		var have []fsm.DispatcherID
		for row := range s.AbsentDispatchers(feed.ID) {
			have = append(have, row.ID)
		}
		require.Equal(t, absent[feed.ID], have)
	}
}

// phases are the steps of every operator, each as a way to get there. The dispatcher is 1; what it runs on is n1 unless
// its name says n2; a move goes from n1 to n2.
func phases() map[string]func(c *cluster) {
	moving := func(c *cluster) { c.runs(1, "n1"); c.move("n1", "n2") }
	arriving := func(c *cluster) { moving(c); c.says(fsm.ReportStopped, 1, 0) }
	cancel := func(c *cluster) { c.ok(&fsm.CancelOperator{Op: c.row(1).Slot}) }
	return map[string]func(c *cluster){
		"absent":                     func(*cluster) {},
		"add starting":               func(c *cluster) { c.add(1, "n1") },
		"running":                    func(c *cluster) { c.runs(1, "n1") },
		"move origin stopping":       moving,
		"move destination starting":  arriving,
		"aborting add":               func(c *cluster) { c.add(1, "n1"); cancel(c) },
		"aborting move, origin":      func(c *cluster) { moving(c); cancel(c) },
		"aborting move, destination": func(c *cluster) { arriving(c); cancel(c) },
		"pause stopping":             func(c *cluster) { c.runs(1, "n1"); c.ok(&fsm.PauseChangefeed{Name: "shop"}) },
		"remove stopping":            func(c *cluster) { c.runs(1, "n1"); c.ok(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1}) },
	}
}

// events are what can happen to a placement from outside.
func events() map[string]func(c *cluster) {
	say := func(what fsm.ReportKind) func(c *cluster) {
		return func(c *cluster) {
			if row := c.row(1); row.Phase != fsm.Absent && row.Phase != 0 {
				c.says(what, 1, 0)
			} else {
				c.report("n1", what, 1, 2, 0)
			}
		}
	}
	end := func(n fsm.NodeName) func(c *cluster) { return func(c *cluster) { c.expire(n) } }
	bye := func(n fsm.NodeName) func(c *cluster) {
		return func(c *cluster) { c.ok(&fsm.Goodbye{Node: n, Incarnation: c.inc(n)}) }
	}
	return map[string]func(c *cluster){
		"running":        say(fsm.ReportRunning),
		"stopped":        say(fsm.ReportStopped),
		"start failed":   say(fsm.ReportStartFailed),
		"n1 expires":     end("n1"),
		"n2 expires":     end("n2"),
		"n1 goodbye":     bye("n1"),
		"n2 goodbye":     bye("n2"),
		"n1 fenced":      func(c *cluster) { c.ok(&fsm.FenceNode{Node: "n1"}) },
		"n1 and n2 lost": func(c *cluster) { c.expire("n2"); c.expire("n1") },
		"n2 restarts":    func(c *cluster) { c.expire("n2"); c.register("n2") },
		"stale reports": func(c *cluster) {
			c.unchanged(func() {
				for _, what := range []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped, fsm.ReportStartFailed} {
					require.NotEqual(c.t, fsm.ReportCounted, c.report("n3", what, 1, c.row(1).Epoch, 99))
					require.NotEqual(c.t, fsm.ReportCounted, c.report("n1", what, 1, c.row(1).Epoch+7, 99))
				}
			})
		},
	}
}

// stands says where dispatcher 1 is, in few words.
func (c *cluster) stands() string {
	row, there := c.s.Dispatcher(1)
	if !there {
		return "gone"
	}
	if row.Phase == fsm.Absent {
		return "absent"
	}
	owner, _ := c.s.NodeOf(row.Incarnation)
	text := fmt.Sprintf("%s on %s", row.Phase, owner.Name)
	if op, ok := c.s.Operator(row.Slot); ok {
		text += " in " + op.Kind.String()
		if op.Aborting {
			text += ", aborting"
		}
	}
	return text
}

// B25: every event in every phase has a defined result, a node that is lost between the two phases of an add among them.
func TestField_B25_EveryEventInEveryPhaseIsDefined(t *testing.T) {
	const (
		absent   = "absent"
		gone     = "gone"
		starting = "starting on n1 in add"
		running  = "running on n1"
		origin   = "stopping on n1 in move"
		dest     = "starting on n2 in move"
		landed   = "running on n2"
		addEnds  = "stopping on n1 in add, aborting"
		fromEnds = "stopping on n1 in move, aborting"
		destEnds = "stopping on n2 in move, aborting"
		pausing  = "stopping on n1 in stop"
		removing = "stopping on n1 in remove"
	)
	columns := []string{
		"running", "stopped", "start failed", "n1 expires", "n2 expires", "n1 goodbye", "n2 goodbye", "n1 fenced", "n1 and n2 lost",
		"n2 restarts", "stale reports",
	}
	table := map[string][]string{
		"absent":                     {absent, absent, absent, absent, absent, absent, absent, absent, absent, absent, absent},
		"add starting":               {running, absent, absent, absent, starting, absent, starting, starting, absent, starting, starting},
		"running":                    {running, absent, running, absent, running, absent, running, running, absent, running, running},
		"move origin stopping":       {origin, dest, dest, dest, fromEnds, dest, fromEnds, origin, absent, fromEnds, origin},
		"move destination starting":  {landed, absent, absent, dest, absent, dest, absent, dest, absent, absent, dest},
		"aborting add":               {addEnds, absent, absent, absent, addEnds, absent, addEnds, addEnds, absent, addEnds, addEnds},
		"aborting move, origin":      {fromEnds, absent, absent, absent, fromEnds, absent, fromEnds, fromEnds, absent, fromEnds, fromEnds},
		"aborting move, destination": {destEnds, absent, absent, destEnds, absent, destEnds, absent, destEnds, absent, absent, destEnds},
		"pause stopping":             {pausing, absent, absent, absent, pausing, absent, pausing, pausing, absent, pausing, pausing},
		"remove stopping":            {removing, gone, gone, gone, removing, gone, removing, removing, gone, removing, removing},
	}
	require.Len(t, columns, len(events()))
	require.Len(t, table, len(phases()))
	for phase, setup := range phases() {
		require.Len(t, table[phase], len(columns), phase)
		for i, event := range columns {
			t.Run(phase+" x "+event, func(t *testing.T) {
				c := newCluster(t, 1)
				setup(c)
				slot := c.row(1).Slot
				happen := events()[event]
				require.NotNil(t, happen)
				happen(c)
				require.Equal(t, table[phase][i], c.stands())
				// An operator whose dispatcher has left its slot has ended, and says how.
				if slot != 0 && c.row(1).Slot != slot {
					op, known := c.s.Operator(slot)
					require.True(t, known)
					require.NotZero(t, op.Result)
				}
				// Whatever happened, the dispatcher can be brought to work, or is gone.
				settle(c)
			})
		}
	}
}

// settle lets every node confirm what it must, and then puts the dispatcher to work.
func settle(c *cluster) {
	c.t.Helper()
	for range 3 {
		if row := c.row(1); row.Phase == fsm.Stopping {
			c.says(fsm.ReportStopped, 1, 0)
		} else if row.Phase == fsm.Starting {
			c.says(fsm.ReportRunning, 1, 0)
		}
	}
	if c.stands() == "gone" {
		return
	}
	if feed, _ := c.s.Changefeed("shop"); feed.Status == fsm.ChangefeedIsPaused {
		c.ok(&fsm.ResumeChangefeed{Name: "shop"})
	}
	if c.row(1).Phase == fsm.Absent {
		c.runs(1, "n3")
	}
	require.Equal(c.t, fsm.Running, c.row(1).Phase)
}
