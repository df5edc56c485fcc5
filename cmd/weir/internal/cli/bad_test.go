package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
)

// TestBadInput: one clear sentence, a code, and nothing asked of the control plane.
func TestBadInput(t *testing.T) {
	log := logFile(t)
	damaged := filepath.Join(t.TempDir(), "damaged.ndjson")
	require.NoError(t, os.WriteFile(damaged, []byte("{\"action\":\"B\",\"nextlsn\":\"0/1\"}\nnonsense\n"), 0o600))
	create := "changefeed create shop --sink sqlite:/db --source wal2json:" + log + " "
	for _, c := range []struct {
		name, line string
		code       int
		says       string
	}{
		{"nothing", "", ExitUsage, "weir --help"},
		{"unknown command", "frobnicate", ExitUsage, "unexpected argument frobnicate"},
		{"unknown flag", "node list --bogus", ExitUsage, "unknown flag --bogus"},
		{"missing name", "node get", ExitUsage, "expected"},
		{"bad output", "node list -o yaml", ExitUsage, "--output must be one of"},
		{"bad servers", "node list --servers localhost", ExitUsage, "want HOST:PORT"},
		{"bad folder", "node list --dir /nonexistent", ExitUsage, "it holds no weir-dev.json"},
		{"no time", "node list --timeout 0s", ExitUsage, "want more than nothing"},
		{"bad operator", "operator wait x", ExitUsage, "want GENERATION.SEQUENCE"},
		{"operator zero", "operator cancel 0", ExitUsage, "want GENERATION.SEQUENCE"},
		{"bad dispatcher", "dispatcher get x", ExitUsage, "x"},
		{"bad epoch", "operator move 1 --to n2 --expect-epoch x", ExitUsage, "--expect-epoch \"x\""},
		{"two origins", "operator move 1 --to n2 --from n1 --from-absent", ExitUsage, "can't be used together"},
		{"bad request id", "changefeed pause shop --request-id r@x", ExitUsage, "want ID or ID@TIME"},
		{"long request id", "changefeed pause shop --request-id " + strings.Repeat("x", 65), ExitUsage, "1 to 64 bytes"},
		{"table without changefeed", "dispatcher list --table t", ExitUsage, "want --changefeed too"},
		{"unknown phase", "dispatcher list --phase odd", ExitUsage, "--phase must be one of"},
		{"past without dry run", "changefeed pause shop --at 7", ExitUsage, "want --dry-run too"},
		{"no such event", "barrier get shop 7/rows", ExitUsage, "no event stands at 7/rows"},
		{"no position", "barrier get shop x", ExitUsage, "parse position"},
		{"undecided decision", "barrier decide shop 200", ExitUsage, "then add --as written"},
		{"few targets", "operator split 2 --key x:aa --to n1", ExitUsage, "for 2 spans"},
		{"odd key", "operator split 2 --key x:a", ExitUsage, "in hexadecimal"},
		{"mixed keys", "operator split 2 --key x:aa --key 7", ExitUsage, "not both"},
		{"lonely merge", "operator merge 5", ExitUsage, "want two or more"},
		{"no batch", "operator admit-many /nonexistent", ExitUsage, "cannot be read"},
		{"no setting", "policy set fail_after", ExitUsage, "want NAME=VALUE"},
		{"unknown setting", "policy set x=1", ExitUsage, "weir policy get shows"},
		{"bad setting", "policy set fail_after=x", ExitUsage, "want a number"},
		{"bad switch", "policy set cancel_stuck=7", ExitUsage, "want true or false"},
		{"nothing to update", "changefeed update shop", ExitUsage, "nothing is to be changed"},
		{"bad from", "changefeed resume shop --from x", ExitUsage, "--from"},
		{"no folder to show", "log show", ExitUsage, "--data-dir is missing"},
		{"no server's folder", "log replay --data-dir /", ExitFailed, "is no data folder of a server"},
		{"unknown changefeed", "changefeed get x", ExitRejected, "UNKNOWN_CHANGEFEED: no changefeed is named x; list them with: weir changefeed list"},
		{"unknown dispatcher", "dispatcher get 99", ExitRejected, "UNKNOWN_DISPATCHER"},
		{"unknown operator", "operator get 29.99", ExitRejected, "NO_SUCH_OPERATOR"},
		{"unknown node", "node get n9", ExitRejected, "UNKNOWN_NODE: no node is named n9"},
		{"unknown source", "changefeed create s --sink sqlite:/db --source mysql:/x --table t", ExitUsage, "want wal2json:PATH"},
		{"source without path", "changefeed create s --sink sqlite:/db --source wal2json: --table t", ExitUsage, "the path is missing"},
		{"unknown sink", "changefeed create s --sink kafka:x --source wal2json:/x --table t", ExitUsage, "want sqlite:PATH"},
		{"no log", "changefeed create s --sink sqlite:/db --source wal2json:/nonexistent --table t", ExitUsage, "/nonexistent"},
		{"damaged log", "changefeed create s --sink sqlite:/db --source wal2json:" + damaged + " --table t", ExitUsage, "MALFORMED_LOG"},
		{"bad source option", "changefeed create s --sink sqlite:/db --source wal2json:" + log + "?x=1 --table t", ExitUsage, "INVALID_SOURCE"},
		{"bad start", create + "--table accounts --start x", ExitUsage, "--start"},
		{"unknown table", create + "--table nosuch", ExitUsage, "it holds public.accounts, public.names"},
		{"unknown table split", create + "--table nosuch,split=2 --unseen", ExitUsage, "once the log holds rows"},
		{"no table name", create + "--table ,split=2", ExitUsage, "the name is missing"},
		{"split zero", create + "--table accounts,split=0", ExitUsage, "want a number of spans"},
		{"split word", create + "--table accounts,split=x", ExitUsage, "want a number of spans"},
		{"split too often", create + "--table accounts,split=7", ExitUsage, "TOO_FEW_KEYS"},
		{"split and at", create + "--table accounts,split=2,at=3", ExitUsage, "not both"},
		{"unknown option", create + "--table accounts,into=2", ExitUsage, "is no option"},
		{"bad key", create + "--table accounts,at=x", ExitUsage, "not an integer"},
		{"keys out of order", create + "--table accounts,at=5:3", ExitUsage, "write the keys in order"},
		{"too many columns", create + "--table accounts,at=(1,2)", ExitUsage, "primary key of 1 columns"},
		{"no script", "scenario run /nonexistent", ExitUsage, "does not exist"},
		{"peer", "server --id s1 --data /d --peer s1", ExitUsage, "want ID=RAFT_ADDRESS=GRPC_ADDRESS"},
		{"not a peer", "server --id s4 --data /d --peer s1=a:1=b:2", ExitUsage, "does not name server s4 itself"},
		{"bad profile", "agent --node n --data /d --servers a:1 --profile slow", ExitUsage, "--profile must be one of"},
		{"even servers", "dev --servers 2", ExitUsage, "want 1, 3 or 5"},
		{"many agents", "dev --agents 99", ExitUsage, "want 0 to 32"},
		{"exit without demo", "dev --exit", ExitUsage, "--exit ends a demo"},
		{"small demo", "dev --demo shop --agents 1", ExitUsage, "at least 3 servers and 2 agents"},
		{"unknown demo", "dev --demo x", ExitUsage, "--demo must be one of"},
		{"no pace", "dev --demo shop --pace 0s", ExitUsage, "want 1s to 1h"},
		{"unknown shell", "completion tcsh", ExitUsage, "must be one of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := shop()
			r := run(t, f, strings.Fields(c.line)...)
			require.Equal(t, c.code, r.code, r.stderr)
			require.Contains(t, r.stderr, c.says)
			require.True(t, strings.HasPrefix(r.stderr, "weir: "), r.stderr)
			require.NotContains(t, strings.TrimSpace(firstLine(r.stderr)), "panic")
			require.Empty(t, r.stdout)
			require.Nil(t, f.header, "nothing may be asked to change")
			require.Nil(t, r.dev)
			require.Nil(t, r.server)
		})
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// TestExitCodes: each class of errors has a code of its own, and what people need to go on is printed.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		code  int
		class string
		says  []string
	}{
		{
			"rejected", rejection("OPERATOR_EXISTS", "dispatcher 1 is in move 29.13; wait for it with: weir operator wait 29.13",
				map[string]string{"class": "rejected", "operator": "1992864825357", "operator_kind": "move", "node": "n2", "log_time_ms": "7"}),
			ExitRejected, "rejected",
			[]string{"weir: OPERATOR_EXISTS: dispatcher 1 is in move 29.13; wait for it with: weir operator wait 29.13\n", "operator=29.13 operator_kind=move node=n2\n"},
		},
		{"not proposed", notReached(), ExitNotReached, "not_reached", []string{"NO_LEADER"}},
		{
			"unknown", &client.Error{Class: client.Unknown, Reason: "OUTCOME_UNKNOWN", Message: "it is not known", RequestTimeMS: 77},
			ExitUnknown, "unknown",
			[]string{"run the same command with: --request-id r1@77\n"},
		},
		{"invalid", &client.Error{Class: client.Invalid, Reason: "MALFORMED", Message: "name is empty"}, ExitUsage, "usage", []string{"MALFORMED"}},
		{"fault", &client.Error{Class: client.Fault, Reason: "INTERNAL", Message: "the server failed"}, ExitFailed, "failed", []string{"INTERNAL"}},
		{"late", context.DeadlineExceeded, ExitNotReached, "not_reached", []string{"--timeout"}},
		{"other", errors.New("odd"), ExitFailed, "failed", []string{"odd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := shop()
			f.err = c.err
			r := run(t, f, "changefeed", "pause", "shop", "--request-id", "r1")
			require.Equal(t, c.code, r.code)
			require.Empty(t, r.stdout)
			for _, s := range c.says {
				require.Contains(t, r.stderr, s)
			}
			require.True(t, f.closed)

			f = shop()
			f.err = c.err
			r = run(t, f, "changefeed", "pause", "shop", "--request-id", "r1", "-o", "json")
			var doc struct{ Error errorRow }
			require.NoError(t, json.Unmarshal([]byte(r.stderr), &doc), r.stderr)
			require.Equal(t, c.class, doc.Error.Class)
			require.Equal(t, c.code, doc.Error.Code)
			require.True(t, strings.HasPrefix(doc.Error.RequestID, "r1"))
			require.Empty(t, r.stdout)
		})
	}
}

