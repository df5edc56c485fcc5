package fsm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
	"github.com/weir-project/weir/fsm/scenario"
)

// play runs a script, which checks the invariants after each entry, and returns what it printed.
func play(t *testing.T, script string) string {
	t.Helper()
	r, err := scenario.Run(strings.NewReader(script), t.Name(), scenario.Options{})
	require.NoError(t, err, "%s", r.Script)
	return r.Script
}

// told requires that the texts stand in the output, in this order.
func told(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		at := strings.Index(rest, text)
		require.GreaterOrEqual(t, at, 0, "%s\nis not told (any more) in\n%s", text, out)
		rest = rest[at+len(text):]
	}
}

// two has n1 to n3, and a changefeed whose table has two spans, d1 on n1 and d2 on n2, and its trigger d3 on n1.
const two = `register n1
register n2
register n3
create-changefeed shop start=10 sync-points=100 table=public.a split=m
batch
  add d1 n1
  add d2 n2
  add d3 n1
batch
  report n1 running d1 d3
  report n2 running d2

`

// R6: a table is dropped and added again while the old dispatcher's sink is still closing. The new one is held; nothing is
// ordered for the range before the old one has been confirmed stopped, and the same for a name of a changefeed.
func TestReview_R06_ARangeThatARemovalHoldsIsNotFree(t *testing.T) {
	out := play(t, two+`drop-tables shop table=public.a
add-tables shop table=public.a
add d4 n3
move d4 to=n3
orders n3
report n1 stopped d1
add d4 n3
report n2 stopped d2
add d4 n3
orders n3
`)
	told(t, out, "d4: new public.a [\"\",+inf), absent held-by=7", "add: RANGE_REMOVING op=7", "move: RANGE_REMOVING op=7", "orders for n3#3 term=1 index=11\n12 report",
		"d4: absent held-by=7 at=10 -> absent held-by=8", "add: RANGE_REMOVING op=8", "d4: absent held-by=8 at=10 -> absent at=10", "add: ACCEPTED", "start d4")

	out = play(t, two+`remove-changefeed shop
create-changefeed shop table=public.a
create-changefeed again table=public.a
add d4 n3
report n1 stopped d1 d3
report n2 stopped d2
create-changefeed shop sink=sqlite:/new table=public.a
add d4 n3
`)
	told(t, out, "create-changefeed: CHANGEFEED_REMOVING", "create-changefeed: ACCEPTED changefeed=again", "absent held-by=7", "add: RANGE_REMOVING", "changefeed shop: gone",
		"create-changefeed: ACCEPTED changefeed=shop", "add: ACCEPTED")
}

// R8: both spans wait, the permission is out, and d2's node is lost. Whoever runs d2 next starts just before the event, not
// at what was stored a minute ago, and stops at it again.
func TestReview_R08_AParticipantThatIsLostStartsAtTheEvent(t *testing.T) {
	out := play(t, two+`say n1 waiting shop ddl@60 d1 tables=public.a
say n2 waiting shop ddl@60 d2
expire n2
add d2 n3
orders n3
report n3 running d2
say n1 written shop ddl@60 d1
say n3 waiting shop ddl@60 d2
orders n3
expire n3
add d2 n1
orders n1
`)
	told(t, out, "writing perm=1 by d1", "d2: running n2#2", "absent at=60/rows", "span=[\"m\",+inf) start=60/rows",
		"passing written unpassed=1/2", "pass barrier shop ddl@60 d2@", "start=60/rows")
	require.NotContains(t, out, "perm=2", "one permission, one write")
}

// R12: the sync point at 100 comes, the create table at 50 was lost on its way. It is not fired without the table.
func TestReview_R12_NoEventOvertakesALostOne(t *testing.T) {
	out := play(t, two+`say n1 waiting shop sync@100 d1
say n2 waiting shop sync@100 d2
say n1 waiting shop sync@100 d3 earlier=50/ddl
say n1 waiting shop ddl@50 d3 add=public.b
say n1 written shop ddl@50 d3
say n1 waiting shop sync@100 d3
barriers
`)
	told(t, out, "reports=EARLIER_EVENT_OPEN", "add=public.b, writing perm=1", "new public.b", "sync@100: collecting behind=2/4 trigger-silent -> collecting behind=1/4",
		"missing d4: absent at=50/ddl")
}

