package sqltoken

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReview_R05_ZombieParentIsRefused: a parent that expired goes on after its children have claimed, in either order
// and also if only one of them has.
func TestReview_R05_ZombieParentIsRefused(t *testing.T) {
	for name, order := range map[string][]int{"left first": {0, 1}, "right first": {1, 0}, "left only": {0}, "right only": {1}} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			parent := d.guard("", "")
			claimed(t, parent, 1, Position{})
			require.NoError(t, put(parent, "a", 10))
			children := []*Guard{d.guard("", "m"), d.guard("m", "")}
			for _, i := range order {
				require.Equal(t, pos(10), claimed(t, children[i], uint64(2+i), Position{}))
			}
			e := stale(t, put(parent, "a", 11))
			require.Equal(t, Token{1, 1}, e.Own)
			require.Equal(t, uint64(2+max(order[0], order[len(order)-1])), e.Found.Epoch, "the newest holder is named")
			require.NotEmpty(t, e.Holder)
			_, err := parent.Claim(t.Context(), Token{1, 2}, Position{}, always)
			refusedAsStale(t, err)
			require.Len(t, d.refused, 2)
			require.Equal(t, []bool{false, true}, []bool{d.refused[0].Claim, d.refused[1].Claim})
		})
	}
}

// TestReview_R05_SiblingsDoNotFenceEachOther: the claim of a moved child leaves its sibling alone.
func TestReview_R05_SiblingsDoNotFenceEachOther(t *testing.T) {
	d := newDatabase(t)
	claimed(t, d.guard("", ""), 1, Position{})
	left, right, moved := d.guard("", "m"), d.guard("m", ""), d.guard("m", "")
	claimed(t, left, 2, Position{})
	claimed(t, right, 3, Position{})
	claimed(t, moved, 4, Position{})
	require.NoError(t, put(left, "a", 5))
	require.NoError(t, put(moved, "n", 5))
	require.Equal(t, Token{4, 1}, stale(t, put(right, "n", 6)).Found)
	require.Equal(t, "[,m) 2#1 @5; [m,) 4#1 @5", d.fences())
}

// TestReview_R05_GrandchildOfAChildThatNeverClaimed: no lineage is needed to fence the parent.
func TestReview_R05_GrandchildOfAChildThatNeverClaimed(t *testing.T) {
	d := newDatabase(t)
	parent := d.guard("", "")
	claimed(t, parent, 1, Position{})
	require.NoError(t, put(parent, "x", 7))
	grandchild := d.guard("g", "k") // child [a,m) under token 2 was split before it claimed
	require.Equal(t, pos(7), claimed(t, grandchild, 5, Position{}))
	refusedAsStale(t, put(parent, "h", 8))
	refusedAsStale(t, put(parent, "a", 8))
	require.NoError(t, put(grandchild, "h", 8))
	require.Equal(t, "[,g) 1#1 @7; [g,k) 5#1 @8; [k,) 1#1 @7", d.fences())
	child := d.guard("a", "m") // and the late child is too old to get in
	_, err := child.Claim(t.Context(), Token{2, 1}, Position{}, always)
	require.Equal(t, Token{5, 1}, stale(t, err).Found)
	require.NoError(t, put(grandchild, "i", 9))
}

// TestReview_R05_DroppedAndAddedAgain: the dispatcher of a table that was dropped goes on; the new one has a new id and
// no ancestor.
func TestReview_R05_DroppedAndAddedAgain(t *testing.T) {
	for name, release := range map[string]bool{"old row left behind": false, "range given up": true} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			zombie, cleaner := d.guard("", ""), d.guard("", "")
			claimed(t, zombie, 1, Position{})
			require.NoError(t, put(zombie, "a", 50))
			if release {
				claimed(t, cleaner, 2, Position{})
				require.NoError(t, cleaner.Guarded(t.Context(), always, func(ctx context.Context, tx Tx) (Effect, error) {
					_, err := tx.ExecContext(ctx, "DELETE FROM data")
					return Effect{Release: true}, err
				}))
				refusedAsStale(t, put(zombie, "a", 51))
				_, err := zombie.Claim(t.Context(), Token{1, 9}, Position{}, always)
				require.Equal(t, Token{2, 1}, stale(t, err).Found, "no older token comes back over a released range")
				require.True(t, stale(t, put(cleaner, "a", 51)).Released)
			}
			again := d.guard("", "")
			resume := claimed(t, again, 3, pos(20))
			if release {
				require.Equal(t, pos(20), resume, "the old progress went with the rows")
			}
			refusedAsStale(t, put(zombie, "a", 52))
			require.NoError(t, put(again, "a", 60))
		})
	}
}