// TestWaitThatFails: an operator that did not do what it was for is a failure, however cleanly it ended.
func TestWaitThatFails(t *testing.T) {
	f := shop()
	o := ended(f.operators[0], 3)
	f.waits = []waitAnswer{{operator: o}}
	r := run(t, f, "operator", "wait", "29.13")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stdout, "has ended: canceled")
	require.Contains(t, r.stderr, "OPERATOR_CANCELED")
}

// TestWaitThatLasts ends in time and says what is waited for.
func TestWaitThatLasts(t *testing.T) {
	f := shop()
	f.waits = f.waits[:1]
	r := run(t, f, "operator", "wait", "29.13", "--for", "50ms")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "has not ended after 50ms: it waits for node n1 to stop dispatcher 1")
}

// TestStatesThatDiffer are a failure, and the answer is printed all the same.
func TestStatesThatDiffer(t *testing.T) {
	f := shop()
	f.status.HashesEqual = false
	r := run(t, f, "cluster", "status")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "STATE_DIFFERS")
	require.Contains(t, r.stdout, "s3")
	require.NotContains(t, r.stdout, "are equal")
}

// TestInterrupted: Ctrl-C ends a wait at once, as a failure.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := shop()
	f.waits = nil
	r := runIn(ctx, f, "operator", "wait", "29.13")
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "interrupted")
}

// TestClasses: every class has a word and a code.
func TestClasses(t *testing.T) {
	words := map[string]bool{}
	for c := plane.Failed; c <= plane.Unknown; c++ {
		words[c.String()] = true
		require.NotEqual(t, "unset", c.String())
	}
	require.Len(t, words, 5)
	require.Equal(t, "unset", plane.Class(0).String())
}
