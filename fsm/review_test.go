package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// The state machine's half of R1: a placement that was reported stopped or failed never comes back, whatever is said of
// it later, and no start for it is ever ordered again.
func TestReview_R01_ARepeatedOrLateStartNeverRevivesAPlacement(t *testing.T) {
	for _, end := range []fsm.ReportKind{fsm.ReportStartFailed, fsm.ReportStopped} {
		t.Run(end.String(), func(t *testing.T) {
			c := newCluster(t, 1)
			e1 := c.add(1, "n1").Facts.Epoch
			require.Equal(t, []pair{{fsm.OrderStart, 1, e1}}, c.pairs("n1"))
			require.Equal(t, fsm.ReportCounted, c.report("n1", end, 1, e1, 0))
			require.Equal(t, fsm.Absent, c.row(1).Phase)
			never := func() {
				t.Helper()
				require.Empty(t, c.pairs("n1"))
			}
			never()
			// The repeated start arrived, and was obeyed by a node that had forgotten.
			c.unchanged(func() { require.Equal(t, fsm.ReportStale, c.report("n1", fsm.ReportRunning, 1, e1, 0)) })
			never()
			e2 := c.add(1, "n2").Facts.Epoch
			require.Greater(t, e2, e1)
			c.unchanged(func() {
				require.Equal(t, fsm.ReportStale, c.report("n1", fsm.ReportRunning, 1, e1, 0))
				require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, e1, 99))
				require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStartFailed, 1, e1, 99))
			})
			never()
			require.Equal(t, fsm.ReportCounted, c.report("n2", fsm.ReportRunning, 1, e2, 0))
			// The epoch of n2 in the mouth of n1 does not count either.
			c.unchanged(func() { require.Equal(t, fsm.ReportInert, c.report("n1", fsm.ReportStopped, 1, e2, 99)) })
			never()
			require.Equal(t, fsm.At(10), c.row(1).Position)
		})
	}
}

// R2: a tick is refused per name, so that the ack of a refused incarnation is not released although its tick committed.
func TestReview_R02_ATickRefusesPerName(t *testing.T) {
	c := newCluster(t, 1)
	n1, n2, n3 := c.inc("n1"), c.inc("n2"), c.inc("n3")
	tick := &fsm.Tick{ElapsedMS: 100, Base: n1, Bits: []byte{0b111}}
	heard := c.ok(tick)
	require.Empty(t, heard.RefusedNames)
	c.ok(&fsm.ExpireNode{Node: "n1", Incarnation: n1, ExpectTick: heard.Index})
	v := c.ok(tick)
	require.Equal(t, []fsm.Incarnation{n1}, v.RefusedNames)
	last := func(n fsm.NodeName) uint64 { node, _ := c.s.Node(n); return node.LastTick }
	require.Equal(t, []uint64{heard.Index, v.Index, v.Index}, []uint64{last("n1"), last("n2"), last("n3")})

	// The same within one entry, and for a fence. Names of nobody are refused too.
	both := c.all(&fsm.ExpireNode{Node: "n2", Incarnation: n2, ExpectTick: v.Index}, tick, &fsm.FenceNode{Node: "n3", Incarnation: n3}, tick,
		&fsm.Tick{Base: n3 + 1, Bits: []byte{1}})
	require.Equal(t, fsm.Accepted, both[0].Reason)
	require.Equal(t, []fsm.Incarnation{n1, n2}, both[1].RefusedNames)
	require.Equal(t, []fsm.Incarnation{n1, n2, n3}, both[3].RefusedNames)
	require.Equal(t, []fsm.Incarnation{n3 + 1}, both[4].RefusedNames)
	require.Equal(t, v.Index, last("n2"))
	require.Equal(t, both[1].Index, last("n3"))

	// The other order: the tick comes first, so the expiry that expects an older one is refused.
	c = newCluster(t, 1)
	first := c.ok(tick)
	both = c.all(tick, &fsm.ExpireNode{Node: "n1", Incarnation: n1, ExpectTick: first.Index})
	require.Empty(t, both[0].RefusedNames)
	require.Equal(t, fsm.StaleExpire, both[1].Reason)
	require.Equal(t, both[0].Index, both[1].Facts.Have)
}

