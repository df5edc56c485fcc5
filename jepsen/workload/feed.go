package workload

import (
	"context"
	"time"

	"github.com/weir-project/weir/jepsen/changelog"
)

// Feed appends to a change log at a rate until the context ends.
func Feed(ctx context.Context, w *changelog.Writer, rowsPerSecond int) error {
	const period = 20 * time.Millisecond
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	start, done := time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		due := int64(time.Since(start).Seconds() * float64(rowsPerSecond))
		if due <= done {
			continue
		}
		before := w.Rows()
		if err := w.Append(int(due - done)); err != nil {
			return err
		}
		done += w.Rows() - before
	}
}
