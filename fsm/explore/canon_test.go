package explore

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// Why a field of a row does not tell two states apart here.
const (
	taken    = "" // it does
	number   = "an absolute number; what it refers to counts"
	when     = "a log index or a time: nothing is decided by it but deadlines, which no world reaches"
	shown    = "only shown"
	constant = "the same in every state of a world"
	backoff  = "facts for the scheduler's back-off; the worlds' policy fails no changefeed by them"
	follows  = "follows from fields that count"
)

// A field that is added to a row fails this test until somebody has decided whether it tells states apart. A wrong decision
// is what TestAuditRememberedSteps looks for.
func TestEveryFieldOfEveryRowIsDecidedOn(t *testing.T) {
	for _, c := range []struct {
		row    any
		fields map[string]string
	}{
		{fsm.Node{}, map[string]string{
			"Name": taken, "Incarnation": number, "Status": taken, "LastTick": when, "RegisteredAt": when, "RegisteredMS": when,
			"Address": constant, "LeaseMS": constant, "ClockClass": constant, "Protocol": constant, "BootID": constant,
			"LockDevice": constant, "LockInode": constant, "FenceWhy": shown, "EndedAt": when, "Draining": taken, "DrainSince": when,
			"DrainBy": shown, "DrainFrom": shown, "DrainedAt": taken,
		}},
		{fsm.Changefeed{}, map[string]string{
			"ID": number, "Name": taken, "Status": taken, "Source": constant, "Sink": constant, "SinkFenced": constant,
			"SinkMaxWriteMS": constant, "Start": constant, "Run": constant, "CreatedAt": when, "SyncPointEvery": taken,
			"SyncPointAfter": taken, "Trigger": taken, "Watermark": taken, "WatermarkAt": when, "Chain": taken, "Granted": taken,
			"StatusAt": when, "StatusBy": shown, "Reason": shown, "Detail": shown, "FailedBy": shown,
		}},
		{fsm.Table{}, map[string]string{
			"ID": number, "Changefeed": taken, "Schema": constant, "Name": taken, "Dropping": taken, "Trigger": taken, "CreatedAt": when,
		}},
		{fsm.Dispatcher{}, map[string]string{
			"ID": number, "Table": taken, "Span": taken, "Position": taken, "Phase": taken, "HasRun": taken, "Waits": taken,
			"Leaving": taken, "Incarnation": taken, "Epoch": number, "Slot": taken, "PlacedAt": when, "PhaseAt": when, "PhaseMS": when,
			"Failures": backoff, "FailedMS": backoff,
		}},
		{fsm.Operator{}, map[string]string{
			"ID": number, "Kind": taken, "Dispatcher": taken, "Changefeed": shown, "Table": shown, "From": taken, "FromIncarnation": taken,
			"To": taken, "ToIncarnation": taken, "Epoch": follows, "Moved": taken, "Aborting": taken, "AbortResult": shown, "Drop": taken,
			"By": shown, "Since": when, "SinceMS": when, "DeadlineMS": when, "StuckAt": taken, "Spans": taken, "Targets": taken,
			"Sources": taken, "Made": shown, "Result": shown, "Reason": shown, "Detail": shown, "Ended": when, "EndedMS": when,
			"ReplacedBy": shown,
		}},
		{fsm.Barrier{}, map[string]string{
			"Key": taken, "Spec": constant, "Status": taken, "Result": taken, "TriggerSaid": taken, "Permission": number,
			"Writer": taken, "WriterEpoch": number, "WriterIncarnation": number, "NotBegun": taken, "Unknown": taken, "OpenedAt": when,
			"GrantedAt": when, "WrittenAt": when, "EndedAt": when, "OpenedMS": when, "OpenedBy": shown, "DeadlineMS": when,
			"StuckAt": taken, "Notes": shown, "Seq": number,
		}},
	} {
		typ := reflect.TypeOf(c.row)
		var have, want []string
		for field := range typ.Fields() {
			have = append(have, field.Name)
		}
		for name := range c.fields {
			want = append(want, name)
		}
		require.ElementsMatch(t, want, have, "fields of %s", typ)
	}
}