// TestReview_R31_ClaimNumberFencesTheOwnLateWrite: after an un-pause the owner claims anew, so its own late batch fails.
func TestReview_R31_ClaimNumberFencesTheOwnLateWrite(t *testing.T) {
	d := newDatabase(t)
	late, now := d.guard("", ""), d.guard("", "")
	claimed(t, late, 7, Position{})
	require.NoError(t, put(late, "a", 3))
	resume, err := now.Claim(t.Context(), Token{7, 2}, Position{}, always)
	require.NoError(t, err)
	require.Equal(t, pos(3), resume)
	require.NoError(t, put(now, "a", 4))
	require.Equal(t, Token{7, 2}, stale(t, put(late, "a", 4)).Found)
}

func TestEqualTokenIsTheOwnClaim(t *testing.T) {
	d := newDatabase(t)
	g := d.guard("b", "d")
	claimed(t, g, 3, pos(1))
	require.NoError(t, put(g, "c", 9))
	require.Equal(t, pos(9), claimed(t, g, 3, pos(1)))
	require.NoError(t, put(g, "c", 10))
}

func TestWriteBeforeAClaimIsRefused(t *testing.T) {
	require.ErrorIs(t, put(newDatabase(t).guard("", ""), "a", 1), ErrNotClaimed)
}

func TestOtherOwners(t *testing.T) {
	d := newDatabase(t)
	mine := d.guard("a", "m")
	claimed(t, mine, 5, Position{})
	beside := []string{"x", "y", "z"}
	for i, owner := range []Owner{{Cluster: "c", Changefeed: "other", Session: "s"}, {Cluster: "c2", Changefeed: "f", Session: "s"}} {
		theirs := d.guardOf(owner, "", "b")
		for _, epoch := range []uint64{1, 9} { // tokens of strangers do not compare
			_, err := theirs.Claim(t.Context(), Token{epoch, 1}, Position{}, always)
			e, ok := errors.AsType[*OtherOwnerError](err)
			require.True(t, ok, err)
			require.Equal(t, []string{"c", "f"}, []string{e.Owner.Cluster, e.Owner.Changefeed})
		}
		claimed(t, d.guardOf(owner, beside[i], beside[i+1]), 9, Position{})
	}
	require.NoError(t, put(mine, "b", 1), "refused claims changed nothing")
	require.NoError(t, mine.Guarded(t.Context(), always, func(context.Context, Tx) (Effect, error) { return Effect{Release: true}, nil }))
	theirs := d.guardOf(Owner{Cluster: "c2", Changefeed: "f", Run: 1, Session: "s"}, "", "b")
	_, err := theirs.Claim(t.Context(), Token{4, 1}, Position{}, always)
	require.Equal(t, Token{5, 1}, stale(t, err).Found, "a released range keeps its token")
	require.Equal(t, pos(2), claimed(t, theirs, 6, pos(2)))
}

