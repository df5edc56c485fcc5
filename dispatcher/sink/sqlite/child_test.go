package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// The test binary runs again as another process on the same file; what it does stands in the environment.
const (
	childRole = "WEIR_SQLITE_CHILD"
	childPath = "WEIR_SQLITE_PATH"

	roleHold  = "hold"  // holds the write lock until it is killed
	roleWrite = "write" // claims and writes one row a batch until it is killed; says each batch before its commit
	roleDDL   = "ddl"   // claims and writes one schema change after the other until it is killed; says each before its commit
	roleClaim = "claim" // claims and writes once, beside others that do so, too
)

func runChild(role string) int {
	path := os.Getenv(childPath)
	var err error
	switch role {
	case roleHold:
		err = childHold(path)
	case roleWrite:
		err = childWrite(path)
	case roleDDL:
		err = childDDL(path)
	default:
		span, ok := strings.CutPrefix(role, roleClaim)
		if !ok {
			err = errors.New("unknown role " + role)
			break
		}
		err = childClaim(path, span)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func say(what string) { fmt.Println(what) }

// untilKilled blocks; the parent never writes to the pipe. It ends when the parent dies.
func untilKilled() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func childHold(path string) error {
	db, err := sql.Open(driverName, dsn(path, time.Second))
	if err != nil {
		return err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if _, err := conn.ExecContext(context.Background(), "UPDATE t SET v = 'never seen'"); err != nil {
		return err
	}
	say("ready")
	return untilKilled()
}

func childWrite(path string) error {
	w, err := childWriter(path, fsm.WholeTable())
	if err != nil {
		return err
	}
	if _, err := w.Claim(context.Background(), dispatcher.Token{Epoch: 1, Claim: 1}, fsm.Position{}, always); err != nil {
		return err
	}
	for ts := uint64(1); ; ts++ {
		asked := 0
		allow := func() error {
			if asked++; asked == 2 {
				say(fmt.Sprint(ts))
			}
			return nil
		}
		batch := dispatcher.Batch{Changes: []dispatcher.Change{put(int(ts), "x"), put(0, fmt.Sprint(ts))}, Resume: at(ts)}
		if err := w.Write(context.Background(), batch, allow); err != nil {
			return err
		}
	}
}

// childStatement is the n-th event of such a process: the table is created, then columns are added, change their type by
// way of a new table, and are dropped.
func childStatement(n int) string {
	switch column := (n - 2) / 3; {
	case n == 1:
		return "create table t(id bigint primary key)"
	case (n-2)%3 == 0:
		return fmt.Sprintf("alter table t add c%d int", column)
	case (n-2)%3 == 1:
		return fmt.Sprintf("alter table t alter c%d type text", column)
	default:
		return fmt.Sprintf("alter table t drop c%d", column)
	}
}

// childLayout is what the table is after n events.
func childLayout(n int) string {
	layout := "id INTEGER key1"
	switch column := (n - 2) / 3; {
	case n == 1, (n-2)%3 == 2:
		return layout
	case (n-2)%3 == 0:
		return layout + fmt.Sprintf(", c%d INTEGER", column)
	default:
		return layout + fmt.Sprintf(", c%d TEXT", column)
	}
}

func childDDL(path string) error {
	s, err := New(Config{})
	if err != nil {
		return err
	}
	w, err := s.Open(context.Background(), target{path: path, trigger: true}.spec())
	if err != nil {
		return err
	}
	if _, err := w.Claim(context.Background(), dispatcher.Token{Epoch: 1, Claim: 1}, fsm.Position{}, always); err != nil {
		return err
	}
	for n := 1; ; n++ {
		asked := 0
		allow := func() error {
			if asked++; asked == 2 {
				say(fmt.Sprint(n))
			}
			return nil
		}
		if _, err := w.WriteDDL(context.Background(), ddl(uint64(n), childStatement(n)), allow); err != nil {
			return err
		}
	}
}

func childWriter(path string, span fsm.Span) (dispatcher.SpanWriter, error) {
	s, err := New(Config{})
	if err != nil {
		return nil, err
	}
	return s.Open(context.Background(), target{path: path, span: span}.spec())
}

// childClaim claims the ids from n to n+1.
func childClaim(path, n string) error {
	var id int
	if _, err := fmt.Sscan(n, &id); err != nil {
		return err
	}
	w, err := childWriter(path, between(id, id+1))
	if err != nil {
		return err
	}
	if _, err := w.Claim(context.Background(), dispatcher.Token{Epoch: fsm.Epoch(id), Claim: 1}, fsm.Position{}, always); err != nil {
		return err
	}
	if err := w.Write(context.Background(), dispatcher.Batch{Changes: []dispatcher.Change{put(id, "x")}, Resume: at(1)}, always); err != nil {
		return err
	}
	return w.Close()
}

// child is a process that a test started.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.Closer
}

func startChild(t *testing.T, role, path string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	c := &child{t: t, cmd: exec.CommandContext(context.Background(), exe)}
	c.cmd.Env = append(os.Environ(), childRole+"="+role, childPath+"="+path)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	c.lines = bufio.NewScanner(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	return c
}

// next is the next line that the child says.
func (c *child) next() string {
	c.t.Helper()
	require.True(c.t, c.lines.Scan(), "the child ended: %v", c.lines.Err())
	return c.lines.Text()
}

// kill is kill -9; it returns when the process is gone.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()         // "signal: killed" is what we want
	_ = c.stdin.Close()
}

// join waits for the child's own end and returns what it said.
func (c *child) join() (string, error) {
	var said []string
	for c.lines.Scan() {
		said = append(said, c.lines.Text())
	}
	return strings.Join(said, "\n"), c.cmd.Wait()
}
