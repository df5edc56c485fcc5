package fence

import (
	"time"

	"github.com/weir-project/weir/fence/clock"
)

// GuardInterval is the time between two expiries beyond the share.
const GuardInterval = 2 * time.Second

// GuardConfig sets the mass-expiry guard.
type GuardConfig struct {
	// SharePercent of the live nodes may expire together; at least one may. 0 to 100.
	SharePercent int
}

// Guard slows mass expiry down: when many nodes fall silent together, the fault is more likely between them and the
// servers than in all of them. Max(1, share) nodes are let through at once, then one every GuardInterval, longest silent
// first. Fenced nodes do not count.
//
// It belongs to the leader and dies with the term; the state machine knows nothing of it. It is pure and not safe for
// concurrent use.
type Guard struct {
	share    int
	admitted map[uint64]uint64 // incarnation -> the tick its expiry expects; only those still due
	spent    int               // of the allowance; one comes back every GuardInterval
	since    clock.Reading     // when the next one began to come back
}

// NewGuard returns a guard with its whole allowance. An error is a *SettingError.
func NewGuard(cfg GuardConfig) (*Guard, error) {
	if cfg.SharePercent < 0 || cfg.SharePercent > 100 {
		return nil, &SettingError{CodeShareOutOfRange, "SharePercent", "the share of nodes that may expire together is a " +
			"percentage; set it from 0 to 100"}
	}
	return &Guard{share: cfg.SharePercent, admitted: make(map[uint64]uint64)}, nil
}

// Admit returns those of due whose expiry may be proposed at now, in their order, given the number of live nodes. One
// that was admitted stays so, at no further cost, while it is due for the same tick.
func (g *Guard) Admit(now clock.Reading, due []Expirable, live int) []Expirable {
	g.refill(now)
	allowance := max(1, live*g.share/100)
	still := make(map[uint64]uint64, len(due))
	var out []Expirable
	for _, e := range due {
		tick, before := g.admitted[e.Incarnation]
		before = before && tick == e.ExpectTick
		switch {
		case e.Fenced:
			out = append(out, e)
			continue
		case !before && g.spent >= allowance:
			continue
		case !before:
			if g.spent == 0 {
				g.since = now
			}
			g.spent++
		}
		still[e.Incarnation] = e.ExpectTick
		out = append(out, e)
	}
	g.admitted = still
	return out
}

// refill gives one back for each whole interval since the allowance was first touched.
func (g *Guard) refill(now clock.Reading) {
	if g.spent == 0 {
		return
	}
	n := int(clock.MinElapsed(g.since, now) / GuardInterval)
	if n >= g.spent {
		g.spent = 0
		return
	}
	g.spent -= n
	g.since = g.since.Add(time.Duration(n) * GuardInterval)
}

// Held returns how many of due Admit does not let through at present: what a status page shows as held back.
func (g *Guard) Held(due []Expirable) int {
	held := 0
	for _, e := range due {
		if tick, ok := g.admitted[e.Incarnation]; !e.Fenced && (!ok || tick != e.ExpectTick) {
			held++
		}
	}
	return held
}
