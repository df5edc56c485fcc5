package bubble

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/schema"
	"github.com/weir-project/weir/fsm"
)

// tableSchema is that of every table.
const tableSchema = "public"

// happened is what the ledger of the sink says about the events of all changefeeds.
type happened struct {
	written map[string]map[fsm.Position]int // how often each took effect, by changefeed
	known   int                             // how often one was written again, and its record found
	wrong   []string

	events map[string][]*dispatcher.DDL // in the order of their effects
	stands map[place]standing
}

// standing is how far a place is.
type standing struct {
	start fsm.Position // of the newest claim
	row   uint64       // the newest row
}

// judgeEvents checks that events take effect once and in the order of the log, and that each lies between the rows of
// its tables before and after it. Late says which tables users add: one that was added while an event was being written
// begins behind it, and takes no part in it.
func judgeEvents(calls []effect, late func(dispatcher.TableName) bool) *happened {
	h := &happened{written: map[string]map[fsm.Position]int{}, events: map[string][]*dispatcher.DDL{}, stands: map[place]standing{}}
	for i := range calls {
		e := &calls[i]
		at := h.stands[e.place]
		switch {
		case !e.accepted:
			continue
		case e.kind == dispatcher.CallClaim:
			at.start = e.start
		case e.kind == dispatcher.CallEvent && e.known:
			h.known++
		case e.kind == dispatcher.CallEvent:
			h.event(e, late)
		case e.last > 0:
			h.rows(e)
			at.row = max(at.row, e.last)
		}
		h.stands[e.place] = at
	}
	return h
}

// event looks at one that takes effect.
func (h *happened) event(e *effect, late func(dispatcher.TableName) bool) {
	feed, key := e.place.feed, e.event.Key.Position
	if n := len(h.events[feed]); n > 0 && !h.events[feed][n-1].Key.Position.Less(key) {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: the event at %v took effect after that at %v", feed, key, h.events[feed][n-1].Key.Position))
	}
	h.events[feed] = append(h.events[feed], &e.event)
	if h.written[feed] == nil {
		h.written[feed] = map[fsm.Position]int{}
	}
	h.written[feed][key]++
	for at, stands := range h.stands {
		switch {
		case at.feed != feed || !concerns(feed, &e.event, at.table), stands.row <= key.TS:
		case late(at.table) && !stands.start.Less(key):
		default:
			h.wrong = append(h.wrong, fmt.Sprintf("the event at %v took effect when %+v had rows up to %d", key, at, stands.row))
		}
	}
}

// rows looks at a write of rows: none of them lies before an event that took effect.
func (h *happened) rows(e *effect) {
	for _, ddl := range h.events[e.place.feed] {
		if concerns(e.place.feed, ddl, e.place.table) && e.first <= ddl.Key.Position.TS {
			h.wrong = append(h.wrong, fmt.Sprintf("%+v has rows from %d on, behind the event at %v", e, e.first, ddl.Key.Position))
		}
	}
}

// concerns says whether a table's rows must stand aside of the event, as the log has it.
func concerns(feed string, ddl *dispatcher.DDL, table dispatcher.TableName) bool {
	if ddl.Key.Position.Stage == fsm.StageSyncPoint {
		return true
	}
	change, _ := changeAt(feed, ddl.Key.Position.TS)
	return change.Kind != schema.KindCreate && change.Concerns(table.Ref())
}

// missing are the events of a changefeed up to a ts that did not take effect exactly once, or that there should not be.
func (h *happened) missing(feed string, last uint64) []string {
	var wrong []string
	want := map[fsm.Position]bool{}
	for _, key := range eventsUpTo(feed, last) {
		want[key] = true
		if n := h.written[feed][key]; n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: the event at %v took effect %d times", feed, key, n))
		}
	}
	for key := range h.written[feed] {
		if !want[key] {
			wrong = append(wrong, fmt.Sprintf("%s: there is no event at %v", feed, key))
		}
	}
	return wrong
}

// Events that are wrong are found: the check of these tests can fail.
func TestEvents_TheLedgerShowsWhatIsWrong(t *testing.T) {
	table := dispatcher.TableName{Schema: tableSchema, Name: "f.0"}
	span := place{feed: "f", table: table}
	write := func(first, last uint64) effect {
		return effect{kind: dispatcher.CallWrite, place: span, first: first, last: last, accepted: true}
	}
	event := func(ts uint64, stage fsm.Stage) effect {
		ddl := dispatcher.DDL{Key: dispatcher.DDLKey{Changefeed: "f", Position: fsm.Position{TS: ts, Stage: stage}}}
		return effect{kind: dispatcher.CallEvent, place: place{feed: "f", trigger: true}, event: ddl, accepted: true}
	}
	claim := effect{kind: dispatcher.CallClaim, place: span, start: fsm.At(30), accepted: true}
	never, always := func(dispatcher.TableName) bool { return false }, func(dispatcher.TableName) bool { return true }
	other := write(31, 40)
	other.place.feed = "g"

	good := []effect{other, write(1, 29), event(30, fsm.StageDDL), write(31, 45), event(45, fsm.StageSyncPoint), write(46, 50)}
	h := judgeEvents(good, never)
	require.Empty(t, h.wrong)
	require.Empty(t, h.missing("f", 46))
	require.Len(t, h.missing("f", 60), 1)
	require.Len(t, h.missing("f", 30), 1)
	require.Empty(t, judgeEvents([]effect{claim, write(31, 40), event(30, fsm.StageDDL)}, always).wrong)
	for _, bad := range [][]effect{
		{write(1, 31), event(30, fsm.StageDDL)},
		{event(30, fsm.StageDDL), write(30, 31)},
		{event(45, fsm.StageSyncPoint), event(30, fsm.StageDDL)},
		{event(30, fsm.StageDDL), event(30, fsm.StageDDL)},
		{claim, write(31, 40), event(30, fsm.StageDDL)},
	} {
		require.NotEmpty(t, judgeEvents(bad, never).wrong, fmt.Sprint(bad))
	}
}
