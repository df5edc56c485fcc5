package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
)

func TestCreateChangefeed(t *testing.T) {
	log := logFile(t)
	f := shop()
	t.Chdir(filepath.Dir(log))
	r := run(t, f, "changefeed", "create", "shop", "--source", "wal2json:log.ndjson?follow=true", "--sink", "sqlite:replica.db?ledger=true",
		"--table", "accounts,split=3", "--table", `public.names,at=("a,b:c"):z`, "--table", "later", "--unseen", "--start", "7/rows")
	require.Equal(t, ExitOK, r.code, r.stderr)
	asked, ok := f.asked.(*weirv1.CreateChangefeedRequest)
	require.True(t, ok)
	require.Equal(t, "wal2json:"+log+"?follow=true", asked.GetSource(), "agents run in other folders")
	require.Equal(t, "sqlite:"+filepath.Join(filepath.Dir(log), "replica.db")+"?ledger=true", asked.GetSink())
	require.True(t, asked.GetSinkFenced())
	require.Equal(t, uint64(7), asked.GetStart().GetTs())
	require.Equal(t, weirv1.Stage_STAGE_ROWS, asked.GetStart().GetStage())
	tables := asked.GetTables()
	require.Len(t, tables, 3)
	require.Equal(t, [][]byte{key(3), key(5)}, tables[0].GetSplitKeys())
	require.Equal(t, "public", tables[1].GetSchema())
	require.Equal(t, [][]byte{[]byte("\x40a,b:c\x00\x01"), []byte("\x40z\x00\x01")}, tables[1].GetSplitKeys())
	require.Equal(t, "later", tables[2].GetName())
	require.Equal(t, "ann", asked.GetHeader().GetBy())
	require.NotEmpty(t, asked.GetHeader().GetRequestId())
}

// TestRequestIDs: each run has an id of its own unless the user says otherwise.
func TestRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		f := shop()
		require.Equal(t, ExitOK, run(t, f, "changefeed", "pause", "shop").code)
		seen[f.header.GetRequestId()] = true
	}
	require.Len(t, seen, 3)
	f := shop()
	require.Equal(t, ExitOK, run(t, f, "changefeed", "pause", "shop", "--request-id", "mine@12").code)
	require.Equal(t, "mine", f.header.GetRequestId())
	require.Equal(t, uint64(12), f.header.GetRequestTimeMs())
}

func TestOperatorSpecs(t *testing.T) {
	for line, want := range map[string]*weirv1.OperatorSpec{
		"operator add 3 --to n1":                   {Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 3, To: "n1"},
		"operator move 3 --to n1":                  {Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: 3, To: "n1", FromAny: true},
		"operator move 3 --to n1 --from n2":        {Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: 3, To: "n1", From: "n2"},
		"operator move 3 --to n1 --from-absent":    {Kind: weirv1.OperatorKind_OPERATOR_KIND_MOVE, Dispatcher: 3, To: "n1"},
		"operator remove 3 --expect-epoch 29.5":    {Kind: weirv1.OperatorKind_OPERATOR_KIND_REMOVE, Dispatcher: 3, ExpectEpoch: tok(5)},
		"operator add 3 --to n1 --expect-epoch 77": {Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: 3, To: "n1", ExpectEpoch: 77},
	} {
		t.Run(line, func(t *testing.T) {
			f := shop()
			r := run(t, f, strings.Fields(line)...)
			require.Equal(t, ExitOK, r.code, r.stderr)
			require.Equal(t, want.String(), f.asked.(*weirv1.OperatorSpec).String()) //nolint:forcetypeassert // the test fails
		})
	}
}

func TestFilters(t *testing.T) {
	f := shop()
	r := run(t, f, "dispatcher", "list", "--changefeed", "shop", "--table", "audit.log", "--node", "n1", "--phase", "absent", "--stale")
	require.Equal(t, ExitOK, r.code, r.stderr)
	want := &weirv1.ListDispatchersRequest{
		Read:       &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_STALE},
		Changefeed: "shop", Schema: "audit", Table: "log", Node: "n1", Phase: weirv1.Phase_PHASE_ABSENT,
	}
	require.Equal(t, want.String(), f.asked.(*weirv1.ListDispatchersRequest).String()) //nolint:forcetypeassert // the test fails
}

