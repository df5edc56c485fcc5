package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/history"
)

// Churner removes the dispatchers of some tables, in races with moves and cancels, then drops the tables and adds them
// again.
type Churner struct {
	Client     *Client
	Board      *Board
	Changefeed string
	Tables     []string
	// Pause is the wait between two steps.
	Pause time.Duration

	count int
}

// Run goes on until the context ends. It leaves every table there.
func (c *Churner) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		table := c.Tables[c.Client.Rand.IntN(len(c.Tables))]
		if d, ok := c.Board.Of(Churn, table); ok {
			if err := c.remove(ctx, d); err != nil {
				return err
			}
		}
		if err := c.renew(ctx, table); err != nil {
			return err
		}
		wait(ctx, c.Pause)
	}
	return nil
}

// remove starts something in the dispatcher's slot, most of the time, and removes it while that runs.
func (c *Churner) remove(ctx context.Context, d Known) error {
	r := c.Client.Rand
	if r.IntN(3) > 0 {
		op, err := c.do(ctx, history.Spec{Kind: history.Move, Dispatcher: d.ID, FromAny: true, To: c.Board.Node(r)})
		if err != nil {
			return err
		}
		if op.Answer.Outcome == history.OK && r.IntN(2) == 0 {
			if _, err := c.do(ctx, history.Spec{Kind: history.Cancel, Operator: op.Answer.Operator}); err != nil {
				return err
			}
		}
	}
	_, err := c.do(ctx, history.Spec{Kind: history.Remove, Dispatcher: d.ID})
	return err
}

// renew drops the table and adds it again, however often that takes.
func (c *Churner) renew(ctx context.Context, table string) error {
	for _, kind := range []history.Kind{history.DropTable, history.AddTable} {
		for {
			op, err := c.do(ctx, history.Spec{Kind: kind, Changefeed: c.Changefeed, Table: table})
			if err != nil {
				return err
			}
			if op.Answer.Outcome.Acknowledged() {
				break // also "no such table" and "table exists": an earlier try of unknown outcome was carried out
			}
		}
	}
	return nil
}

// do makes one request, which is not cut off when the run ends.
func (c *Churner) do(ctx context.Context, spec history.Spec) (*history.Operation, error) {
	ctx = context.WithoutCancel(ctx)
	now, err := c.Client.Clock(ctx)
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", c.Client.Name, err)
	}
	c.count++
	return c.Client.Doer.Do(ctx, caller.Request{ID: fmt.Sprintf("%s-%d", c.Client.Name, c.count), TimeMS: now}, spec), nil
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
