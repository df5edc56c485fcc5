package dev

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

func handover(from, to uint64, gap time.Duration) Handover {
	return Handover{Table: "t", Keys: "[-inf, +inf)", From: from, To: to, Before: "n1/1", After: "n2/1", Gap: gap}
}

// TestJudgment: the demo is right only with every handover that its faults ask for, each with a gap above zero.
func TestJudgment(t *testing.T) {
	faults := done{moved: 1, from: 2, to: 5, victims: make([]*weirv1.Dispatcher, 1)}
	good := []Handover{handover(2, 5, time.Millisecond), handover(5, 7, time.Second)}
	for _, c := range []struct {
		name     string
		evidence Evidence
		says     string
	}{
		{"right", Evidence{Handovers: good}, ""},
		{"no handover", Evidence{}, "no handover was seen"},
		{"too few", Evidence{Handovers: good[:1]}, "1 handovers were seen, the faults ask for at least 2"},
		{"no gap", Evidence{Handovers: []Handover{good[0], handover(5, 7, 0)}}, "an old owner wrote after the next one"},
		{"backwards", Evidence{Handovers: good, Backwards: 1}, "below one that had written before"},
		{"the move is not there", Evidence{Handovers: []Handover{handover(3, 5, 1), good[1]}}, "which is the move"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			d := &demo{out: newScreen(&out, false)}
			wrong := d.evidence(&c.evidence, Refusals{AtSink: 3}, faults)
			if c.says == "" {
				require.Empty(t, wrong)
				require.Contains(t, out.String(), "3 stale writes refused at the sink")
				require.Contains(t, out.String(), "1ms: t [-inf, +inf) from n1 (epoch 0.2) to n2 (epoch 0.5)")
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], c.says)
		})
	}
}

func TestCountRefusals(t *testing.T) {
	dir := t.TempDir()
	lines := `{"event":"attempt","outcome":""}
{"event":"outcome","outcome":"accepted"}
{"event":"outcome","outcome":"fenced"}
{"event":"gate","outcome":"fenced"}
{"event":"outcome","outcome":"refused"}
{"event":"outcome","outc`
	require.NoError(t, os.WriteFile(ledgerPath(dir, "n1"), []byte(lines), 0o600))
	require.NoError(t, os.WriteFile(ledgerPath(dir, "n2"), []byte(`{"event":"outcome","outcome":"fenced"}`+"\n"), 0o600))
	r, err := countRefusals(dir)
	require.NoError(t, err)
	require.Equal(t, Refusals{AtSink: 2, AtGate: 1}, r)
}

// TestWatcher: an agent is killed if it stands still, and only then.
func TestWatcher(t *testing.T) {
	heard := func(ms uint64) *weirv1.Node {
		return &weirv1.Node{
			Name: "n1", Status: weirv1.NodeStatus_NODE_STATUS_LIVE, LeaseMs: 2000, Lease: &weirv1.Lease{HeardAgeMs: ms},
		}
	}
	expired := &weirv1.Node{Name: "n1", Status: weirv1.NodeStatus_NODE_STATUS_EXPIRED, LeaseMs: 2000}
	unheard := &weirv1.Node{Name: "n1", Status: weirv1.NodeStatus_NODE_STATUS_LIVE, LeaseMs: 2000}
	type look struct {
		after time.Duration
		pid   int
		node  *weirv1.Node
	}
	for _, c := range []struct {
		name  string
		looks []look
		kill  bool
	}{
		{"heard", []look{{0, 1, heard(100)}, {time.Second, 1, heard(1900)}}, false},
		{"silent beyond its lease", []look{{0, 1, heard(100)}, {time.Second, 1, heard(2600)}}, true},
		{"not heard yet by a new leader", []look{{0, 1, heard(100)}, {time.Minute, 1, unheard}}, false},
		{"expired for a moment", []look{{time.Minute, 1, heard(1)}, {2 * time.Minute, 1, expired}, {2*time.Minute + time.Second, 1, expired}}, false},
		{"expired and not back", []look{{0, 1, heard(1)}, {time.Minute, 1, expired}, {time.Minute + 2*time.Second, 1, expired}}, true},
		{"back as another incarnation", []look{{0, 1, heard(1)}, {time.Minute, 1, expired}, {61 * time.Second, 1, heard(1)}, {62 * time.Second, 1, expired}}, false},
		{"just started, the row is of the process before", []look{{0, 1, heard(1)}, {time.Minute, 2, expired}, {time.Minute + 5*time.Second, 2, expired}}, false},
		{"started long ago and never registered", []look{{0, 2, expired}, {11 * time.Second, 2, expired}, {13 * time.Second, 2, expired}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watcher{seen: map[string]sighting{}}
			why, start := "", time.Unix(1000, 0)
			for _, l := range c.looks {
				why = w.standsStill(l.node, l.pid, start.Add(l.after))
			}
			require.Equal(t, c.kill, why != "", why)
		})
	}
}