// R13: the writer is stopped while it writes. "Written" counts until its placement has ended; only an end without it brings
// another permission; Move, Split and Merge of the holder are refused, of others not.
func TestReview_R13_APermissionLivesUntilItsHolderHasEnded(t *testing.T) {
	opening := two + "say n1 waiting shop ddl@60 d1 tables=public.a\nsay n2 waiting shop ddl@60 d2\n"
	for name, stop := range map[string]string{
		"pause": "pause shop\n", "fence": "fence n1\n", "drain": "start-drain n1\n",
	} {
		t.Run(name, func(t *testing.T) {
			out := play(t, opening+stop+"say n1 written shop ddl@60 d1\n")
			told(t, out, "writing perm=1 by d1 n1#1", "passing written unpassed=1/2")
		})
	}
	out := play(t, opening+"remove d1\nsay n1 written shop ddl@60 d1\nreport n1 stopped d1\nsay n2 passed shop ddl@60 d2\n")
	told(t, out, "d1: running", "stopping", "leaving", "passing written unpassed=1/1", "ended written")
	require.NotContains(t, out, "perm=2")

	out = play(t, opening+"remove d1\nreport n1 stopped d1\nsay n1 written shop ddl@60 d1 perm=1\n")
	told(t, out, "writing perm=1 by d1", "writing perm=1 by d1 n1#1 epoch=2 -> writing perm=2 by d2", "reports=REPORT_STALE")

	out = play(t, opening+"move d1 from=n1 to=n3\nsplit d1 at=c\nmerge d1,d2\nmove d2 from=n2 to=n3\n")
	told(t, out, "move: BARRIER_WRITING", "split: BARRIER_WRITING", "merge: BARRIER_WRITING", "move: ACCEPTED")
}

// R14, the state machine's half: nobody knows whether the holder wrote. Nobody writes again; a person decides.
func TestReview_R14_AnUnknownOutcomeNeedsADecision(t *testing.T) {
	opening := two + `say n1 waiting shop ddl@60 d1 tables=public.a
say n2 waiting shop ddl@60 d2
say n1 unknown shop ddl@60 d1
expire n1
say n2 written shop ddl@60 d2 perm=1
orders n2
`
	out := play(t, opening+"decide shop ddl@60 written\norders n2\n")
	told(t, out, "needs-decision perm=1 was d1", "reports=STALE_PERMISSION", "orders for n2#2", "decide: ACCEPTED", "passing written unpassed=2/2", "pass barrier shop ddl@60 d2")
	require.NotContains(t, out, "write barrier", "nobody is told to write")
	told(t, play(t, opening+"decide shop ddl@60 write-again\norders n2\n"), "writing perm=2 by d2", "write barrier shop ddl@60 perm=2 d2@4")
}

// R15, the state machine's half: an answer that is repeated because its acknowledgement was lost counts once, and the order
// is repeated until it has counted.
func TestReview_R15_RepeatedAnswersCountOnce(t *testing.T) {
	out := play(t, two+`say n1 waiting shop ddl@60 d1 tables=public.a
say n1 waiting shop ddl@60 d1
say n2 waiting shop ddl@60 d2
orders n1
orders n1
say n1 written shop ddl@60 d1
say n1 written shop ddl@60 d1
orders n1
orders n2
say n2 passed shop ddl@60 d2
say n2 passed shop ddl@60 d2
orders n2
`)
	told(t, out, "reports=REPORT_COUNTED", "reports=REPORT_INERT", "write barrier", "write barrier", "passing written unpassed=1/2",
		"reports=REPORT_INERT", "pass barrier shop ddl@60 d2", "ended written", "reports=REPORT_INERT")
	require.Equal(t, 1, strings.Count(out, "passing written unpassed=1/2\n"))
}

