package cluster

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const childFolder = "JEPSEN_TEST_CHILD_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		beHarness(dir)
	}
	goleak.VerifyTestMain(m)
}

// beHarness starts a process that lives long, tells its id, and waits to be killed.
func beHarness(dir string) {
	p := sleeper(dir, newStarter())
	if err := p.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Lives()[0].PID)
	select {}
}

// sleeper is a process that does nothing for long.
func sleeper(dir string, s *starter) *Process {
	return &Process{Name: "sleeper", Role: AgentRole, LogFile: filepath.Join(dir, "log"), binary: "/bin/sleep", args: []string{"600"}, dir: dir, starts: s}
}

func TestAProcessHasLives(t *testing.T) {
	s := newStarter()
	defer s.close()
	p := sleeper(t.TempDir(), s)
	require.NoError(t, p.Start())
	require.ErrorIs(t, p.Start(), errRuns)
	life, err := p.Kill()
	require.NoError(t, err)
	require.NotZero(t, life.Signalled)
	require.GreaterOrEqual(t, life.Gone, life.Signalled)
	require.Contains(t, life.Status, "killed")
	require.False(t, p.Runs())
	_, err = p.Kill()
	require.Error(t, err)

	require.NoError(t, p.Start())
	require.True(t, p.Stop(10*time.Second))
	require.Len(t, p.Lives(), 2)
	c := &Cluster{Agents: []*Process{p}}
	require.Empty(t, c.Crashed(), "both lives ended by a signal from here")

	p.binary, p.args = "/bin/false", nil
	require.NoError(t, p.Start())
	require.Eventually(t, func() bool { return !p.Runs() }, 10*time.Second, time.Millisecond)
	require.Len(t, c.Crashed(), 1)
}

func TestChildrenDieWithAKilledHarness(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	harness := exec.CommandContext(t.Context(), self, "-test.run=^$")
	harness.Env = append(os.Environ(), childFolder+"="+t.TempDir())
	out, err := harness.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, harness.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	require.True(t, sleeps(pid))
	require.NoError(t, harness.Process.Kill())
	require.Error(t, harness.Wait())
	require.Eventually(t, func() bool { return !sleeps(pid) }, 10*time.Second, 5*time.Millisecond)
}

// sleeps says whether the id is that of a sleeper that lives.
func sleeps(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(raw), "(sleep)") && !strings.Contains(string(raw), ") Z ")
}

func TestServersHaveAddressesOfTheirOwn(t *testing.T) {
	c, err := New(Config{Dir: t.TempDir(), Binary: "weir", Servers: 3, Agents: 2, SnapshotThreshold: 7, SnapshotInterval: time.Second, TrailingLogs: 9})
	require.NoError(t, err)
	defer c.Stop(time.Second)
	require.Len(t, c.Addresses(), 3)
	require.NotEqual(t, c.Addresses()[0], c.Addresses()[1])
	line := strings.Join(c.Servers[0].args, " ")
	require.Contains(t, line, "--snapshot-threshold 7 --snapshot-interval 1s --trailing-logs 9")
	require.Equal(t, 3, strings.Count(line, "--peer"))
	require.Contains(t, strings.Join(c.Agents[1].args, " "), "--node n2")
}
