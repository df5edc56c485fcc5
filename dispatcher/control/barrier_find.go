package control

import (
	"slices"

	"github.com/weir-project/weir/fsm"
)

// findBarrier tells what Apply would answer to one placement's word about an event, if the view already shows that it
// would change nothing. False: it may count, or only Apply can tell, so it has to go into the log.
func findBarrier(view *fsm.View, inc fsm.Incarnation, rep *fsm.BarrierReport, p fsm.Pair) (fsm.Reason, bool) {
	row, ok := view.Dispatcher(p.Dispatcher)
	if !ok || row.Phase == fsm.Absent || row.Incarnation != inc || row.Epoch != p.Epoch {
		return fsm.ReportStale, true
	}
	table, _ := view.Table(row.Table)
	feed, known := view.ChangefeedByID(rep.Key.Changefeed)
	if !known || table.Changefeed != feed.ID || feed.Run != rep.Key.Run {
		return fsm.BarrierForget, true
	}
	if !possible(feed, rep.Key) {
		return 0, false
	}
	switch rep.What {
	case fsm.SaidWaiting:
		return findWaiting(view, feed, row, rep)
	case fsm.SaidPassed:
		return findPassed(view, row, rep.Key)
	case fsm.SaidWritten, fsm.SaidNotBegun, fsm.SaidUnknown:
		return findByHolder(view, row, rep)
	default:
		return 0, false
	}
}

// possible says whether the changefeed can have an event at the key. What is not possible is for Apply to refuse.
func possible(feed fsm.Changefeed, key fsm.BarrierKey) bool {
	if key.At.Stage != fsm.StageSyncPoint {
		return key.Valid()
	}
	return feed.SyncPointEvery != 0 && key.At.TS != 0 && key.At.TS%feed.SyncPointEvery == 0 && feed.SyncPointAfter.Less(key.At)
}

func findWaiting(view *fsm.View, feed fsm.Changefeed, row fsm.Dispatcher, rep *fsm.BarrierReport) (fsm.Reason, bool) {
	key := rep.Key
	switch {
	case row.Phase == fsm.Starting:
		return fsm.BarrierRetry, true
	case row.Phase != fsm.Running:
		return fsm.ReportInert, true
	case !row.Position.Less(key.At) || !feed.Watermark.Less(key.At):
		return fsm.BarrierPass, true
	}
	if _, over := view.BarrierRecord(key); over {
		return fsm.BarrierPass, true
	}
	b, open := view.Barrier(key)
	switch {
	case !open:
		return 0, false
	case !b.Spec.Equal(&rep.Spec):
		return fsm.SpecMismatch, true
	case row.Waits && row.Position == key.Before():
		return fsm.ReportInert, true // this placement has said so before, and nothing earlier can have come between
	default:
		return 0, false
	}
}

func findPassed(view *fsm.View, row fsm.Dispatcher, key fsm.BarrierKey) (fsm.Reason, bool) {
	if !row.Position.Less(key.At) {
		return fsm.ReportInert, true
	}
	b, open := view.Barrier(key)
	if open && b.Status != fsm.BarrierPassing {
		return fsm.BarrierUnwritten, true
	}
	if _, over := view.BarrierRecord(key); !open && !over {
		return fsm.BarrierForget, true
	}
	return 0, false
}

func findByHolder(view *fsm.View, row fsm.Dispatcher, rep *fsm.BarrierReport) (fsm.Reason, bool) {
	b, open := view.Barrier(rep.Key)
	_, over := view.BarrierRecord(rep.Key)
	switch {
	case over || (open && b.Status == fsm.BarrierPassing):
		return fsm.ReportInert, true
	case !open:
		return fsm.BarrierForget, true
	case b.Status != fsm.BarrierInWriting || b.Writer != row.ID || b.WriterEpoch != row.Epoch || rep.Permission != b.Permission:
		return fsm.StalePermission, true
	default:
		return 0, false
	}
}

// findBarrierAll does the same for one word of everything that a node runs of a changefeed.
func findBarrierAll(view *fsm.View, inc fsm.Incarnation, rep *fsm.BarrierReport) (fsm.Reason, bool) {
	feed, ok := view.ChangefeedByID(rep.Key.Changefeed)
	if !ok || (rep.What != fsm.SaidWaiting && rep.What != fsm.SaidPassed) {
		return fsm.BarrierForget, true
	}
	if _, hash := view.Crew(feed.ID, inc); hash != rep.SetHash {
		return fsm.SetMismatch, true
	}
	except := map[fsm.DispatcherID]bool{feed.Trigger: true}
	for _, id := range rep.Except {
		except[id] = true
	}
	spec := &rep.Spec
	if b, known := event(view, rep.Key); known {
		spec = &b.Spec
	}
	answer := fsm.ReportInert
	for row := range view.DispatchersOn(inc) {
		table, _ := view.Table(row.Table)
		if !row.HasRun || table.Changefeed != feed.ID || except[row.ID] || !concerns(spec, table) {
			continue
		}
		got, decided := findBarrier(view, inc, rep, fsm.Pair{Dispatcher: row.ID, Epoch: row.Epoch})
		if !decided {
			return 0, false
		}
		if got != fsm.ReportInert {
			answer = got
		}
	}
	return answer, true
}

// event returns an event, open or remembered.
func event(view *fsm.View, key fsm.BarrierKey) (fsm.Barrier, bool) {
	if b, open := view.Barrier(key); open {
		return b, true
	}
	return view.BarrierRecord(key)
}

// concerns says whether an event concerns the dispatchers of a table; the trigger's is never asked about here.
func concerns(spec *fsm.BarrierSpec, t fsm.Table) bool {
	switch spec.Influence {
	case fsm.InfluenceAll:
		return true
	case fsm.InfluenceSchema:
		return t.Schema == spec.Schema
	case fsm.InfluenceTables:
		fallthrough
	default:
		return slices.Contains(spec.Tables, fsm.TableRef{Schema: t.Schema, Name: t.Name})
	}
}
