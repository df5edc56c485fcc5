package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// TestReview_R20_HeldTransactionBlocksTheSuccessorUntilItsProcessDies: SQLite cannot end another process's transaction.
// The successor's claim waits, no longer than the busy timeout or its context, says so, and works once a supervisor has
// killed the owner; nothing of the owner's open transaction is seen.
func TestReview_R20_HeldTransactionBlocksTheSuccessorUntilItsProcessDies(t *testing.T) {
	path := dbPath(t)
	owner := open(t, newSink(t, Config{}), target{path: path})
	claim(t, owner, 1, 1, fsm.Position{})
	write(t, owner, 10, put(1, "a"))
	require.NoError(t, owner.Close())
	holder := startChild(t, roleHold, path)
	require.Equal(t, "ready", holder.next())
	require.NoError(t, holder.cmd.Process.Signal(syscall.SIGSTOP))

	const busy = 300 * time.Millisecond
	successor := open(t, newSink(t, Config{BusyTimeout: busy}), target{path: path, session: "n2/1"})
	started := time.Now()
	_, err := successor.Claim(t.Context(), dispatcher.Token{Epoch: 2, Claim: 1}, fsm.Position{}, always)
	refusal, ok := errors.AsType[*Error](err)
	require.True(t, ok, err)
	require.Equal(t, ReasonBusy, refusal.Reason)
	require.Contains(t, refusal.Error(), path)
	require.GreaterOrEqual(t, time.Since(started), busy, "it waited")
	require.Less(t, time.Since(started), 20*busy, "and no longer than it was told")

	patient := open(t, newSink(t, Config{BusyTimeout: time.Minute}), target{path: path, session: "n2/1"})
	ctx, cancel := context.WithTimeout(t.Context(), busy)
	defer cancel()
	_, err = patient.Claim(ctx, dispatcher.Token{Epoch: 2, Claim: 1}, fsm.Position{}, always)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	claimed := make(chan fsm.Position, 1)
	failed := make(chan error, 1)
	go func() {
		p, err := patient.Claim(context.Background(), dispatcher.Token{Epoch: 2, Claim: 1}, fsm.Position{}, always)
		claimed <- p
		failed <- err
	}()
	select {
	case <-claimed:
		require.Fail(t, "the claim got past a held transaction")
	case <-time.After(busy):
	}
	holder.kill()
	require.Equal(t, at(10), <-claimed)
	require.NoError(t, <-failed)
	require.NoError(t, patient.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(2, "b")}, Resume: at(11)}, always))
	require.Equal(t, []string{"1|a", "2|b"}, query(t, path, "SELECT id, v FROM t ORDER BY id"))
}

// TestCloseEndsACallThatWaitsForTheLock: Close does not wait for another process.
func TestCloseEndsACallThatWaitsForTheLock(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{BusyTimeout: time.Minute}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	holder := startChild(t, roleHold, path)
	require.Equal(t, "ready", holder.next())
	result := make(chan error, 1)
	go func() {
		result <- w.Write(context.Background(), dispatcher.Batch{Changes: []dispatcher.Change{put(2, "b")}, Resume: at(2)}, always)
	}()
	select {
	case err := <-result:
		require.Fail(t, "the write did not wait", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, w.Close())
	require.ErrorIs(t, <-result, context.Canceled)
	holder.kill()
	require.Equal(t, []string{"1|a"}, query(t, path, "SELECT id, v FROM t"))
	require.ErrorIs(t, w.Write(t.Context(), dispatcher.Batch{}, always), ErrClosed)
	require.ErrorIs(t, w.Close(), ErrClosed)
}

// TestCloseWaitsForARunningCall: once Close has returned nothing reaches the file, so it may not overtake a write that is
// about to commit.
func TestCloseWaitsForARunningCall(t *testing.T) {
	path := dbPath(t)
	w := open(t, newSink(t, Config{}), target{path: path})
	claim(t, w, 1, 1, fsm.Position{})
	write(t, w, 1, put(1, "a"))
	closed := make(chan error, 1)
	asked := 0
	err := w.Write(t.Context(), dispatcher.Batch{Changes: []dispatcher.Change{put(1, "b")}, Resume: at(2)}, func() error {
		if asked++; asked < 2 {
			return nil
		}
		go func() { closed <- w.Close() }()
		select {
		case early := <-closed:
			return errors.Join(errors.New("Close has returned before the write"), early)
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	})
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.Equal(t, []string{"1|b"}, query(t, path, "SELECT id, v FROM t"))
}

// TestKilledInTheMiddle: kill -9 at a random batch, right before its commit. Rows and resume position always agree, and
// nothing that was committed before is lost.
func TestKilledInTheMiddle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d; batches are drawn from it, the moment of the kill is the kernel's", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		path := dbPath(t)
		c := startChild(t, roleWrite, path)
		stop := 1 + random.IntN(40)
		for range stop {
			c.next()
		}
		c.kill()
		last, err := strconv.Atoi(query(t, path, "SELECT resume_ts FROM weir_fence")[0])
		require.NoError(t, err)
		require.GreaterOrEqual(t, last, stop-1, "what was committed before is there")
		if last > 0 {
			require.Equal(t, []string{fmt.Sprintf("%d|%d", last, last)}, query(t, path, "SELECT max(id), (SELECT v FROM t WHERE id = 0) FROM t"))
			require.Equal(t, []string{fmt.Sprint(last + 1)}, query(t, path, "SELECT count(*) FROM t"))
		}
		w := open(t, newSink(t, Config{}), target{path: path})
		require.Equal(t, at(uint64(last)).TS, claim(t, w, 2, 1, fsm.Position{}).TS, "the successor goes on there")
		require.NoError(t, w.Close())
	}
}