// R16: a participant that has passed restarts past the event and counts; a table that the DDL of a ts adds takes part in the
// sync point of that ts, since it starts in between.
func TestReview_R16_WhoIsPastTheEventCountsAsPassed(t *testing.T) {
	out := play(t, two+`say n1 waiting shop ddl@60 d1 tables=public.a
say n2 waiting shop ddl@60 d2
say n1 written shop ddl@60 d1
move d2 from=n2 to=n3
say n2 passed shop ddl@60 d2
report n2 stopped d2
orders n3
`)
	told(t, out, "stopping n2#2", "ended written", "start=60/ddl")

	out = play(t, two+`say n1 waiting shop ddl@100 d3 add=public.x
say n1 waiting shop sync@100 d1
say n2 waiting shop sync@100 d2
say n1 written shop ddl@100 d3
say n1 waiting shop sync@100 d3
add d4 n1
orders n1
report n1 running d4
say n1 written shop sync@100 d3
say n1 waiting shop sync@100 d4
say n1 passed shop sync@100 d1 d4
say n2 passed shop sync@100 d2
`)
	told(t, out, "new public.x [\"\",+inf), absent at=100/ddl", "writing perm=1 by d3", "start=100/ddl", "passing written unpassed=3/4", "ended written")
}

// R17: everybody stands at the sync point and has flushed, and not one report has come yet. The watermark is bound by what
// the nodes say, which is just before it; with the first report the state itself holds it there.
func TestReview_R17_TheWatermarkStaysBeforeAnEvent(t *testing.T) {
	out := play(t, two+`checkpoint shop to=100 *=100/ddl
checkpoint shop to=100/ddl *=100/ddl
say n1 waiting shop sync@100 d1
checkpoint shop to=100 *=100
expire n2
add d2 n1
orders n1
`)
	told(t, out, "checkpoint: CHECKPOINT_TOO_FAR node=n1#1", "watermark 10 -> 100/ddl", "CHECKPOINT_TOO_FAR changefeed=shop", "barrier 1:1:100/sync", "start=100/ddl")
}

// R21: pause, resume, removal and a new run.
func TestReview_R21_PauseResumeAndRemoveHaveRules(t *testing.T) {
	out := play(t, two+`move d1 from=n1 to=n3
say n2 waiting shop ddl@60 d2 tables=public.a
pause shop
add d1 n3
report n1 stopped d1 d3
report n2 stopped d2
state shop
resume shop from=5 force=true
state shop
remove-changefeed shop
state
`)
	told(t, out, "changefeed shop: running -> paused", "op 7: aborting, will be canceled reason=CHANGEFEED_PAUSED", "stop d2", "stop d3", "CHANGEFEED_PAUSED",
		"changefeed shop paused", "collecting behind=1/2", "d2 public.a [\"m\",+inf): absent at=60/rows",
		"run 1 -> 2", "changefeed shop running run=2 watermark=5", "absent at=5", "changefeed shop: gone")
	require.Contains(t, out, "ended void notes=\"the changefeed was set back to 5\"")

	// The trigger goes last.
	out = play(t, two+"remove-changefeed shop\nreport n1 stopped d3\nreport n1 stopped d1\nreport n2 stopped d2\n")
	told(t, out, "d3: running n1#1 epoch=6 at=10 -> absent at=10", "changefeed shop: gone", "remove d3 by-drop -> done")
}

// R25: tables start at or after the watermark and after the newest key that was granted.
func TestReview_R25_TablesStartAfterWhatWasGranted(t *testing.T) {
	out := play(t, two+`checkpoint shop to=40 *=40
add-tables shop start=39 table=public.b
say n1 waiting shop ddl@60 d1 tables=public.a
add-tables shop start=50 table=public.b
say n2 waiting shop ddl@60 d2
add-tables shop start=59 table=public.c
add-tables shop table=public.c
`)
	told(t, out, "START_TOO_OLD changefeed=shop changefeed-id=1 at=40", "new public.b [\"\",+inf), absent at=50", "START_TOO_OLD changefeed=shop changefeed-id=1 at=60/ddl",
		"new public.c [\"\",+inf), absent at=60/ddl")

	// A table that starts below an event that is not granted yet takes part in it.
	out = play(t, two+`say n1 waiting shop sync@100 d1 d3
add-tables shop start=50 table=public.b
say n2 waiting shop sync@100 d2
barriers
`)
	told(t, out, "collecting behind=1/3 -> collecting behind=2/4", "collecting behind=1/4", "missing d4: absent at=50")
}