// R3: ticks name incarnations. A name that is taken over by a new incarnation ahead of the tick in the log does not get
// the old one's tick.
func TestReview_R03_ATickNamesIncarnationsNotSlots(t *testing.T) {
	c := newCluster(t, 1)
	old := c.inc("n1")
	tick := &fsm.Tick{ElapsedMS: 100, Base: old, Bits: []byte{1}}
	node, _ := c.s.Node("n1")
	vs := c.all(
		&fsm.ExpireNode{Node: "n1", Incarnation: old, ExpectTick: node.LastTick},
		&fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1},
		&fsm.RegisterNode{Node: "m", LeaseMS: 2000, ClockClass: 1, Protocol: 1},
	)
	registered := vs[1].Index
	require.Equal(t, []fsm.Incarnation{old}, c.ok(tick).RefusedNames)
	node, _ = c.s.Node("n1")
	require.Equal(t, registered, node.LastTick, "the new incarnation was not heard")

	// Numbers are dense and never come back, however often names do.
	seen := map[fsm.Incarnation]bool{}
	last := c.s.Meta().LastIncarnation
	for i := range 300 {
		c.expire("n1")
		inc := c.register("n1")
		require.False(t, seen[inc])
		seen[inc] = true
		require.Equal(t, last+fsm.Incarnation(i)+1, inc)
	}
	// A bitmap over all of them finds the one that lives.
	wide := &fsm.Tick{Base: last + 1, Bits: make([]byte, 300/8+1)}
	for i := range wide.Bits {
		wide.Bits[i] = 0xff
	}
	v := c.ok(wide)
	require.Len(t, v.RefusedNames, len(wide.Bits)*8-1)
	require.NotContains(t, v.RefusedNames, c.inc("n1"))
}

// R11: epochs, op ids and incarnations come from sequences, never from the log index: an entry is a batch.
func TestReview_R11_OneEntryIssuesDistinctNumbers(t *testing.T) {
	c := newCluster(t, 1)
	n1, _ := c.s.Node("n1")
	vs := c.all(
		&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"},
		&fsm.ExpireNode{Node: "n1", Incarnation: n1.Incarnation, ExpectTick: n1.LastTick},
		&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"},
		&fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1},
		&fsm.RegisterNode{Node: "n4", LeaseMS: 2000, ClockClass: 1, Protocol: 1},
	)
	for _, v := range vs {
		require.Equal(t, fsm.Accepted, v.Reason)
		require.Equal(t, c.index, v.Index)
	}
	numbers := []uint64{
		uint64(vs[0].Facts.Operator), uint64(vs[0].Facts.Epoch), uint64(vs[2].Facts.Operator), uint64(vs[2].Facts.Epoch),
	}
	for i := 1; i < len(numbers); i++ {
		require.Greater(t, numbers[i], numbers[i-1])
	}
	require.Equal(t, vs[3].Facts.Incarnation+1, vs[4].Facts.Incarnation)
	require.Equal(t, vs[2].Facts.Epoch, c.row(1).Epoch)
	require.Equal(t, fsm.Epoch(numbers[3]), c.s.Meta().LastEpoch)
	// The first placement's word does not count for the second.
	c.unchanged(func() {
		require.Equal(t, fsm.ReportInert, c.report("n2", fsm.ReportStopped, 1, vs[0].Facts.Epoch, 50))
	})
}

// R22: a dispatcher that dies alone becomes absent, with its reason kept, and can be placed again; what does not fit is
// inert. Each cell of the table of reports, with and without a position.
func TestReview_R22_EveryReportHasADefinedEffect(t *testing.T) {
	type effect struct {
		answer fsm.Reason
		phase  fsm.Phase
	}
	counted := func(p fsm.Phase) effect { return effect{fsm.ReportCounted, p} }
	inert := func(p fsm.Phase) effect { return effect{fsm.ReportInert, p} }
	setups := map[fsm.Phase]func(c *cluster){
		fsm.Starting: func(c *cluster) { c.add(1, "n1") },
		fsm.Running:  func(c *cluster) { c.runs(1, "n1") },
		fsm.Stopping: func(c *cluster) { c.runs(1, "n1"); c.ok(&fsm.PauseChangefeed{Name: "shop"}) },
	}
	table := map[fsm.Phase]map[fsm.ReportKind]effect{
		fsm.Starting: {
			fsm.ReportRunning: counted(fsm.Running), fsm.ReportStopped: counted(fsm.Absent), fsm.ReportStartFailed: counted(fsm.Absent),
		},
		fsm.Running: {
			fsm.ReportRunning: inert(fsm.Running), fsm.ReportStopped: counted(fsm.Absent), fsm.ReportStartFailed: inert(fsm.Running),
		},
		fsm.Stopping: {
			fsm.ReportRunning: inert(fsm.Stopping), fsm.ReportStopped: counted(fsm.Absent), fsm.ReportStartFailed: counted(fsm.Absent),
		},
	}
	for phase, setup := range setups {
		for what, want := range table[phase] {
			for _, ts := range []uint64{0, 5, 50} {
				t.Run(fmt.Sprintf("%s in %s at %d", what, phase, ts), func(t *testing.T) {
					c := newCluster(t, 1)
					setup(c)
					require.Equal(t, phase, c.row(1).Phase)
					slot := c.row(1).Slot
					require.Equal(t, want.answer, c.says(what, 1, ts))
					require.Equal(t, want.phase, c.row(1).Phase)
					if want.phase != fsm.Absent {
						return
					}
					if what == fsm.ReportStopped {
						require.Equal(t, fsm.At(max(10, ts)), c.row(1).Position, "a stop without a position, or below, keeps the stored one")
					}
					require.Zero(t, c.row(1).Slot)
					op, known := c.s.Operator(slot)
					require.Equal(t, slot != 0, known)
					require.Equal(t, slot != 0, op.Result != 0)
					var history []fsm.PlacementRecord
					for r := range c.s.History(1) {
						history = append(history, r)
					}
					require.Len(t, history, 1)
					require.NotEmpty(t, history[0].Reason)
					if phase == fsm.Stopping {
						c.ok(&fsm.ResumeChangefeed{Name: "shop"})
					}
					c.runs(1, "n2")
				})
			}
		}
	}
}

