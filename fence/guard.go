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
	drawn    bool              // less than the whole allowance is left
	left     int               // of the allowance while drawn; one comes back every GuardInterval
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
	g.refill(now, max(1, live*g.share/100))
	still := make(map[uint64]uint64, len(due))
	var out []Expirable
	for _, e := range due {
		tick, before := g.admitted[e.Incarnation]
		before = before && tick == e.ExpectTick
		switch {
		case e.Fenced:
			out = append(out, e)
			continue
		case !before && g.left == 0:
			continue
		case !before:
			g.draw(now)
		}
		still[e.Incarnation] = e.ExpectTick
		out = append(out, e)
	}
	g.admitted = still
	return out
}

func (g *Guard) draw(now clock.Reading) {
	if !g.drawn {
		g.drawn, g.since = true, now
	}
	g.left--
}

// refill gives one back for each whole interval since the allowance was first touched. The allowance itself moves with
// the number of live nodes; what has come back stays usable when it shrinks.
func (g *Guard) refill(now clock.Reading, allowance int) {
	if g.drawn {
		n := int(clock.MinElapsed(g.since, now) / GuardInterval)
		g.left += n
		g.since = g.since.Add(time.Duration(n) * GuardInterval)
	}
	if !g.drawn || g.left >= allowance {
		g.drawn, g.left = false, allowance
	}
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