// TestAddresses: the flag is first, then the folder, then the ports of the first weir dev.
func TestAddresses(t *testing.T) {
	f := shop()
	require.Equal(t, ExitOK, run(t, f, "node", "list").code)
	require.Equal(t, dev.DefaultAddresses(), f.addresses)

	dir := t.TempDir()
	state := `{"pid":1,"servers":["127.0.0.1:5"],"raft":["127.0.0.1:6"]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, dev.StateFile), []byte(state), 0o600))
	require.Equal(t, ExitOK, run(t, f, "node", "list", "--dir", dir).code)
	require.Equal(t, []string{"127.0.0.1:5"}, f.addresses)

	t.Setenv("WEIR_SERVERS", "a:1,b:2")
	require.Equal(t, ExitOK, run(t, f, "node", "list", "--dir", dir).code)
	require.Equal(t, []string{"a:1", "b:2"}, f.addresses)
}

func TestServerFlags(t *testing.T) {
	r := run(t, shop(), "server", "--id", "s2", "--data", "/d", "--peer", "s1=h:11=h:1,s2=h:12=h:2", "--peer", "s3=h:13=h:3",
		"--agent", "--profile", "fast", "--log-level", "warn")
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Equal(t, "h:12", r.server.RaftAddress)
	require.Equal(t, "h:2", r.server.GRPCAddress)
	require.Equal(t, []serve.Peer{{ID: "s1", RaftAddress: "h:11", GRPCAddress: "h:1"}, {ID: "s2", RaftAddress: "h:12", GRPCAddress: "h:2"}, {ID: "s3", RaftAddress: "h:13", GRPCAddress: "h:3"}}, r.server.Peers)
	require.Equal(t, "fast", r.server.Profile)
	require.Equal(t, "s2", r.server.Agent.Node)
	require.Equal(t, filepath.Join("/d", "agent"), r.server.Agent.DataDir)
	require.Contains(t, r.server.Agent.Servers, "h:3")
}

func TestAgentFlags(t *testing.T) {
	r := run(t, shop(), "agent", "--node", "n1", "--data", "/d", "--servers", "h:1,h:2", "--ledger", "/l")
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Equal(t, []string{"h:1", "h:2"}, r.agent.Servers)
	require.Equal(t, "/l", r.agent.LedgerFile)
	require.Equal(t, "normal", r.agent.Profile)
}

func TestDevFlags(t *testing.T) {
	r := run(t, shop(), "dev", "--demo", "shop", "--exit", "--seed", "5", "--pace", "3s")
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.Equal(t, int64(5), r.dev.Seed)
	require.Equal(t, dev.DefaultPort, r.dev.FirstPort)
	require.True(t, r.dev.Exit)
	r = run(t, shop(), "dev")
	require.NotZero(t, r.dev.Seed, "a run without a seed makes one")
}

// TestSplitOutside: whatever stands in brackets or quotes stays together, and nothing is lost.
func TestSplitOutside(t *testing.T) {
	require.Equal(t, []string{"a", "at=(1,\"x,)\"):2"}, splitOutside(`a,at=(1,"x,)"):2`, ','))
	require.Equal(t, []string{`(1,"x:\":"):2`}, splitOutside(`(1,"x:\":"):2`, ',')[:1])
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a,:()"\\]{0,12}`).Draw(t, "text")
		require.Equal(t, text, strings.Join(splitOutside(text, ','), ","))
	})
}

func TestScenario(t *testing.T) {
	good := filepath.Join("..", "..", "..", "..", "fsm", "testdata", "move.txt")
	r := run(t, shop(), "scenario", "run", good)
	require.Equal(t, ExitOK, r.code, r.stderr)
	require.NotEmpty(t, r.stdout)

	wrong := filepath.Join(t.TempDir(), "wrong.txt")
	require.NoError(t, os.WriteFile(wrong, []byte("register n1\n----\nsomething else\n"), 0o600))
	r = run(t, shop(), "scenario", "run", wrong)
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "- something else")
	require.Contains(t, r.stderr, "SCENARIO_DIFFERS")

	broken := filepath.Join(t.TempDir(), "broken.txt")
	require.NoError(t, os.WriteFile(broken, []byte("frobnicate\n"), 0o600))
	r = run(t, shop(), "scenario", "run", broken)
	require.Equal(t, ExitFailed, r.code)
	require.Contains(t, r.stderr, "broken.txt:1:")
}

func TestHelpAndVersion(t *testing.T) {
	for _, line := range []string{"--help", "dev --help", "operator move --help"} {
		r := run(t, shop(), strings.Fields(line)...)
		require.Equal(t, ExitOK, r.code)
		require.Contains(t, r.stdout, "Usage: weir")
		require.Empty(t, r.stderr)
	}
	r := run(t, shop(), "version")
	require.Equal(t, ExitOK, r.code)
	require.True(t, strings.HasPrefix(r.stdout, "weir "))
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := run(t, shop(), "completion", shell)
		require.Equal(t, ExitOK, r.code)
		require.Contains(t, r.stdout, completeWord)
	}
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"oper"}, []string{"operator"}},
		{[]string{"operator", ""}, []string{"add", "move", "remove", "split", "merge", "cancel", "list", "get", "wait", "admit-many", "explain"}},
		{[]string{"operator", "wait", ""}, []string{"29.13", "29.9", "29.17", "29.18"}},
		{[]string{"operator", "move", "1", "--to", ""}, []string{"n1", "n2", "n3"}},
		{[]string{"--bogus", "node", "get", "n2"}, []string{"n2"}},
		{[]string{"changefeed", "get", ""}, []string{"shop", "broken"}},
		{[]string{"barrier", "get", ""}, []string{"shop", "broken"}},
		{[]string{"changefeed", "create", ""}, nil},
		{[]string{"node", "list", "--servers", "x:1", "-o", ""}, []string{"table", "json"}},
		{[]string{"dispatcher", "list", "--pha"}, []string{"--phase"}},
		{[]string{"dispatcher", "history", ""}, []string{"1", "2", "3"}},
		{[]string{"completion", "z"}, []string{"zsh"}},
	} {
		t.Run(strings.Join(c.words, "_"), func(t *testing.T) {
			r := run(t, shop(), append([]string{completeWord}, c.words...)...)
			require.Equal(t, c.want, nonEmpty(strings.Split(r.stdout, "\n")))
		})
	}
}

func nonEmpty(lines []string) (kept []string) {
	for _, l := range lines {
		if l != "" {
			kept = append(kept, l)
		}
	}
	return kept
}