// R22 and invariant 14: a position is raised by a stop of the then-current placement, and by nothing else.
func TestReview_R22_OnlyAStopRaisesThePosition(t *testing.T) {
	c := newCluster(t, 1)
	c.add(1, "n1")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 1, 90))
	require.Equal(t, fsm.At(10), c.row(1).Position)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 20))
	require.Equal(t, fsm.At(20), c.row(1).Position)
	c.add(1, "n1")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStartFailed, 1, 90))
	require.Equal(t, fsm.At(20), c.row(1).Position, "a start that failed has written nothing")
}

func request(id fsm.RequestID, timeMS uint64, cmd fsm.Command) fsm.Proposal {
	return fsm.Proposal{Request: id, RequestTimeMS: timeMS, Command: cmd}
}

// R24 (a): a retry that comes after its answer was forgotten does not take effect a second time.
func TestReview_R24_ALateRetryIsRefusedNotRepeated(t *testing.T) {
	c := newCluster(t, 2)
	policy := fsm.DefaultPolicy()
	policy.KeepRequests, policy.KeepRequestsMS = 3, 5000
	c.ok(&fsm.SetPolicy{Policy: policy})
	c.ok(&fsm.Tick{})
	c.ok(&fsm.Tick{ElapsedMS: 1000})
	first := request("late", 900, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
	v := c.entry(first)[0]
	require.Equal(t, fsm.Accepted, v.Reason)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 0))

	// By count.
	for i := range 3 {
		c.entry(request(fsm.RequestID(fmt.Sprintf("other%d", i)), 1000, &fsm.CancelOperator{Op: 1}))
	}
	c.unchanged(func() {
		late := c.entry(first)[0]
		require.Equal(t, fsm.RequestTooOld, late.Reason)
		require.False(t, late.Replayed)
		require.Equal(t, uint64(900), late.Facts.Have)
		require.Equal(t, uint64(901), late.Facts.Want)
	})
	require.Equal(t, fsm.Absent, c.row(1).Phase)
	c.restart()
	require.Equal(t, fsm.RequestTooOld, c.entry(first)[0].Reason)

	// By age, also when a leader's clock runs fast: its ticks are bounded, and the floor rises with what is forgotten.
	aged := request("aged", 1000, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"})
	require.Equal(t, fsm.Accepted, c.entry(aged)[0].Reason)
	require.True(t, c.entry(aged)[0].Replayed)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 2, 0))
	for range 6 {
		c.ok(&fsm.Tick{ElapsedMS: 1 << 30})
	}
	require.Equal(t, uint64(7000), c.s.Meta().TimeMS)
	require.Equal(t, fsm.RequestTooOld, c.entry(aged)[0].Reason)
	require.Equal(t, fsm.Absent, c.row(2).Phase)
}

