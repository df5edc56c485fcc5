package logcodec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

var update = flag.Bool("update", false, "write the golden files of this version anew")

// fill gives every field below v a value that follows from n alone.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(*n%3 + 1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n * 1000)
	case reflect.Int64:
		v.SetInt(-int64(*n))
	default:
		panic("no filler for " + v.Kind().String())
	}
}

// digestOf keeps a failing comparison of long texts short.
func digestOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func everyCommand() []fsm.Command {
	var all []fsm.Command
	for kind := fsm.KindBeginTerm; ; kind++ {
		cmd, ok := fsm.NewCommand(kind)
		if !ok {
			return all
		}
		n := uint64(kind) * 100
		fill(reflect.ValueOf(cmd).Elem(), &n)
		if level, ok := cmd.(*fsm.SetFeatureLevel); ok {
			level.Level = 1
		}
		all = append(all, cmd)
	}
}

func proposalOf(cmd fsm.Command) fsm.Proposal {
	return fsm.Proposal{
		Term: 3, Level: 1, Request: "request-1", RequestTimeMS: 77, WallMS: 1_700_000_000_000, By: "golden", Command: cmd,
	}
}

// TestGoldenEntries holds the bytes of every command, so that none changes unnoticed.
func TestGoldenEntries(t *testing.T) {
	file := filepath.Join("testdata", "v2", "entries.txt")
	var out strings.Builder
	for _, cmd := range everyCommand() {
		raw, err := logcodec.AppendEntry(nil, []fsm.Proposal{proposalOf(cmd)})
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s %s\n", cmd.Kind(), hex.EncodeToString(raw))
	}
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, digestOf(string(want)), digestOf(out.String()), "the entries differ from their golden file: the format may only grow with a new version")
	lines := strings.Split(strings.TrimSpace(string(want)), "\n")
	for i, cmd := range everyCommand() {
		_, text, _ := strings.Cut(lines[i], " ")
		raw, err := hex.DecodeString(text)
		require.NoError(t, err)
		e, err := logcodec.DecodeEntry(9, 3, raw)
		require.NoError(t, err)
		require.Equal(t, fsm.Entry{Index: 9, Term: 3, Proposals: []fsm.Proposal{proposalOf(cmd)}}, e)
	}
}

// goldenState is a state in which every kind of row stands.
func goldenState(t *testing.T) *fsm.State {
	t.Helper()
	s := fsm.New()
	index := uint64(0)
	do := func(cmd fsm.Command) fsm.Verdict {
		index++
		p := fsm.Proposal{Term: 1, Request: fsm.RequestID(fmt.Sprintf("r%d", index)), By: "golden", Command: cmd}
		v := s.Apply(fsm.Entry{Index: index, Term: 1, Proposals: []fsm.Proposal{p}})[0]
		require.Equal(t, fsm.Accepted, v.Reason, v.Sentence())
		return v
	}
	do(&fsm.BeginTerm{Server: "s1"})
	do(&fsm.BeginGeneration{Generation: 5, Cluster: "golden", Why: fsm.GenerationBootstrap})
	do(&fsm.AnnounceServer{Server: "s1", Address: "127.0.0.1:1", HighestLevel: 1})
	register := &fsm.RegisterNode{Node: "n1", LeaseMS: 2000, ClockClass: 1, Protocol: 1, BootID: "b", LockDevice: 1, LockInode: 2}
	inc := do(register).Facts.Incarnation
	do(&fsm.CreateChangefeed{
		Name: "shop", Source: "wal2json:/log", Sink: "sqlite:/db", SinkFenced: true, Start: fsm.At(10),
		Tables: []fsm.TableSpec{{Schema: "public", Name: "a", SplitKeys: []string{"\x20k", "\x20m"}}, {Name: "b"}},
	})
	add := do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 1, To: "n1"}).Facts
	do(&fsm.ReportPlacements{Node: "n1", Incarnation: inc, Reports: []fsm.PlacementReport{{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: 1, Epoch: add.Epoch}, What: fsm.ReportRunning,
	}}})
	do(&fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: 1})
	add = do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 2, To: "n1"}).Facts
	do(&fsm.ReportPlacements{Node: "n1", Incarnation: inc, Reports: []fsm.PlacementReport{{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: 2, Epoch: add.Epoch, HasPosition: true, Position: fsm.At(11)},
		What:              fsm.ReportStartFailed, Reason: "SINK_ERROR", Detail: "disk full",
	}}})
	trigger := do(&fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: 5, To: "n1"}).Facts
	do(&fsm.ReportPlacements{Node: "n1", Incarnation: inc, Reports: []fsm.PlacementReport{{
		PlacementPosition: fsm.PlacementPosition{Dispatcher: 5, Epoch: trigger.Epoch}, What: fsm.ReportRunning,
	}}})
	said := func(what fsm.BarrierSaid, permission uint64, at, earlier fsm.Position, spec fsm.BarrierSpec) {
		v := do(&fsm.ReportBarrier{Node: "n1", Incarnation: inc, Reports: []fsm.BarrierReport{{
			Key:  fsm.BarrierKey{Changefeed: 1, Run: 1, At: at},
			What: what, Pairs: []fsm.Pair{{Dispatcher: 5, Epoch: trigger.Epoch}}, Permission: permission, Earlier: earlier, Spec: spec,
		}}})
		require.Equal(t, []fsm.Reason{fsm.ReportCounted}, v.Reports)
	}
	first, second := fsm.Position{TS: 12, Stage: fsm.StageDDL}, fsm.Position{TS: 20, Stage: fsm.StageDDL}
	create := fsm.BarrierSpec{
		Influence: fsm.InfluenceTables, Add: []fsm.TableSpec{{Schema: "public", Name: "c", SplitKeys: []string{"\x20k"}}}, Statement: "CREATE TABLE c (k int)",
	}
	said(fsm.SaidWaiting, 0, first, fsm.At(10), create)
	said(fsm.SaidWritten, 1, first, fsm.Position{}, fsm.BarrierSpec{})
	b := fsm.TableRef{Name: "b"}
	said(fsm.SaidWaiting, 0, second, first, fsm.BarrierSpec{
		Influence: fsm.InfluenceTables, Tables: []fsm.TableRef{b}, Rename: []fsm.TableRename{{From: b, To: fsm.TableRef{Name: "d"}}}, Statement: "ALTER TABLE b RENAME TO d",
	})
	return s
}

