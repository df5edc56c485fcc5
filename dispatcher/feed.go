package dispatcher

import (
	"context"
	"sync"
)

// feedDepth is how many transactions are read ahead.
const feedDepth = 16

// delivered is one answer of a reader.
type delivered struct {
	tx  Transaction
	err error
}

// feed reads ahead of the worker, so that waiting for the source does not hold back what has been read.
type feed struct {
	out    chan delivered
	cancel context.CancelFunc
	done   sync.WaitGroup
	reader Reader
}

// startFeed reads until the context ends or the reader returns an error, which is the last thing delivered.
func startFeed(ctx context.Context, reader Reader) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{out: make(chan delivered, feedDepth), cancel: cancel, reader: reader}
	f.done.Go(func() {
		for {
			tx, err := reader.Next(ctx)
			select {
			case f.out <- delivered{tx, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return f
}

// close returns when the reader has been closed.
func (f *feed) close() {
	f.cancel()
	f.done.Wait()
	_ = f.reader.Close()
}
