package fence_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
)

func silent(incarnations ...uint64) []fence.Expirable {
	var out []fence.Expirable
	for _, i := range incarnations {
		out = append(out, fence.Expirable{Incarnation: i, ExpectTick: 1})
	}
	return out
}

func newGuard(t *testing.T, share int) *fence.Guard {
	t.Helper()
	g, err := fence.NewGuard(fence.GuardConfig{SharePercent: share})
	require.NoError(t, err)
	return g
}

func TestReview_R36_GuardLetsTheShareGoThenOneEveryInterval(t *testing.T) {
	g := newGuard(t, 20)
	due := silent(3, 1, 4, 5, 9)
	require.Equal(t, []uint64{3, 1}, incarnations(g.Admit(at(0), due, 10)), "20 % of 10, longest silent first")
	require.Equal(t, 3, g.Held(due))
	require.Equal(t, []uint64{3, 1}, incarnations(g.Admit(at(time.Second), due, 10)), "asked again, no more")
	require.Equal(t, []uint64{3, 1}, incarnations(g.Admit(at(fence.GuardInterval-1), due, 10)))
	require.Equal(t, []uint64{3, 1, 4}, incarnations(g.Admit(at(fence.GuardInterval), due, 10)))
	due = silent(5, 9) // the others have been expired
	require.Empty(t, g.Admit(at(2*fence.GuardInterval-1), due, 7))
	require.Equal(t, []uint64{5}, incarnations(g.Admit(at(2*fence.GuardInterval), due, 7)))
}

func TestReview_R36_GuardLetsOneOfTwoGo(t *testing.T) {
	require.Equal(t, []uint64{2}, incarnations(newGuard(t, 20).Admit(at(0), silent(2, 1), 2)))
	require.Equal(t, []uint64{2}, incarnations(newGuard(t, 0).Admit(at(0), silent(2, 1), 1000)))
	require.Equal(t, []uint64{2, 1}, incarnations(newGuard(t, 100).Admit(at(0), silent(2, 1), 2)))
}

func TestReview_R36_FencedNodesDoNotCount(t *testing.T) {
	g := newGuard(t, 0)
	due := silent(1, 2, 3, 4)
	due[1].Fenced, due[3].Fenced = true, true
	require.Equal(t, []uint64{1, 2, 4}, incarnations(g.Admit(at(0), due, 4)))
	require.Equal(t, 1, g.Held(due))
}

func TestGuardIsWholeAgainAfterQuiet(t *testing.T) {
	g := newGuard(t, 50)
	require.Len(t, g.Admit(at(0), silent(1, 2, 3), 4), 2)
	require.Empty(t, g.Admit(at(time.Second), nil, 2))
	require.Len(t, g.Admit(at(time.Hour), silent(7, 8, 9), 4), 2)
}

func TestGuardCountsANodeAgainThatCameBackAndFellSilent(t *testing.T) {
	g := newGuard(t, 0)
	require.Len(t, g.Admit(at(0), silent(1), 5), 1)
	again := silent(1)
	again[0].ExpectTick = 2
	require.Empty(t, g.Admit(at(1), again, 5))
}

func TestGuardRefusesABadShare(t *testing.T) {
	for _, share := range []int{-1, 101} {
		_, err := fence.NewGuard(fence.GuardConfig{SharePercent: share})
		var setting *fence.SettingError
		require.ErrorAs(t, err, &setting)
		require.Equal(t, fence.CodeShareOutOfRange, setting.Code)
	}
}