// TestGoldenSnapshot holds the bytes of a snapshot, the state hash included.
func TestGoldenSnapshot(t *testing.T) {
	file := filepath.Join("testdata", "v2", "snapshot.hex")
	s := goldenState(t)
	there := map[fsm.Section]bool{}
	for section := range s.View().Rows() {
		there[section] = true
	}
	require.Len(t, there, int(fsm.SectionBarrierRecords), "every kind of row")
	var raw bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&raw, s.View()))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(hex.Dump(raw.Bytes())), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, digestOf(string(want)), digestOf(hex.Dump(raw.Bytes())), "the snapshot differs from its golden file: the format may only grow with a new version")
	back, err := logcodec.ReadSnapshot(bytes.NewReader(raw.Bytes()))
	require.NoError(t, err)
	require.Equal(t, s.Hash(), back.Hash())
	require.Equal(t, s.Meta(), back.Meta())
	h, err := logcodec.ReadHeader(bytes.NewReader(raw.Bytes()))
	require.NoError(t, err)
	require.Equal(t, logcodec.Header{Cluster: "golden", Index: 15, Term: 1, Level: 1, Dispatchers: 7}, h)
}

// TestADamagedSnapshotIsRefused changes and cuts every byte.
func TestADamagedSnapshotIsRefused(t *testing.T) {
	var raw bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&raw, goldenState(t).View()))
	for i := range raw.Len() {
		flipped := bytes.Clone(raw.Bytes())
		flipped[i] ^= 0x41
		_, err := logcodec.ReadSnapshot(bytes.NewReader(flipped))
		require.ErrorIs(t, err, logcodec.ErrSnapshot, "byte %d changed", i)
		_, err = logcodec.ReadSnapshot(bytes.NewReader(raw.Bytes()[:i]))
		require.ErrorIs(t, err, logcodec.ErrSnapshot, "cut at byte %d", i)
	}
	_, err := logcodec.ReadSnapshot(bytes.NewReader(append(bytes.Clone(raw.Bytes()), 0)))
	require.ErrorIs(t, err, logcodec.ErrSnapshot, "a byte after the end")
}

// TestASnapshotOfALevelThatThisVersionDoesNotUnderstandIsRefused: its rows may mean more than this version reads in them.
func TestASnapshotOfALevelThatThisVersionDoesNotUnderstandIsRefused(t *testing.T) {
	s := goldenState(t)
	last := s.Meta().Index
	verdicts := s.Apply(fsm.Entry{Index: last + 1, Term: 1, Proposals: []fsm.Proposal{
		{Term: 1, Command: &fsm.AnnounceServer{Server: "s1", Address: "127.0.0.1:1", HighestLevel: fsm.HighestLevel + 1}},
		{Term: 1, Command: &fsm.SetFeatureLevel{Level: fsm.HighestLevel + 1}},
	}})
	require.True(t, verdicts[1].OK())
	var raw bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&raw, s.View()))
	_, err := logcodec.ReadSnapshot(&raw)
	require.ErrorIs(t, err, logcodec.ErrSnapshot)
	require.ErrorContains(t, err, "run a newer version")
}