func TestFailedOrDisallowedTransactionsLeaveNothing(t *testing.T) {
	d := newDatabase(t)
	g := d.guard("", "")
	claimed(t, g, 1, Position{})
	require.NoError(t, put(g, "a", 5))
	before := d.fences()
	closed := errors.New("the lease is closed")
	for denyAt := 1; denyAt <= 2; denyAt++ {
		asked := 0
		allow := func() error {
			if asked++; asked == denyAt {
				return closed
			}
			return nil
		}
		ran := false
		err := g.Guarded(t.Context(), allow, func(ctx context.Context, tx Tx) (Effect, error) {
			ran = true
			_, err := tx.ExecContext(ctx, "DELETE FROM data")
			return Effect{Resume: &Position{TS: 6}}, err
		})
		require.ErrorIs(t, err, closed)
		require.Equal(t, denyAt == 2, ran, "no statement runs before the first question")
		asked = 0
		_, err = d.guard("", "").Claim(t.Context(), Token{2, 1}, Position{}, allow)
		require.ErrorIs(t, err, closed)
	}
	boom := errors.New("boom")
	require.ErrorIs(t, g.Guarded(t.Context(), always, func(ctx context.Context, tx Tx) (Effect, error) {
		_, err := tx.ExecContext(ctx, "DELETE FROM data")
		return Effect{}, errors.Join(err, boom)
	}), boom)
	require.ErrorContains(t, put(g, "b", 4), "would go back")
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, g.Guarded(ctx, always, func(ctx context.Context, tx Tx) (Effect, error) {
		_, err := tx.ExecContext(ctx, "DELETE FROM data")
		cancel()
		return Effect{}, err
	}), context.Canceled)
	require.Equal(t, before, d.fences())
	var rows int
	require.NoError(t, d.db.QueryRowContext(t.Context(), "SELECT count(*) FROM data").Scan(&rows))
	require.Equal(t, 1, rows)
	require.NoError(t, put(g, "b", 6), "the connection is usable")
}

// TestResumeIsReadUnderTheClaim: the predecessor writes between a look at its resume position and the claim. The claim
// must see that write; the mutant "read, then claim" would not, and would apply older rows over newer ones.
func TestResumeIsReadUnderTheClaim(t *testing.T) {
	d := newDatabase(t)
	old, successor := d.guard("", ""), d.guard("", "")
	claimed(t, old, 1, Position{})
	require.NoError(t, put(old, "a", 10))
	conn, err := d.db.Conn(t.Context())
	require.NoError(t, err)
	early, there, err := store{tx: conn, dialect: SQLite(), table: "data"}.at(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.True(t, there)
	require.NoError(t, put(old, "a", 20))
	got := claimed(t, successor, 2, Position{})
	require.Equal(t, pos(20), got)
	require.NotEqual(t, early.resume, got, "the schedule separates the two orders")
	refusedAsStale(t, put(old, "a", 30))
	require.Equal(t, pos(20), claimed(t, successor, 2, Position{}), "what was refused is not in the position either")
}

func TestConfigIsChecked(t *testing.T) {
	d := newDatabase(t)
	good := Config{DB: d.db, Dialect: SQLite(), Table: "data", Range: Range{Start: "a", End: "b"}, Owner: Owner{Cluster: "c", Changefeed: "f"}}
	for text, change := range map[string]func(*Config){
		"Config.DB":    func(c *Config) { c.DB = nil },
		"Dialect":      func(c *Config) { c.Dialect.Begin = "" },
		"Config.Table": func(c *Config) { c.Table = "" },
		"holds no key": func(c *Config) { c.Range.End = "a" },
		"no cluster":   func(c *Config) { c.Owner.Cluster = "" },
		"above 2^63":   func(c *Config) { c.Owner.Run = 1 << 63 },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		require.ErrorContains(t, err, text)
	}
	g, err := New(good)
	require.NoError(t, err)
	for _, bad := range []Token{{0, 1}, {1 << 63, 1}, {1, 1 << 63}} {
		_, err := g.Claim(t.Context(), bad, Position{}, always)
		require.ErrorContains(t, err, "is not between")
	}
}

func TestDamagedFenceRowIsReported(t *testing.T) {
	d := newDatabase(t)
	g := d.guard("", "")
	claimed(t, g, 1, Position{})
	_, err := d.db.ExecContext(t.Context(), "UPDATE weir_fence SET resume_ts = 'x'")
	require.NoError(t, err)
	require.ErrorContains(t, put(g, "a", 1), "is damaged")
}

func TestResumePositionsAboveTheSignedRange(t *testing.T) {
	d := newDatabase(t)
	g := d.guard("", "")
	claimed(t, g, 1, pos(1<<63))
	require.NoError(t, put(g, "a", 1<<64-1))
	require.Equal(t, pos(1<<64-1), claimed(t, g, 2, Position{}))
}