// R26: removing one source of a Merge removes that one; the ranges of the others go on.
func TestReview_R26_RemoveOfOneSourceRemovesOne(t *testing.T) {
	out := play(t, two+"merge d1,d2\nremove d1\nreport n1 stopped d1\nreport n2 stopped d2:30\nstate shop\nadd d2 n1\n")
	told(t, out, "op 7: aborting, will be replaced", "d1: stopping", "gone", "absent at=30", "d2 public.a [\"m\",+inf): absent at=30", "add: ACCEPTED")
}

// R27: the trigger cannot be removed, split, merged or dropped.
func TestReview_R27_TheTriggerStays(t *testing.T) {
	out := play(t, two+"remove d3\nsplit d3 at=x\nmerge d2,d3\nmerge d3,d1\nmove d3 from=n1 to=n2\ndrop-tables shop table=.\nstate d3\n")
	told(t, out, "remove: TRIGGER_DISPATCHER", "split: TRIGGER_DISPATCHER", "merge: TRIGGER_DISPATCHER", "merge: TRIGGER_DISPATCHER", "move: ACCEPTED",
		"drop-tables: UNKNOWN_TABLE", "d3 trigger of shop: stopping")
}

// R28: a child is born inside an Add of its own if its target can take work then; else it is absent.
func TestReview_R28_ChildrenAreBornInsideAnAdd(t *testing.T) {
	out := play(t, two+`split d1 at=c,g targets=n2,n3,n3
start-drain n3
report n1 stopped d1
operators
cancel 8
state shop
`)
	told(t, out, "op 7: done made=d4,d5,d6", "op 8: add d4 to=n2#2", "d5: new", "absent at=10", "d6: new", "absent at=10", "op 8: add d4", "cancel: ACCEPTED op=8")
	// The parent's node is lost: the children come from the stored position.
	out = play(t, two+"checkpoint shop to=30 *=30\nsplit d1 at=c targets=n2,n3\nexpire n1\norders n2\norders n3\n")
	told(t, out, "made=d4,d5", "start=30", "start=30")
}

// R30: 100 dispatchers move one after the other; the watermark moves at every step.
func TestReview_R30_TheWatermarkMovesDuringADrain(t *testing.T) {
	const spans = 100
	c := newCluster(t, spans)
	for d := fsm.DispatcherID(1); d <= spans; d++ {
		c.runs(d, "n1")
	}
	c.runs(c.trigger(), "n2")
	c.ok(&fsm.StartDrain{Node: "n1"})
	for d := fsm.DispatcherID(1); d <= spans; d++ {
		now := 100 + 10*uint64(d)
		c.ok(&fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: d, From: "n1", To: "n2"})
		c.ok(c.checkpoint(now))
		require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportStopped, d, now+1))
		c.ok(c.checkpoint(now + 1))
		require.Equal(t, fsm.CheckpointTooFar, c.do(c.checkpoint(now+2)).Reason, "what is starting holds it")
		require.Equal(t, fsm.ReportCounted, c.says(fsm.ReportRunning, d, 0))
	}
	c.ok(&fsm.ConfirmDrain{Node: "n1", Incarnation: c.inc("n1")})
	feed, _ := c.s.Changefeed("shop")
	require.Equal(t, fsm.At(1101), feed.Watermark)
}

// checkpoint is a proposal that is right about every set, with all minima there.
func (c *cluster) checkpoint(ts uint64) *fsm.AdvanceCheckpoint {
	feed, _ := c.s.Changefeed("shop")
	m := &fsm.AdvanceCheckpoint{Changefeed: feed.ID, Run: feed.Run, To: fsm.At(ts)}
	for inc := range c.s.Crews(feed.ID) {
		_, hash := c.s.Crew(feed.ID, inc)
		m.Nodes = append(m.Nodes, fsm.NodeMinimum{Incarnation: inc, SetHash: hash, Minimum: fsm.At(ts)})
	}
	return m
}

