package clock

import (
	"context"
	"time"
)

// Timer fires once per arming. Its channel carries nothing stale after Reset or Stop.
type Timer interface {
	// C receives the time of firing.
	C() <-chan time.Time
	// Reset arms the timer anew to fire after d.
	Reset(d time.Duration)
	// Stop disarms the timer; it reports whether it was armed.
	Stop() bool
}

// Ticker fires periodically; ticks that nobody takes are dropped.
type Ticker interface {
	// C receives the time of each tick.
	C() <-chan time.Time
	// Reset changes the period, which must be above zero.
	Reset(d time.Duration)
	// Stop ends the ticks. The channel stays open.
	Stop()
}

// Timers makes timers. A timer may fire late and runs on a clock of its own: what it wakes must look at a Clock before
// it decides anything about a lease.
type Timers interface {
	NewTimer(d time.Duration) Timer
	NewTicker(d time.Duration) Ticker
}

// SystemTimers makes timers of package time, which follow fake time inside a testing/synctest bubble.
type SystemTimers struct{}

// NewTimer returns a timer that fires after d.
func (SystemTimers) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// NewTicker returns a ticker with period d, which must be above zero.
func (SystemTimers) NewTicker(d time.Duration) Ticker { return systemTicker{time.NewTicker(d)} }

type systemTimer struct{ t *time.Timer }

func (s systemTimer) C() <-chan time.Time   { return s.t.C }
func (s systemTimer) Reset(d time.Duration) { s.t.Reset(d) }
func (s systemTimer) Stop() bool            { return s.t.Stop() }

type systemTicker struct{ t *time.Ticker }

func (s systemTicker) C() <-chan time.Time   { return s.t.C }
func (s systemTicker) Reset(d time.Duration) { s.t.Reset(d) }
func (s systemTicker) Stop()                 { s.t.Stop() }

// Sleep waits for d or until the context ends, whose cause it then returns.
func Sleep(ctx context.Context, timers Timers, d time.Duration) error {
	t := timers.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wall is the wall clock. It is for display only: no decision may depend on it.
func Wall() time.Time { return time.Now() }
