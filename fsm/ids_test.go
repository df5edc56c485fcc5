package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/fsm"
)

// TestGoldenTokens holds the layout of epochs, op ids and incarnations: they stand in sinks, logs and snapshots.
func TestGoldenTokens(t *testing.T) {
	for text, want := range map[string]uint64{
		"0.0": 0, "0.1": 1, "1.0": 1 << 36, "7.5": 7<<36 | 5, "29935651.14": 29935651<<36 | 14,
		"134217727.68719476735": 1<<63 - 1,
	} {
		v, err := fsm.ParseToken(text)
		require.NoError(t, err)
		require.Equal(t, want, v, text)
		require.Equal(t, text, fsm.Epoch(want).String())
		require.Equal(t, text, fsm.OpID(want).String())
		require.Equal(t, text, fsm.Incarnation(want).String())
		require.Equal(t, fsm.Generation(want>>36), fsm.Epoch(want).Generation())
		require.Equal(t, fsm.Generation(want>>36), fsm.Incarnation(want).Generation())
	}
	plain, err := fsm.ParseToken("68719476737")
	require.NoError(t, err)
	require.Equal(t, "1.1", fsm.Epoch(plain).String())
	for _, bad := range []string{"", "x", "1.", ".1", "1.2.3", "134217728.0", "0.68719476736", "9223372036854775808", "-1"} {
		_, err := fsm.ParseToken(bad)
		require.Error(t, err, bad)
	}
}

// TestGoldenPositions holds the order of stages and how positions are written.
func TestGoldenPositions(t *testing.T) {
	inOrder := []string{"0", "5/none", "5/rows", "5/ddl", "5", "6/none", "6"}
	var last fsm.Position
	for i, text := range inOrder {
		p, err := fsm.ParsePosition(text)
		require.NoError(t, err)
		require.Equal(t, text, p.String())
		require.True(t, p.Valid())
		if i > 0 {
			require.True(t, last.Less(p), "%s before %s", last, p)
			require.Equal(t, p, last.Max(p))
			require.Equal(t, p, p.Max(last))
		}
		last = p
	}
	sync, err := fsm.ParsePosition("5/sync")
	require.NoError(t, err)
	require.Equal(t, fsm.At(5), sync)
	require.False(t, fsm.Position{TS: 1, Stage: fsm.StageSyncPoint + 1}.Valid())
	for _, bad := range []string{"", "x", "5/", "5/later", "-1", "18446744073709551616"} {
		_, err := fsm.ParsePosition(bad)
		require.Error(t, err, bad)
	}
}

// TestSpansAgreeWithTheirKeys compares spans with what they mean for every key of a small alphabet.
func TestSpansAgreeWithTheirKeys(t *testing.T) {
	keys := []string{"", "a", "aa", "ab", "b", "ba", "c"}
	key := rapid.SampledFrom(keys)
	rapid.Check(t, func(t *rapid.T) {
		s := fsm.Span{Start: key.Draw(t, "s"), End: key.Draw(t, "e")}
		u := fsm.Span{Start: key.Draw(t, "us"), End: key.Draw(t, "ue")}
		if !s.Valid() || !u.Valid() {
			return
		}
		shared := false
		for _, k := range keys {
			shared = shared || (s.Contains(k) && u.Contains(k))
		}
		require.Equal(t, shared, s.Overlaps(u), "%s %s", s, u)
	})
	require.True(t, fsm.Tile(fsm.WholeTable(), []fsm.Span{{End: "b"}, {Start: "b"}}))
	for _, gap := range [][]fsm.Span{nil, {{End: "b"}}, {{End: "b"}, {Start: "c"}}, {{End: "c"}, {Start: "b"}}, {{}, {Start: "b"}}} {
		require.False(t, fsm.Tile(fsm.WholeTable(), gap), "%v", gap)
	}
}