// R33: what the table had no rows for.
func TestReview_R33_EveryRowHasAnAnswer(t *testing.T) {
	told(t, play(t, two+"add-tables shop table=public.b split=k\ndry-run merge d4,d5\nadd d4 n1\nreport n1 running d4\nmerge d4,d5\n"),
		"dry-run merge: ACCEPTED", "merge: ACCEPTED", "d5: absent at=10 -> absent op=")
	told(t, play(t, two+"$m = move d1 from=n1 to=n2\ncancel $m\nadd d1 n2\nsplit d1 at=c\nmerge d1,d2\ncancel $m\nremove d1\ncancel $m\n"),
		"aborting", "add: OPERATOR_EXISTS", "split: OPERATOR_EXISTS", "merge: OPERATOR_EXISTS", "cancel: ACCEPTED", "remove: ACCEPTED", "cancel: OPERATOR_FINISHED op=7 kind=move result=replaced")
	told(t, play(t, two+"pause shop\nresume shop\nadd d1 n1\ncancel 7\nremove d1\n"), "add: OPERATOR_EXISTS op=7 kind=stop", "cancel: NOT_CANCELLABLE", "remove: ACCEPTED")
}

// R34: the first spec counts; what leaves lies inside the influence; an event that is left alone ends void.
func TestReview_R34_OneSpecAndNoEventWithoutParticipants(t *testing.T) {
	out := play(t, two+`say n1 waiting shop ddl@60 d1 tables=public.a sql="A"
say n2 waiting shop ddl@60 d2 tables=public.a sql="B"
say n2 waiting shop ddl@60 d2 tables=public.a sql="A" drop=public.a
say n1 waiting shop ddl@70 d3 tables=public.b drop=public.a
drop-tables shop table=public.a
`)
	told(t, out, "reports=SPEC_MISMATCH", "reports=SPEC_MISMATCH", "reports=MALFORMED", "ended void")
	require.NotContains(t, out, "writing")
}

// R35: 100,000 dispatchers of one node speak at once: the entry is small, and all of them count.
func TestReview_R35_AHundredThousandVotesAreOneSmallEntry(t *testing.T) {
	const spans = 100_000
	c := newCluster(t, spans)
	var adds []fsm.Proposal
	for d := fsm.DispatcherID(1); d <= spans; d++ {
		adds = append(adds, fsm.Proposal{Command: &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: d, To: "n1"}})
		if len(adds) == logcodec.MaxProposals || d == spans {
			c.apply(adds...)
			adds = nil
		}
	}
	running := &fsm.ReportPlacements{Node: "n1", Incarnation: c.inc("n1")}
	for row := range c.s.DispatchersOn(c.inc("n1")) {
		running.Reports = append(running.Reports, fsm.PlacementReport{
			PlacementPosition: fsm.PlacementPosition{Dispatcher: row.ID, Epoch: row.Epoch}, What: fsm.ReportRunning,
		})
	}
	require.Len(t, running.Reports, spans)
	c.apply(fsm.Proposal{Command: running})
	key := fsm.BarrierKey{Changefeed: 1, Run: 1, At: fsm.Position{TS: 60, Stage: fsm.StageDDL}}
	_, hash := c.s.Crew(1, c.inc("n1"))
	all := func(what fsm.BarrierSaid) *fsm.ReportBarrier {
		r := fsm.BarrierReport{Key: key, What: what, All: true, SetHash: hash}
		if what == fsm.SaidWaiting {
			r.Spec = fsm.BarrierSpec{Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{{Schema: "public", Name: "a"}}}
		}
		return &fsm.ReportBarrier{Node: "n1", Incarnation: c.inc("n1"), Reports: []fsm.BarrierReport{r}}
	}
	for _, what := range []fsm.BarrierSaid{fsm.SaidWaiting, fsm.SaidPassed} {
		raw, err := logcodec.AppendEntry(nil, []fsm.Proposal{{Term: 1, Command: all(what)}})
		require.NoError(t, err)
		t.Logf("%d votes, %s: %d bytes", spans, what, len(raw))
		require.Less(t, len(raw), 64<<10)
		if what == fsm.SaidPassed {
			b, _ := c.s.Barrier(key)
			c.apply(fsm.Proposal{Command: &fsm.ReportBarrier{Node: "n1", Incarnation: c.inc("n1"), Reports: []fsm.BarrierReport{{
				Key: key, What: fsm.SaidWritten, Permission: b.Permission, Pairs: []fsm.Pair{{Dispatcher: b.Writer, Epoch: b.WriterEpoch}},
			}}}})
			members, behind, unpassed := c.s.BarrierProgress(key)
			require.Equal(t, []int{spans, 0, spans - 1}, []int{members, behind, unpassed})
		}
		v := c.apply(fsm.Proposal{Command: all(what)})[0]
		require.Equal(t, []fsm.Reason{fsm.ReportCounted}, v.Reports, "%s", what)
	}
	record, over := c.s.BarrierRecord(key)
	require.True(t, over)
	require.Equal(t, fsm.BarrierWritten, record.Result)
	require.NoError(t, c.s.CheckInvariants())
}

