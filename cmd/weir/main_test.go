package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/cmd/weir/internal/dev"
)

// asProgram makes the test binary be the program: the processes of these tests are copies of it.
const asProgram = "WEIR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// output collects what a process prints; tests wait for a text in it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 1)} }

// Write keeps p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) waitFor(t *testing.T, text string) {
	t.Helper()
	late := time.After(90 * time.Second)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.more:
		case <-late:
			t.Fatalf("%q was not printed in time; this was:\n%s", text, o)
		}
	}
}

// program starts the program.
func program(t *testing.T, out *output, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// startDev starts the smallest weir dev and returns it with its children's process ids.
func startDev(t *testing.T) (cmd *exec.Cmd, out *output, pids []int) {
	t.Helper()
	dir := t.TempDir()
	out = newOutput()
	cmd = program(t, out, "dev", "--servers", "1", "--agents", "1", "--port", "0", "--dir", dir)
	require.NoError(t, cmd.Start())
	out.waitFor(t, "it stays up until Ctrl-C")
	raw, err := os.ReadFile(filepath.Join(dir, dev.StateFile))
	require.NoError(t, err)
	var state dev.State
	require.NoError(t, json.Unmarshal(raw, &state))
	require.Equal(t, cmd.Process.Pid, state.PID)
	for _, p := range state.Processes {
		require.True(t, lives(p.PID), "%s is not running", p.Name)
		pids = append(pids, p.PID)
	}
	require.Len(t, pids, 2)
	return cmd, out, pids
}

// lives says whether the process runs; one that has ended and that nobody has waited for does not.
func lives(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return os.IsNotExist(err) && !procfs()
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

func procfs() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	require.Eventually(t, func() bool { return !slices.ContainsFunc(pids, lives) },
		20*time.Second, 20*time.Millisecond, "children outlived weir dev: %v", pids)
}

// TestChildrenDieWithDev: also when it is killed without a chance to say anything.
func TestChildrenDieWithDev(t *testing.T) {
	cmd, _, pids := startDev(t)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	requireGone(t, pids)
}

// TestPlannedStop: a signal ends everything in order, and that is no failure.
func TestPlannedStop(t *testing.T) {
	cmd, out, pids := startDev(t)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), out.String())
	require.Contains(t, out.String(), "everything has stopped")
	requireGone(t, pids)
}

// TestStandingStill: an agent that is stopped is killed, since it might hold the lock of a SQLite file.
func TestStandingStill(t *testing.T) {
	cmd, out, pids := startDev(t)
	agent := pids[1]
	require.NoError(t, syscall.Kill(agent, syscall.SIGSTOP))
	out.waitFor(t, "killed, since SQLite cannot end the transaction of a process that stands still")
	requireGone(t, []int{agent})
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), out.String())
	requireGone(t, pids)
}

// TestPipeEnds: the way that works on every system: a child stops when its standard input ends.
func TestPipeEnds(t *testing.T) {
	out := newOutput()
	cmd := program(t, out, "agent", "--stop-on-stdin-eof", "--node", "n1", "--data", t.TempDir(), "--servers", "127.0.0.1:1", "--stop-timeout", "1s")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	out.waitFor(t, "agent")
	require.NoError(t, in.Close())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended does not matter here
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		require.NoError(t, cmd.Process.Kill())
		t.Fatal("the agent did not stop when its standard input ended")
	}
	require.Contains(t, out.String(), "the parent process is gone")
}

// TestBadStart: a process that cannot do its work says so in one sentence and ends.
func TestBadStart(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"server", "--id", "s1", "--data", filepath.Join(t.TempDir(), "d"), "--peer", "s1=192.0.2.1:1=192.0.2.1:2"}, "loopback"},
		{[]string{"node", "list", "--servers", "127.0.0.1:1", "--timeout", "2s"}, "UNREACHABLE"},
	} {
		out := newOutput()
		cmd := program(t, out, c.args...)
		require.Error(t, cmd.Run())
		require.Contains(t, out.String(), c.says)
	}
}
