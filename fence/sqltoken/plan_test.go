package sqltoken

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func fenceRow(start, end string, epoch, run, ts uint64) row {
	return row{span: Range{start, end}, token: Token{epoch, 1}, owner: Owner{Cluster: "c", Changefeed: "f", Run: run}, resume: pos(ts)}
}

func TestResumePositionOfAClaim(t *testing.T) {
	released := fenceRow("a", "z", 1, 1, 90)
	released.released = true
	for name, c := range map[string]struct {
		rows []row
		want uint64
	}{
		"no rows":                         {nil, 20},
		"one row that covers":             {[]row{fenceRow("", "", 1, 1, 50)}, 50},
		"exactly the range":               {[]row{fenceRow("b", "y", 1, 1, 50)}, 50},
		"earlier than the start":          {[]row{fenceRow("b", "y", 1, 1, 5)}, 20},
		"two rows, the least counts":      {[]row{fenceRow("a", "m", 1, 1, 50), fenceRow("m", "z", 2, 1, 40)}, 40},
		"gap in the middle":               {[]row{fenceRow("a", "m", 1, 1, 50), fenceRow("n", "z", 2, 1, 40)}, 20},
		"gap at the start":                {[]row{fenceRow("c", "z", 1, 1, 50)}, 20},
		"gap at the end":                  {[]row{fenceRow("a", "x", 1, 1, 50)}, 20},
		"older run":                       {[]row{fenceRow("a", "z", 1, 0, 50)}, 20},
		"part of an older run":            {[]row{fenceRow("a", "m", 1, 1, 50), fenceRow("m", "z", 2, 0, 60)}, 20},
		"newer run":                       {[]row{fenceRow("a", "z", 1, 2, 50)}, 20},
		"released":                        {[]row{released}, 20},
		"one of the rows never got ahead": {[]row{fenceRow("a", "m", 1, 1, 0), fenceRow("m", "z", 2, 1, 60)}, 20},
	} {
		own := fenceRow("b", "y", 9, 1, 20)
		p, err := planClaim("t", own, c.rows)
		require.NoError(t, err, name)
		require.Equal(t, pos(c.want), p.resume, name)
	}
	p, err := planClaim("t", fenceRow("b", "", 9, 1, 20), []row{fenceRow("a", "z", 1, 1, 50)})
	require.NoError(t, err)
	require.Equal(t, pos(20), p.resume, "an open end is not covered by a closed one")
}

func TestCutRowsKeepTheirTokenAndPosition(t *testing.T) {
	p, err := planClaim("t", fenceRow("f", "k", 9, 1, 0), []row{fenceRow("a", "g", 1, 1, 10), fenceRow("g", "h", 2, 1, 11), fenceRow("h", "", 3, 1, 12)})
	require.NoError(t, err)
	require.Equal(t, "[a,f) 1#1 @10; [k,) 3#1 @12; [f,k) 9#1 @10", printRows(p.insert))
}

// TestRowsNeverOverlapAndTokensNeverFall runs claims of random ranges and tokens, and checks after each: rows are
// disjoint, no key's token fell or vanished, an accepted claim is exactly one row, a refused one changed nothing.
// rapid prints the seed of a failure and the flag that repeats it.
func TestRowsNeverOverlapAndTokensNeverFall(t *testing.T) {
	const keys = "abcdefgh"
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		for range rapid.IntRange(1, 25).Draw(t, "claims") {
			from := rapid.IntRange(0, len(keys)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(keys)).Draw(t, "to")
			own := fenceRow("", "", rapid.Uint64Range(1, 6).Draw(t, "epoch"), rapid.Uint64Range(1, 2).Draw(t, "run"), rapid.Uint64Range(0, 9).Draw(t, "ts"))
			own.token.Claim = rapid.Uint64Range(1, 2).Draw(t, "claim")
			if from > 0 {
				own.span.Start = keys[from : from+1]
			}
			if to < len(keys) {
				own.span.End = keys[to : to+1]
			}
			before := slices.Clone(rows)
			var overlapping []row
			for _, r := range rows {
				if r.span.overlaps(own.span) {
					overlapping = append(overlapping, r)
				}
			}
			p, err := planClaim("t", own, overlapping)
			if err != nil {
				found := stale(t, err).Found
				require.Positive(t, found.Compare(own.token))
				continue
			}
			rows = slices.DeleteFunc(rows, func(r row) bool { return r.span.overlaps(own.span) })
			rows = append(rows, p.insert...)
			slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.span.Start, b.span.Start) })
			checkRows(t, keys, before, rows, own)
		}
	})
}

func tokenAt(t require.TestingT, rows []row, key string) (Token, bool) {
	var found []Token
	for _, r := range rows {
		if r.span.overlaps(Range{key, key + "\x00"}) {
			found = append(found, r.token)
		}
	}
	require.LessOrEqual(t, len(found), 1, "rows overlap at %s: %s", key, printRows(rows))
	if len(found) == 0 {
		return Token{}, false
	}
	return found[0], true
}

func checkRows(t require.TestingT, keys string, before, after []row, own row) {
	require.Contains(t, printRows(after), printRows([]row{{span: own.span, token: own.token}})[:len(own.span.Start)+len(own.span.End)+3])
	for _, key := range keys {
		was, there := tokenAt(t, before, string(key))
		is, still := tokenAt(t, after, string(key))
		if there {
			require.True(t, still, "the row at %c vanished", key)
			require.GreaterOrEqual(t, is.Compare(was), 0, "the token at %c fell", key)
		}
		if own.span.overlaps(Range{string(key), string(key) + "\x00"}) {
			require.Equal(t, own.token, is)
		}
	}
}