// R39: a drain survives the restart of its node, and a goodbye is "stopped" of everything, with positions.
func TestReview_R39_ADrainBelongsToTheName(t *testing.T) {
	out := play(t, two+`start-drain n1
goodbye n1 d1:30 d3:31
register n1
add d1 n1
move d2 from=n2 to=n1
state shop
say n1#1 waiting shop ddl@60 d1@2 tables=public.a
`)
	told(t, out, "n1#1: not draining -> draining from=2", "absent at=30", "absent at=31", "add: NODE_DRAINING", "move: NODE_DRAINING", "say: STALE_INCARNATION")
	require.NotContains(t, out, "new tables=public.a")
}

// R42: where sync points stand follows from the settings; nobody skips one, and skipping is a command.
func TestReview_R42_SyncPointsAreSkippedByACommandOnly(t *testing.T) {
	out := play(t, two+`say n1 waiting shop sync@150 d1
say n1 waiting shop sync@200 d1
say n1 waiting shop ddl@150 d1 tables=public.a
say n1 waiting shop sync@200 d3
say n1 waiting shop sync@100 d1
decide shop sync@100 skip
say n1 passed shop sync@100 d1 d3
say n2 waiting shop sync@100 d2
say n2 passed shop sync@100 d2
say n1 waiting shop sync@200 d1
`)
	told(t, out, "reports=MALFORMED", "reports=EARLIER_EVENT_OPEN", "reports=EARLIER_EVENT_OPEN", "reports=EARLIER_EVENT_OPEN", "sync@100: new", "passing skipped", "ended skipped", "sync@200: new")
}

// R44: an event has a deadline, which marks it and does nothing else.
func TestReview_R44_AnEventThatWaitsTooLongIsStuck(t *testing.T) {
	out := play(t, two+`policy barrier-deadline-ms=1000
say n1 waiting shop ddl@60 d1 tables=public.a
tick *
tick 900 *
tick 100 *
explain barrier shop ddl@60
say n2 waiting shop ddl@60 d2
`)
	told(t, out, "collecting behind=1/2", "time=900", "time=1000", "collecting behind=1/2 stuck", "it counts as stuck", "writing perm=1 by d1")
}

// R46: failures are facts for the scheduler; admission ignores them.
func TestReview_R46_AdmissionIgnoresTheBackOff(t *testing.T) {
	var script strings.Builder
	script.WriteString(two + "add-tables shop table=public.b\n")
	for n := range 5 {
		script.WriteString("add d4 n1\nreport n1 start-failed d4 reason=SINK_ERROR\n")
		told(t, play(t, script.String()), fmt.Sprintf("absent at=10 failures=%d", n+1))
	}
	told(t, play(t, script.String()+"add d4 n2\nreport n2 running d4\n"), "add: ACCEPTED op=17", "running n2#2 epoch=18 at=10 failures=5")
}
