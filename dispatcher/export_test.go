package dispatcher

import (
	"testing"

	"github.com/weir-project/weir/fsm"
)

// FakeLeader is the fake cluster for tests with real sources and sinks, which import this package.
type FakeLeader struct{ *leader }

// NewFakeLeader returns a cluster that registers and acknowledges everything.
func NewFakeLeader(t *testing.T) FakeLeader {
	t.Helper()
	return FakeLeader{newLeader(t)}
}

// Order sends orders from a new state.
func (l FakeLeader) Order(orders ...fsm.Order) { l.order(orders...) }

// Fence ends the incarnation.
func (l FakeLeader) Fence() { l.fence() }

// Acknowledge says whether heartbeats are acknowledged from now on.
func (l FakeLeader) Acknowledge(yes bool) { l.set(func() { l.acks = yes }) }

// Failures are the reports that give a reason.
func (l FakeLeader) Failures() (out []fsm.PlacementReport) {
	l.set(func() {
		for _, r := range l.reports {
			if r.Reason != "" {
				out = append(out, r)
			}
		}
	})
	return out
}

// Wait returns when every session has ended.
func (l FakeLeader) Wait() { l.serving.Wait() }

// Reason gives the code of the fake cluster's errors.
func Reason(err error) string {
	if code, ok := err.(codeError); ok { //nolint:errorlint // never wrapped
		return string(code)
	}
	return ""
}