// R24 (b): STALE_TERM and an unknown level are not answers, so they do not burn the id. Everything else is.
func TestReview_R24_AStaleTermDoesNotBurnTheRequest(t *testing.T) {
	c := newCluster(t, 1)
	c.ok(&fsm.BeginTerm{Server: "s1"})
	add := request("r", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"})
	stale, high := add, add
	stale.Term, high.Level = 7, 2
	require.Equal(t, fsm.StaleTerm, c.entry(stale)[0].Reason)
	require.Equal(t, fsm.FeatureLevel, c.entry(high)[0].Reason)
	_, known := c.s.Request("r")
	require.False(t, known)
	v := c.entry(add)[0]
	require.Equal(t, fsm.Accepted, v.Reason)

	// The first answer, for good: after a failover, a snapshot, with whatever term.
	c.restart()
	c.term = 9
	c.ok(&fsm.BeginTerm{Server: "s2"})
	again := c.entry(add)[0]
	require.True(t, again.Replayed)
	require.Equal(t, v.Facts, again.Facts)
	require.Equal(t, v.Index, again.Index)
	require.Equal(t, v.Index, c.entry(stale)[0].Index)

	refused := request("no", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"})
	no := c.entry(refused)[0]
	require.Equal(t, fsm.OperatorExists, no.Reason)
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 0))
	c.unchanged(func() {
		again = c.entry(refused)[0]
		require.True(t, again.Replayed)
		require.Equal(t, no.Facts, again.Facts)
	})
}

// R24 (c): an id names one request.
func TestReview_R24_AnIDWithAnotherBodyIsRefused(t *testing.T) {
	c := newCluster(t, 2)
	require.Equal(t, fsm.Accepted, c.entry(request("r", 0, &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}))[0].Reason)
	c.unchanged(func() {
		for _, other := range []fsm.Command{
			&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"},
			&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"},
			&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: 1, To: "n1"},
			&fsm.PauseChangefeed{Name: "shop"},
			&fsm.ResumeChangefeed{Name: "shop"},
		} {
			v := c.entry(request("r", 0, other))[0]
			require.Equal(t, fsm.RequestIDReused, v.Reason)
			require.False(t, v.Replayed)
		}
	})
}

// R29, the state machine's half: the registration counts as the first tick, so a node that was never heard can expire, and
// not at once by someone who expects nothing.
func TestReview_R29_RegistrationIsTheFirstTick(t *testing.T) {
	c := newCluster(t, 1)
	v := c.ok(&fsm.RegisterNode{Node: "n9", LeaseMS: 2000, ClockClass: 1, Protocol: 1})
	node, _ := c.s.Node("n9")
	require.Equal(t, v.Index, node.LastTick)
	expire := func(tick uint64) fsm.Reason {
		return c.do(&fsm.ExpireNode{Node: "n9", Incarnation: v.Facts.Incarnation, ExpectTick: tick}).Reason
	}
	require.Equal(t, fsm.StaleExpire, expire(0))
	require.Equal(t, fsm.StaleExpire, expire(v.Index+1))
	require.Equal(t, fsm.Accepted, expire(v.Index))
	// A new incarnation begins anew: the old expectation does not fit it.
	inc := c.register("n9")
	require.Equal(t, fsm.StaleIncarnation, expire(v.Index))
	require.Equal(t, fsm.StaleExpire, c.do(&fsm.ExpireNode{Node: "n9", Incarnation: inc, ExpectTick: v.Index}).Reason)
}

// R38, the state machine's half: the last issued number is known exactly, also after a restart, so that a server can see
// that a pair above it proves itself stale; and such a pair changes nothing.
func TestReview_R38_APairAboveTheLastNumberChangesNothing(t *testing.T) {
	c := newCluster(t, 2)
	highest := c.runs(1, "n1")
	require.Equal(t, highest, c.s.Meta().LastEpoch)
	c.restart()
	require.Equal(t, highest, c.s.Meta().LastEpoch)
	c.unchanged(func() {
		for _, what := range []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped, fsm.ReportStartFailed} {
			require.NotEqual(t, fsm.ReportCounted, c.report("n1", what, 1, highest+1, 99))
			require.NotEqual(t, fsm.ReportCounted, c.report("n1", what, 77, highest+1, 99))
		}
	})
	require.Equal(t, highest, c.s.Meta().LastEpoch)
	op := c.add(2, "n1").Facts.Operator
	require.Equal(t, fsm.OpID(highest)+1, op)
}

