package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// backoff waits longer from round to round, each time a random part of it, so that clients that lost the same leader do
// not come back together.
type backoff struct {
	timers clock.Timers
	now    time.Duration
	most   time.Duration
}

func (c *Client) backoff() *backoff {
	return &backoff{timers: c.config.Timers, now: c.config.BackoffMin, most: c.config.BackoffMax}
}

func (b *backoff) wait(ctx context.Context) error {
	d := b.now/2 + jitter(b.now/2)
	b.now = min(2*b.now, b.most)
	return clock.Sleep(ctx, b.timers, d)
}

// jitter is a random duration in [0, d).
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(d))
}