// TestProcessesThatCreateTheFileTogether: none of them fails because another one is first.
func TestProcessesThatCreateTheFileTogether(t *testing.T) {
	path := dbPath(t)
	var children []*child
	for i := 1; i <= 6; i++ {
		children = append(children, startChild(t, roleClaim+strconv.Itoa(i), path))
	}
	for _, c := range children {
		said, err := c.join()
		require.NoError(t, err, said)
	}
	require.Equal(t, []string{"1", "2", "3", "4", "5", "6"}, query(t, path, "SELECT id FROM t ORDER BY id"))
	require.Equal(t, []string{"6"}, query(t, path, "SELECT count(*) FROM weir_fence"))
}

// TestBusyWritersShareTheFile: three pools that write as fast as they can, as three processes would. When the first one
// is through, nobody has been left standing; SQLite's own wait lets one writer starve for seconds.
func TestBusyWritersShareTheFile(t *testing.T) {
	const enough, fair = 120, 12
	path := dbPath(t)
	var written [3]atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range written {
		w := open(t, newSink(t, Config{}), target{path: path, span: between(1+i*1000, 1+(i+1)*1000)})
		claim(t, w, uint64(i+1), 1, fsm.Position{})
		all.Go(func() {
			for n := 1; !over.Load(); n++ {
				if err := w.Write(context.Background(), dispatcher.Batch{Changes: []dispatcher.Change{put(i*1000+n, "x")}, Resume: at(uint64(n))}, always); err != nil {
					t.Error(err)
					return
				}
				if written[i].Add(1) == enough {
					over.Store(true)
				}
			}
		})
	}
	all.Wait()
	for i := range written {
		require.GreaterOrEqual(t, written[i].Load(), int64(fair), "writer %d", i)
	}
}

// TestKilledInTheMiddleOfSchemaChanges: kill -9 at a random event, before or after its commit. What was changed and the
// records always agree; the successor finds the written ones done and makes the others.
func TestKilledInTheMiddleOfSchemaChanges(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d; the event of the kill is drawn from it, its moment is the kernel's", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 6 {
		path := dbPath(t)
		c := startChild(t, roleDDL, path)
		stop := 1 + random.IntN(30)
		for range stop {
			c.next()
		}
		c.kill()
		records, err := strconv.Atoi(query(t, path, "SELECT count(*) FROM weir_ddl")[0])
		require.NoError(t, err)
		require.GreaterOrEqual(t, records, stop-1, "what was committed before is there")
		if records > 0 {
			require.Equal(t, childLayout(records), layoutOf(t, path, "t"), "after %d events", records)
		}
		successor := &feed{t: t, path: path, name: "shop", run: 1, sink: newSink(t, Config{}), epoch: 10}
		successor.openTrigger()
		for n := 1; n <= records+3; n++ {
			done, err := successor.try(uint64(n), childStatement(n))
			require.NoError(t, err)
			require.Equal(t, n <= records, done, "event %d of %d", n, records)
		}
		require.Equal(t, childLayout(records+3), layoutOf(t, path, "t"))
	}
}
