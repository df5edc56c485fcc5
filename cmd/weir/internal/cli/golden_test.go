package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func stillRunning() error {
	return &client.Error{Class: client.NotProposed, Reason: client.ReasonStillRunning, Message: "the operator has not ended yet"}
}

func notReached() error {
	return &client.Error{Class: client.NotProposed, Reason: "NO_LEADER", Message: "no leader is known right now; try again in a moment"}
}

func ended(o *weirv1.Operator, result weirv1.OperatorResult) *weirv1.Operator {
	done := proto.CloneOf(o)
	done.Result, done.Ended, done.Epoch, done.WaitsFor = result, 50, tok(14), ""
	return done
}

// goldens are command lines; what each prints is in testdata/NAME.txt.
func goldens() map[string]string {
	return map[string]string{
		"changefeed_list":   "changefeed list",
		"changefeed_get":    "changefeed get shop",
		"changefeed_pause":  "changefeed pause shop --request-id r1",
		"changefeed_resume": "changefeed resume shop --request-id r1",
		"changefeed_remove": "changefeed remove shop --request-id r1",
		"table_list":        "table list shop",
		"table_drop":        "table drop shop --table accounts --table audit.log --request-id r1",
		"dispatcher_list":   "dispatcher list",
		"dispatcher_limit":  "dispatcher list --limit 1",
		"dispatcher_get":    "dispatcher get 1",
		"dispatcher_absent": "dispatcher get 3",
		"dispatcher_hist":   "dispatcher history 1",
		"operator_add":      "operator add 3 --to n1 --request-id r1",
		"operator_move":     "operator move 1 --from n1 --to n2 --expect-epoch 29.2 --request-id r1@77",
		"operator_wait":     "operator wait 29.13",
		"operator_and_wait": "operator move 1 --to n2 --wait --request-id r1",
		"operator_remove":   "operator remove 1 --request-id r1",
		"operator_cancel":   "operator cancel 29.13 --request-id r1",
		"operator_list":     "operator list",
		"operator_finished": "operator list --finished",
		"operator_get":      "operator get 29.9",
		"node_list":         "node list",
		"node_get":          "node get n2",
		"node_fence":        "node fence n1 --incarnation 29.1 --request-id r1",
		"cluster_status":    "cluster status",
		"changefeed_failed": "changefeed get broken",
		"changefeed_back":   "changefeed resume shop --from 50 --force --request-id r1",
		"changefeed_update": "changefeed update broken --sync-point-every 0 --request-id r1",
		"operator_split":    "operator split 2 --key x:208000000000000046 --to n1,- --request-id r1",
		"operator_merge":    "operator merge 5 6 --request-id r1",
		"operator_many":     "operator admit-many --request-id r1",
		"operator_getsplit": "operator get 29.17",
		"operator_getmerge": "operator get 29.18",
		"operator_explain":  "operator explain 29.13",
		"dispatcher_why":    "dispatcher explain 1",
		"barrier_list":      "barrier list",
		"barrier_get":       "barrier get shop 120/ddl",
		"barrier_undecided": "barrier get shop 200",
		"barrier_unknown":   "barrier get shop 7/ddl",
		"barrier_explain":   "barrier explain shop 120/ddl",
		"barrier_decide":    "barrier decide shop 200 --as written --request-id r1",
		"node_drain":        "node drain n1 --request-id r1",
		"node_clear":        "node clear n1 --request-id r1",
		"request_explain":   "request explain r1@77",
		"policy_get":        "policy get",
		"policy_set":        "policy set fail_after=7 cancel_stuck=false --request-id r1",
		"dry_run":           "operator move 1 --to n2 --dry-run --at 40",
		"log_replay":        "log replay --to 40",
	}
}

// TestGolden runs every command against a cluster that is in the middle of its work, for people and for scripts. After a
// change that is meant: go test ./cmd/weir/internal/cli -run TestGolden -update, and look at the difference.
func TestGolden(t *testing.T) {
	for name, line := range goldens() {
		for suffix, format := range map[string]string{"": "", "_json": " -o json"} {
			t.Run(name+suffix, func(t *testing.T) {
				r := run(t, shop(), strings.Fields(line+format)...)
				got := fmt.Sprintf("$ weir %s\n%s", line+format, r.stdout)
				if r.stderr != "" {
					got += "-- standard error --\n" + r.stderr
				}
				got += fmt.Sprintf("-- exit %d --\n", r.code)
				path := filepath.Join("testdata", name+suffix+".txt")
				if *update {
					require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, string(want), got)
			})
		}
	}
}

// TestEmptyLists says what to do when there is nothing to list.
func TestEmptyLists(t *testing.T) {
	for line, want := range map[string]string{
		"changefeed list":          "weir changefeed create",
		"table list shop":          "weir table add shop",
		"dispatcher list":          "no dispatchers fit",
		"operator list":            "weir operator list --finished",
		"operator list --finished": "no ended operators",
		"node list":                "weir agent --node NAME",
		"barrier list":             "weir barrier list --ended",
		"barrier list --ended":     "no ended events",
	} {
		t.Run(line, func(t *testing.T) {
			r := run(t, &fakePlane{}, strings.Fields(line)...)
			require.Equal(t, ExitOK, r.code, r.stderr)
			require.Contains(t, r.stdout, want)
			require.Equal(t, 1, strings.Count(r.stdout, "\n"))
		})
	}
}

// TestNoControlCharacters: names and sentences come from elsewhere, and no cell may move a cursor or break a line.
func TestNoControlCharacters(t *testing.T) {
	f := &fakePlane{feeds: []*weirv1.Changefeed{{Name: "a\x1b[2Jb\nc", Source: "wal2json:/x\ty"}}}
	r := run(t, f, "changefeed", "list")
	require.Equal(t, ExitOK, r.code)
	require.Equal(t, 2, strings.Count(r.stdout, "\n"))
	require.NotContains(t, r.stdout, "\x1b")
}

// TestDocumentedNames holds docs/cli.md to the names that -o json prints.
func TestDocumentedNames(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "cli.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("testdata", "*_json.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			name, _, isField := strings.Cut(strings.TrimSpace(line), `":`)
			if isField && strings.HasPrefix(name, `"`) {
				require.Contains(t, string(doc), "`"+name[1:]+"`", "docs/cli.md does not tell what %s is, which %s prints", name[1:], file)
			}
		}
	}
}