// R41: the state knows which set of pairs a node must hold, so that a heartbeat that names another set shows an orphan.
func TestReview_R41_TheSetHashNamesWhatANodeHolds(t *testing.T) {
	c := newCluster(t, 4)
	n1, n2 := c.inc("n1"), c.inc("n2")
	require.Zero(t, c.s.Load(n1))
	e1, e2 := c.runs(1, "n1"), c.runs(2, "n1")
	held := func(pairs ...pair) uint64 {
		var sum uint64
		for _, p := range pairs {
			sum += fsm.PairHash(p.d, p.epoch)
		}
		return sum
	}
	both := held(pair{d: 1, epoch: e1}, pair{d: 2, epoch: e2})
	require.Equal(t, fsm.Load{Placements: 2, Set: 2, SetHash: both}, c.s.Load(n1))

	// Starting does not count: the node names a pair from the ack of running to the ack of stopped.
	e3 := c.add(3, "n1").Facts.Epoch
	require.Equal(t, fsm.Load{Placements: 3, Set: 2, SetHash: both}, c.s.Load(n1))
	// Stopping that has run does, until the stop is counted; stopping that never ran does not.
	c.move("n1", "n2")
	c.ok(&fsm.CancelOperator{Op: c.row(3).Slot})
	require.Equal(t, fsm.Load{Placements: 3, Set: 2, SetHash: both}, c.s.Load(n1))
	require.Equal(t, fsm.ReportCounted, c.report("n1", fsm.ReportStopped, 3, e3, 0))
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 0))
	require.Equal(t, fsm.Load{Placements: 1, Set: 1, SetHash: held(pair{d: 2, epoch: e2})}, c.s.Load(n1))
	require.Equal(t, fsm.Load{Placements: 1}, c.s.Load(n2))
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, 1, 0))
	require.Equal(t, held(pair{d: 1, epoch: c.row(1).Epoch}), c.s.Load(n2).SetHash)

	// An orphan: n1 still holds (1, e1). Its heartbeat cannot be taken for right, whatever else it holds.
	require.NotEqual(t, c.s.Load(n1).SetHash, both)
	c.restart()
	require.Equal(t, held(pair{d: 2, epoch: e2}), c.s.Load(n1).SetHash)
	c.expire("n1")
	require.Zero(t, c.s.Load(n1))
}

// R43: a destination is bound to its incarnation at admission.
func TestReview_R43_ALostIncarnationIsALostDestination(t *testing.T) {
	c := newCluster(t, 1)
	c.runs(1, "n1")
	op := c.move("n1", "n2").Facts.Operator
	c.expire("n2")
	row, _ := c.s.Operator(op)
	require.True(t, row.Aborting)
	c.register("n2")
	require.Equal(t, fsm.Stopping, c.row(1).Phase)
	require.Equal(t, fsm.OperatorExists, c.do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n2"}).Reason, "nobody may start until the origin confirms")
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 30))
	require.Equal(t, fsm.Absent, c.row(1).Phase)
	require.Empty(t, c.orders("n2"))
	row, _ = c.s.Operator(op)
	require.Equal(t, fsm.OpFailed, row.Result)
	require.Equal(t, fsm.DestinationLost, row.Reason)
	c.runs(1, "n2")

	// Also when the destination only said goodbye, or was fenced and has not expired yet.
	c.move("n2", "n3")
	c.ok(&fsm.FenceNode{Node: "n3"})
	require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, 1, 31))
	require.Equal(t, fsm.Absent, c.row(1).Phase)
	require.Empty(t, c.orders("n3"))
}

// R47: an entry is decoded as a whole before anything of it is applied.
func TestReview_R47_AnUnknownCommandStopsTheEntryBeforeItBegins(t *testing.T) {
	c := newCluster(t, 9)
	var proposals []fsm.Proposal
	for d := range fsm.DispatcherID(8) {
		proposals = append(proposals, fsm.Proposal{Term: c.term, Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d + 1, To: "n1"}})
	}
	data, err := logcodec.AppendEntry(nil, proposals)
	require.NoError(t, err)
	four, err := logcodec.AppendEntry(nil, proposals[:4])
	require.NoError(t, err)
	require.Equal(t, byte(fsm.KindAdmitOperator), data[len(four)], "the fifth command's kind")
	data[len(four)] = 200
	before := c.s.Hash()
	e, err := logcodec.DecodeEntry(c.index+1, c.term, data)
	var unknown *logcodec.UnknownCommandError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, &logcodec.UnknownCommandError{Kind: 200, Position: 4, Index: c.index + 1}, unknown)
	require.ErrorIs(t, err, logcodec.ErrEntry)
	require.ErrorContains(t, err, "nothing of the entry was applied")
	require.Equal(t, before, c.s.Hash())
	// Every cut and every trailing byte is noticed as well.
	data[len(four)] = byte(fsm.KindAdmitOperator)
	for n := range data {
		_, err := logcodec.DecodeEntry(c.index+1, c.term, data[:n])
		require.ErrorIs(t, err, logcodec.ErrEntry, "cut at %d", n)
	}
	_, err = logcodec.DecodeEntry(c.index+1, c.term, append(data, 0))
	require.ErrorIs(t, err, logcodec.ErrEntry)
	e, err = logcodec.DecodeEntry(c.index+1, c.term, data)
	require.NoError(t, err)
	require.Len(t, e.Proposals, 8)
}