// TestReview_R47_AnEntryIsReadCompletelyBeforeAnythingIsApplied has the unknown command behind known ones.
func TestReview_R47_AnEntryIsReadCompletelyBeforeAnythingIsApplied(t *testing.T) {
	first, second := proposalOf(&fsm.BeginTerm{Server: "a"}), proposalOf(&fsm.Tick{})
	alone, err := logcodec.AppendEntry(nil, []fsm.Proposal{first})
	require.NoError(t, err)
	raw, err := logcodec.AppendEntry(nil, []fsm.Proposal{first, second})
	require.NoError(t, err)
	require.Equal(t, byte(fsm.KindTick), raw[len(alone)])
	raw[len(alone)] = 200
	e, err := logcodec.DecodeEntry(12, 3, raw)
	var unknown *logcodec.UnknownCommandError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, err, logcodec.ErrEntry)
	require.Equal(t, logcodec.UnknownCommandError{Kind: 200, Index: 12, Position: 1}, *unknown)
	require.Less(t, len(e.Proposals), 2)
}

func TestEntriesOfOtherVersionsAreRefused(t *testing.T) {
	raw, err := logcodec.AppendEntry(nil, []fsm.Proposal{proposalOf(&fsm.Tick{})})
	require.NoError(t, err)
	for version, want := range map[byte]string{
		1: "log entry cannot be understood: entry 7 is of a build from before the first release (format version 1), which no later one reads: start with an empty data folder",
		3: "log entry cannot be understood: entry 7 has format version 3, this version reads 2: run a newer version",
	} {
		other := bytes.Clone(raw)
		other[0] = version
		_, err = logcodec.DecodeEntry(7, 1, other)
		require.ErrorIs(t, err, logcodec.ErrEntry)
		require.EqualError(t, err, want)
	}
	_, err = logcodec.DecodeEntry(1, 1, append(raw, 0))
	require.ErrorIs(t, err, logcodec.ErrEntry)
	_, err = logcodec.AppendEntry(nil, nil)
	require.Error(t, err)
}

func TestSnapshotsOfOtherVersionsAreRefused(t *testing.T) {
	var raw bytes.Buffer
	require.NoError(t, logcodec.WriteSnapshot(&raw, fsm.New().View()))
	at := len("WEIRSNAP")
	require.Equal(t, byte(logcodec.SnapshotVersion), raw.Bytes()[at])
	for version, want := range map[byte]string{
		1: "it is of a build from before the first release (format version 1), which no later one reads: start with an empty data folder",
		3: "it has format version 3, this version reads 2: run a newer version",
	} {
		other := bytes.Clone(raw.Bytes())
		other[at] = version
		_, err := logcodec.ReadSnapshot(bytes.NewReader(other))
		require.ErrorIs(t, err, logcodec.ErrSnapshot)
		require.ErrorContains(t, err, want)
		_, err = logcodec.ReadHeader(bytes.NewReader(other))
		require.ErrorContains(t, err, want)
	}
}

// FuzzDecodeEntry: whatever decodes encodes back to the same bytes, and nothing panics.
func FuzzDecodeEntry(f *testing.F) {
	for _, cmd := range everyCommand() {
		raw, err := logcodec.AppendEntry(nil, []fsm.Proposal{proposalOf(cmd), proposalOf(&fsm.Tick{})})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := logcodec.DecodeEntry(1, 1, raw)
		if err != nil {
			require.ErrorIs(t, err, logcodec.ErrEntry)
			return
		}
		again, err := logcodec.AppendEntry(nil, e.Proposals)
		require.NoError(t, err)
		require.Equal(t, raw, again)
		fsm.New().Apply(e)
	})
}

// FuzzReadSnapshot: nothing panics or allocates without limit.
func FuzzReadSnapshot(f *testing.F) {
	var raw bytes.Buffer
	if err := logcodec.WriteSnapshot(&raw, fsm.New().View()); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := logcodec.ReadSnapshot(bytes.NewReader(raw)); err != nil {
			require.ErrorIs(t, err, logcodec.ErrSnapshot)
		}
	})
}
