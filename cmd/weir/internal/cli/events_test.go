package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/weirv1"
)

// TestDryRunOfEveryChange: every command that changes something can be tried, and then changes nothing.
func TestDryRunOfEveryChange(t *testing.T) {
	log := logFile(t)
	for _, line := range []string{
		"changefeed create shop --sink sqlite:/db --source wal2json:" + log + " --table accounts", "changefeed pause shop",
		"changefeed update shop --sync-point-every 5", "changefeed resume shop --from 5", "changefeed remove shop",
		"table drop shop --table accounts", "operator add 3 --to n1", "operator move 1 --to n2 --wait", "operator remove 1",
		"operator split 2 --key x:20", "operator merge 5 6", "operator cancel 29.13", "operator admit-many",
		"barrier decide shop 200 --as skip", "node drain n1 --wait", "node clear n1", "node fence n1", "policy set fail_after=1",
	} {
		t.Run(line, func(t *testing.T) {
			f := shop()
			r := run(t, f, append(strings.Fields(line), "--dry-run", "--at", "40")...)
			require.Equal(t, ExitOK, r.code, r.stderr)
			require.Contains(t, r.stdout, "on the state at entry 42 this would be accepted; nothing was changed")
			require.Nil(t, f.header, "nothing may be asked to change")
			dry, ok := f.asked.(*weirv1.DryRunRequest)
			require.True(t, ok)
			require.Equal(t, uint64(40), dry.GetAtIndex())
			require.NotNil(t, dry.GetRequest(), "the request is in its field")
		})
	}
}

// TestDryRunThatWouldBeRefused has the exit code of the refusal, with the reason, the winner and what to do.
func TestDryRunThatWouldBeRefused(t *testing.T) {
	f := shop()
	f.verdict = &weirv1.Verdict{Reason: "OPERATOR_EXISTS", Message: "move 29.13 was first", Facts: map[string]string{"operator": "1992864825357"}}
	r := run(t, f, "operator", "add", "1", "--to", "n1", "--dry-run")
	require.Equal(t, ExitRejected, r.code)
	require.Contains(t, r.stderr, "OPERATOR_EXISTS: on the state at entry 42 this would be refused: move 29.13 was first")
	require.Contains(t, r.stderr, "operator=29.13")
	require.NotContains(t, r.stderr, "--request-id", "nothing was sent that could be sent again")
}

// TestDrainIsWaitedFor says how it goes, gets over servers that are away, and ends when the node itself has confirmed.
func TestDrainIsWaitedFor(t *testing.T) {
	f := shop()
	draining := func(left, confirmed uint64) *weirv1.Node {
		return &weirv1.Node{Name: "n1", Incarnation: tok(1), Drain: &weirv1.Drain{From: 3, Left: left, ConfirmedAt: confirmed, WaitsFor: "something"}}
	}
	f.drains = []*weirv1.Node{draining(2, 0), draining(0, 0), draining(0, 50)}
	r := run(t, f, "node", "drain", "n1", "--wait")
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Equal(t, "node n1: 2 of 3 left; waits for something\nnode n1: 0 of 3 left; waits for something\n", r.stderr)
	require.Contains(t, r.stdout, "node n1 is drained: it held 3 dispatchers, and its incarnation 29.1 has confirmed at entry 50")

	f = shop()
	f.drains = []*weirv1.Node{draining(2, 0)}
	r = run(t, f, "node", "drain", "n1", "--wait", "--for", "600ms")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "was ended meanwhile", "the node that the fake knows is not being drained")
}

// TestBatches reads both spellings, and sends what they say.
func TestBatches(t *testing.T) {
	f := shop()
	r := run(t, f, "operator", "admit-many", "--all-or-nothing")
	require.Equal(t, ExitRejected, r.code)
	req, ok := f.asked.(*weirv1.AdmitManyRequest)
	require.True(t, ok)
	require.True(t, req.GetAllOrNothing())
	move := weirv1.OperatorKind_OPERATOR_KIND_MOVE
	want := []*weirv1.OperatorSpec{
		{Kind: move, Dispatcher: 1, From: "n1", To: "n2", ExpectEpoch: tok(2)},
		{Kind: move, Dispatcher: 2, FromAny: true, To: "n1"},
	}
	require.Len(t, req.GetOperators(), len(want))
	for i := range want {
		require.Equal(t, want[i].String(), req.GetOperators()[i].String())
	}
	for text, says := range map[string]string{
		"":                                "names no operators",
		"op dispatcher\nmove":             "line 2: it has 1 columns, the header has 2",
		"op colour\n":                     "line 1: \"colour\" is no column",
		"op dispatcher\nmove x":           "is no number",
		"{\"op\":\"fly\"}":                "is no operator",
		"{\"dispatcher\":1}":              "op is missing",
		"{\"op\":\"add\",\"node\":\"x\"}": "unknown field",
		"op keys\nsplit zz":               "in hexadecimal",
	} {
		asks, err := readAsks([]byte(text))
		if err == nil {
			_, err = asks[0].spec()
		}
		require.ErrorContains(t, err, says, text)
	}
}