// TestScreen: without a terminal nothing but lines is written; with one a line goes above the view.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, false)
	s.draw([]string{"view"})
	s.line("a %d", 1)
	require.Equal(t, "a 1\n", out.String())

	out.Reset()
	s = newScreen(&out, true)
	s.draw([]string{"v1", "v2"})
	s.line("said")
	require.Equal(t, noWrap+"v1\nv2\n"+wrap+"\x1b[2A\r"+eraseDown+"said\n"+noWrap+"v1\nv2\n"+wrap, out.String())
	s.settle()
	out.Reset()
	s.line("more")
	require.Equal(t, "more\n", out.String())
	require.NoError(t, s.failed())
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadState(dir)
	require.ErrorContains(t, err, "holds no "+StateFile)
	require.NoError(t, (&State{PID: 1, Servers: []string{"a:1"}, Raft: []string{"a:2"}}).write(dir))
	s, err := ReadState(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"a:1"}, s.Servers)
	require.NoError(t, os.WriteFile(filepath.Join(dir, StateFile), []byte("{"), 0o600))
	_, err = ReadState(dir)
	require.ErrorContains(t, err, "is damaged")
}

func TestPorts(t *testing.T) {
	grpc, raft, err := choosePorts(t.Context(), 0, 3)
	require.NoError(t, err)
	require.Len(t, grpc, 3)
	seen := map[int]bool{}
	for _, p := range append(grpc, raft...) {
		require.False(t, seen[p])
		seen[p] = true
		require.Less(t, p, highestPort+2*raftOffset)
	}
}

// TestPlans: the same seed gives the same plan, and each fault has its own stretch of the feed.
func TestPlans(t *testing.T) {
	for seed := range int64(200) {
		p, q := newPlan(seed), newPlan(seed)
		require.Equal(t, p.move, q.move)                     //nolint:testifylint // the same computation
		require.Equal(t, p.rng.IntN(1000), q.rng.IntN(1000)) // and the same choices
		require.True(t, 0 < p.move && p.move < p.split && p.split < p.owner && p.owner < p.leader && p.leader < p.merge && p.merge < lastShare)
	}
}

// TestOutcome: a run that was told to end is no failure, unless it was to prove something; what went wrong always is.
func TestOutcome(t *testing.T) {
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	told, odd := interrupted.Err(), errors.New("odd")
	proving, playing := &Config{Exit: true}, &Config{}
	require.NoError(t, playing.outcome(interrupted, told))
	require.NoError(t, proving.outcome(t.Context(), nil))
	require.ErrorIs(t, proving.outcome(interrupted, told), errInterrupted)
	require.ErrorIs(t, playing.outcome(interrupted, odd), odd)
	require.ErrorIs(t, proving.outcome(t.Context(), odd), odd)
	require.ErrorIs(t, playing.outcome(t.Context(), told), told, "nobody told this run to end")
}

// TestJudgeWrites: an event is right if it took effect once, with all rows before it before it and all after it after it.
func TestJudgeWrites(t *testing.T) {
	at := func(ts uint64, s fsm.Stage) fsm.Position { return fsm.Position{TS: ts, Stage: s} }
	rows := func(table string, ts uint64) write {
		return write{op: "write", table: table, rows: 1, resume: at(ts, fsm.StageRows)}
	}
	ddl := write{op: "ddl", resume: at(10, fsm.StageDDL)}
	b := &weirv1.Barrier{
		At: show.FromPosition(at(10, fsm.StageDDL)), Status: weirv1.BarrierStatus_BARRIER_STATUS_ENDED, Result: weirv1.BarrierResult_BARRIER_RESULT_WRITTEN,
		Spec: &weirv1.BarrierSpec{Influence: weirv1.Influence_INFLUENCE_TABLES, Tables: []*weirv1.TableRef{{Name: "t"}}},
	}
	for _, c := range []struct {
		name   string
		ledger []write
		says   string
	}{
		{"right", []write{rows("t", 10), ddl, rows("t", 11)}, ""},
		{"known again", []write{rows("t", 10), ddl, {op: "ddl-known", resume: at(10, fsm.StageDDL)}, rows("t", 11)}, ""},
		{"others do not care", []write{rows("u", 12), ddl, rows("u", 9)}, ""},
		{"never", []write{rows("t", 10)}, "took effect 0 times"},
		{"twice", []write{ddl, ddl}, "took effect 2 times"},
		{"rows too early", []write{rows("t", 11), ddl}, "wrong side"},
		{"rows too late", []write{ddl, rows("t", 10)}, "wrong side"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := judgeWrites([]*weirv1.Barrier{b}, c.ledger)
			if c.says == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], c.says)
		})
	}
	require.Empty(t, judgeKeys([]fsm.Position{at(10, fsm.StageDDL)}, []*weirv1.Barrier{b}))
	require.Len(t, judgeKeys([]fsm.Position{at(10, fsm.StageDDL), at(11, fsm.StageDDL)}, []*weirv1.Barrier{b}), 1, "one is missing")
	b.Status = weirv1.BarrierStatus_BARRIER_STATUS_PASSING
	require.Len(t, judgeKeys([]fsm.Position{at(10, fsm.StageDDL)}, []*weirv1.Barrier{b}), 1, "it has not ended")
}
