package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/internal/apitest"
	"github.com/weir-project/weir/api/weirv1"
)

func TestStatusComparesTheStateHashesOfAllMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Log.Seed(t)
		c.Server("s3").Freeze()
		behind := c.Log.View().Meta().Index
		c.Log.Pass(t, 3000)
		st, err := c.Client("s2").Status(within(t, 5*time.Second), true, nil)
		require.NoError(t, err)
		require.Equal(t, "s1", st.GetLeader())
		require.Equal(t, apitest.Address("s1"), st.GetLeaderAddress())
		require.Equal(t, apitest.ClusterID, st.GetCluster())
		require.Equal(t, uint64(7), st.GetGeneration())
		require.Equal(t, uint32(1), st.GetLevel())
		require.Equal(t, uint64(6), st.GetDispatchers(), "with the trigger")
		require.Equal(t, uint32(3), st.GetNodes())
		require.Equal(t, uint64(3000), st.GetHeader().GetLogTimeMs())
		require.Equal(t, behind, st.GetCommonIndex(), "the lowest index that all have applied")
		require.True(t, st.GetHashesEqual())
		for i, role := range []weirv1.Role{weirv1.Role_ROLE_LEADER, weirv1.Role_ROLE_FOLLOWER, weirv1.Role_ROLE_FOLLOWER} {
			m := st.GetMembers()[i]
			require.True(t, m.GetReachable(), m.GetError())
			require.True(t, m.GetVoter())
			require.True(t, m.GetInContact())
			require.Equal(t, role, m.GetRole())
			require.NotNil(t, m.GetHash())
		}
	})
}

func TestStatusSaysWhichMemberDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := apitest.New(t, 3)
		c.Down("s2", true)
		c.Mute("s3", true)
		start := time.Now()
		st, err := c.Client("s1").Status(within(t, 5*time.Second), true, nil)
		require.NoError(t, err)
		require.Less(t, time.Since(start), time.Second)
		require.True(t, st.GetMembers()[0].GetReachable())
		for _, m := range st.GetMembers()[1:] {
			require.False(t, m.GetReachable())
			require.NotEmpty(t, m.GetError())
		}
		plain, err := c.Client("s1").Status(within(t, 5*time.Second), false, nil)
		require.NoError(t, err)
		require.Zero(t, plain.GetCommonIndex())
	})
}

func TestAServerTellsItsOwnHashAlone(t *testing.T) {
	c := apitest.New(t, 2)
	cl := c.Client()
	index := c.Log.View().Meta().Index
	want := c.Log.View().Hash()
	h, err := cl.HashAt(within(t, 20*time.Second), apitest.Address("s2"), index)
	require.NoError(t, err)
	require.Equal(t, want.A, h.GetA())
	require.Equal(t, want.B, h.GetB())
	_, err = cl.HashAt(within(t, 20*time.Second), apitest.Address("s2"), index+1)
	require.Equal(t, "HASH_NOT_KEPT", asError(t, err).Reason)
	own, err := cl.ServerStatus(within(t, 20*time.Second), apitest.Address("s2"))
	require.NoError(t, err)
	require.Equal(t, "s2", own.GetHeader().GetServer())
	require.Equal(t, weirv1.Role_ROLE_FOLLOWER, own.GetRole())
	_, err = cl.ServerStatus(within(t, 20*time.Second), "nobody:1")
	require.Equal(t, "UNREACHABLE", asError(t, err).Reason)
}
