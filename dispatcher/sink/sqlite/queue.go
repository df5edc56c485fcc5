package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

const (
	// pollOften is how often the lock is tried while its holder is likely to be one of many short writers; after
	// patience it is tried every pollSeldom, since then the holder is stuck.
	pollOften  = time.Millisecond
	pollSeldom = 10 * time.Millisecond
	patience   = 500 * time.Millisecond
	// giveWay is how long a process stays off the lock before each of the crowded writes that follow on one for which it
	// had to wait; longer than pollOften, so that a process that waits gets its turn.
	giveWay       = 2 * time.Millisecond
	crowdedWrites = 32
)

// queue takes the file's write lock. SQLite's own wait backs off to tenths of a second, between which a busy process
// takes and frees the lock many times: measured with three busy writers, one of them stood still for three seconds.
// Trying often and giving way spreads the lock evenly.
type queue struct {
	busy   time.Duration // longest wait
	timers clock.Timers

	mu      sync.Mutex // guards crowded
	crowded int        // writes to come that give way
}

// begin starts a transaction that holds the write lock. It waits at most about the busy timeout, not counting the
// attempts themselves, and no longer than ctx.
func (q *queue) begin(ctx context.Context, conn *sql.Conn) error {
	if q.isCrowded() {
		if err := clock.Sleep(ctx, q.timers, giveWay); err != nil {
			return err
		}
	}
	// Only the wait for this lock is ours; all others in the transaction are the driver's.
	statement := fmt.Sprintf("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; PRAGMA busy_timeout = %d", q.busy.Milliseconds())
	for waited := time.Duration(0); ; {
		_, err := conn.ExecContext(ctx, statement)
		if !isBusy(err) || waited >= q.busy {
			return err
		}
		q.crowd()
		pause := pollOften
		if waited >= patience {
			pause = pollSeldom
		}
		if err := clock.Sleep(ctx, q.timers, pause); err != nil {
			return err
		}
		waited += pause
	}
}

func (q *queue) isCrowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.crowded == 0 {
		return false
	}
	q.crowded--
	return true
}

func (q *queue) crowd() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.crowded = crowdedWrites
}
