package bubble

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// hosts are all servers and all nodes that live.
func (c *cluster) hosts() []string {
	var out []string
	for _, h := range c.servers {
		out = append(out, h.id)
	}
	for _, w := range c.alive() {
		out = append(out, w.host)
	}
	return out
}

func (c *cluster) serverIDs() []string { return []string{"s1", "s2", "s3"} }

// owner is the node that a running dispatcher is placed on, empty for none.
func (c *cluster) owner(d fsm.DispatcherID) string {
	h := c.leading()
	if h == nil {
		return ""
	}
	row, ok := h.view().Dispatcher(d)
	if !ok || row.Phase != fsm.Running {
		return ""
	}
	n, _ := h.view().NodeOf(row.Incarnation)
	return string(n.Name)
}

// drift makes every clock err as much as its class allows, in the direction that hurts: nodes slow, servers fast.
func (c *cluster) drift() {
	for _, w := range c.nodes {
		w.clock.SetRate(-clock.BootRaw.Drift())
	}
	for _, h := range c.servers {
		h.clock.SetRate(clock.BootRaw.Drift())
	}
}

// loses is one way to lose the owner of a dispatcher.
type loses struct {
	name string
	lose func(c *cluster, leader *host, owner *worker)
	// more than FailoverWithin that the new owner may take: elections, and what the case itself takes.
	more time.Duration
}

func ways() []loses {
	return []loses{
		{"the owner is cut off from every server", func(c *cluster, _ *host, w *worker) {
			c.net.cutBetween(w.host, c.serverIDs()...)
		}, 2 * time.Second},
		{"the owner is cut off from the leader alone", func(c *cluster, leader *host, w *worker) {
			c.net.cutBetween(w.host, leader.id)
		}, 2 * time.Second},
		{"nothing of the owner's reaches a server", func(c *cluster, _ *host, w *worker) {
			for _, id := range c.serverIDs() {
				c.net.cutOneWay(w.host, id)
			}
		}, 2 * time.Second},
		{"the owner hears nothing", func(c *cluster, _ *host, w *worker) {
			for _, id := range c.serverIDs() {
				c.net.cutOneWay(id, w.host)
			}
		}, 4 * time.Second},
		{"the owner is killed", func(_ *cluster, _ *host, w *worker) { w.kill() }, 2 * time.Second},
		{"the leader and the owner are killed at one instant", func(c *cluster, leader *host, w *worker) {
			c.crash(leader)
			w.kill()
		}, 5 * time.Second},
		{"the leader is killed and the owner is cut off", func(c *cluster, leader *host, w *worker) {
			c.crash(leader)
			c.net.cutBetween(w.host, c.serverIDs()...)
		}, 5 * time.Second},
		{"the owner is left alone with the leader", func(c *cluster, leader *host, w *worker) {
			rest := slices.DeleteFunc(c.hosts(), func(h string) bool { return h == leader.id || h == w.host })
			c.net.cutBetween(leader.id, append(rest, "admin")...)
			c.net.cutBetween(w.host, rest...)
		}, 6 * time.Second},
	}
}

// Whatever way its owner is lost, a dispatcher runs elsewhere within a bound, and the last write of the old owner lies
// before the first of the new one: with a sink that checks tokens, and with one that does not, where leases alone must do
// it. Clocks err as much as they may.
func TestLease_OwnersFollowEachOtherInTime(t *testing.T) {
	s := seed(t)
	total, worst, runs := ownership{smallest: time.Hour}, time.Duration(0), 0
	for _, way := range ways() {
		for i := range 2 * *leaseFlag {
			checks := i%2 == 0
			inBubble(t, s+uint64(i), 3, func(c *cluster) { c.world.every, c.world.checks = 10*time.Millisecond, checks }, func(c *cluster) {
				o, took := c.loseOwner(way)
				total.accepted, total.refused = total.accepted+o.accepted, total.refused+o.refused
				total.handovers, total.smallest = total.handovers+o.handovers, min(total.smallest, o.smallest)
				worst, runs = max(worst, took), runs+1
			})
			if t.Failed() {
				t.Fatalf("%s, token checks %t, -bubble.seed=%d", way.name, checks, s)
			}
		}
	}
	t.Logf("leases: %d runs of %d ways to lose an owner, half of them without token checks; %d handovers, smallest gap %v, longest failover %v; "+
		"%d calls accepted, %d refused; seed %d", runs, len(ways()), total.handovers, total.smallest, worst, total.accepted, total.refused, s)
	require.GreaterOrEqual(t, total.handovers, runs)
}

func (c *cluster) loseOwner(way loses) (o ownership, took time.Duration) {
	c.t.Helper()
	c.drift()
	c.createFeed("feed")
	leader := c.attached()
	d := c.dispatcherOf(leader, "feed", "first")
	c.eventually("the dispatcher runs", func() bool { return c.owner(d) != "" })
	time.Sleep(time.Duration(500+c.rand.IntN(1000)) * time.Millisecond)
	leader = c.attached()
	old := c.owner(d)
	began := time.Now()
	way.lose(c, leader, c.named(old))
	c.within(c.timing.FailoverWithin(clock.BootRaw, clock.BootRaw)+way.more, way.name+": the dispatcher runs on another node", func() bool {
		h := c.leading()
		if h == nil {
			return false
		}
		row, ok := h.view().Dispatcher(d)
		n, _ := h.view().NodeOf(row.Incarnation)
		return ok && row.Phase == fsm.Running && string(n.Name) != old
	})
	took = time.Since(began)
	time.Sleep(500 * time.Millisecond) // the new owner writes
	c.net.heal()
	for _, h := range c.servers {
		c.restart(h)
	}
	time.Sleep(2 * c.timing.Lease) // whatever the old owner still wants to say is said
	c.attached()
	c.settled()
	o = judgeLedger(c.world.effects())
	require.Empty(c.t, o.wrong, "%s, seed %d", way.name, c.seed)
	require.NotZero(c.t, o.handovers, "%s, seed %d", way.name, c.seed)
	return o, took
}

// B45, second half: a node is dead and the leader changes every half lease. A new leader counts from its own record of
// the node's last tick, so that the changes do not renew the lease: the node is expired within W and one half lease, and
// nobody else is.
func TestField_B45_ADeadNodeExpiresAlthoughTheLeaderKeepsChanging(t *testing.T) {
	s, longest := seed(t), time.Duration(0)
	for i := range *leaseFlag {
		inBubble(t, s+uint64(i), 3, nil, func(c *cluster) {
			c.drift()
			dead := c.nodes[0]
			inc := dead.node.Status().Incarnation
			dead.kill()
			began, expired := time.Now(), time.Duration(0)
			for range 20 {
				if leader := c.leading(); leader != nil {
					leader.node().StepDown("the test changes leaders")
				}
				for end := time.Now().Add(c.timing.Lease / 2); time.Now().Before(end); time.Sleep(pollPeriod) {
					if h := c.leading(); h != nil && expired == 0 {
						if n, ok := h.view().NodeOf(inc); ok && n.Status == fsm.NodeStatusExpired {
							expired = time.Since(began)
						}
					}
				}
			}
			bound := c.timing.Wait(clock.BootRaw, clock.BootRaw) + c.timing.Lease/2 + c.timing.Tick
			require.NotZero(c.t, expired, "the dead node was never expired, seed %d", c.seed)
			require.LessOrEqual(c.t, expired, bound, "seed %d", c.seed)
			leader := c.attached()
			require.GreaterOrEqual(c.t, leader.node().Leadership().Term, uint64(20), "leaders have changed")
			for _, w := range c.alive() {
				require.Equal(c.t, w.began, w.node.Status().Incarnation, "%s was expired too, seed %d", w.name, c.seed)
			}
			longest = max(longest, expired)
			c.settled()
		})
	}
	t.Logf("B45: leader changed 20 times, every half lease, in %d runs: the dead node expired within %v, nobody else; seed %d", *leaseFlag, longest, s)
}

// B45, first half: there is no leader for 0.9 of a lease. Nobody is declared down early.
func TestField_B45_NobodyExpiresEarlyWhenTheLeaderWasAway(t *testing.T) {
	s, longest := seed(t), time.Duration(0)
	for i := range *leaseFlag {
		inBubble(t, s+uint64(i), 12, func(c *cluster) { c.timing.Lease = fence.MaxLease }, func(c *cluster) {
			c.drift()
			leader := c.attached()
			began := time.Now()
			for _, id := range c.serverIDs() {
				c.net.cutBetween(id, slices.DeleteFunc(c.serverIDs(), func(o string) bool { return o == id })...)
			}
			time.Sleep(c.timing.Lease * 88 / 100) // and the election comes on top
			require.False(c.t, leader.node().Leadership().Leading, "a leader without a quorum gives up")
			c.net.heal()
			c.eventually("a leader leads again", func() bool { return c.leading() != nil })
			away := time.Since(began)
			c.attached()
			time.Sleep(c.timing.Lease)
			c.attached()
			for _, w := range c.nodes {
				require.Equal(c.t, w.began, w.node.Status().Incarnation, "%s was expired although the leader was away for %v only, seed %d",
					w.name, away, c.seed)
			}
			longest = max(longest, away)
		})
	}
	t.Logf("B45: no leader for up to %v with a lease of %v, 12 nodes, %d runs: nobody expired; seed %d", longest, fence.MaxLease, *leaseFlag, s)
}

// R19: acknowledgements take longer and longer to reach a node, until they come too late to open its gate, while its
// heartbeats arrive. It is not named for ever: it expires, and its work runs elsewhere.
func TestReview_R19_AHeardNodeWithAClosedGateLosesItsWork(t *testing.T) {
	s, moved, heard, silenced := seed(t), 0, 0, 0
	for i := range *leaseFlag {
		inBubble(t, s+uint64(i), 2, func(c *cluster) { c.world.every, c.world.checks = 10*time.Millisecond, false }, func(c *cluster) {
			c.createFeed("feed")
			leader := c.attached()
			d := c.dispatcherOf(leader, "feed", "first")
			c.eventually("the dispatcher runs", func() bool { return c.owner(d) != "" })
			old := c.owner(d)
			w := c.named(old)
			for late := time.Duration(0); late <= 5*c.timing.Lease/4; late += 100 * time.Millisecond {
				for _, id := range c.serverIDs() {
					c.net.slowDown(id, w.host, late)
				}
				time.Sleep(400 * time.Millisecond)
			}
			require.NotEqual(c.t, fence.Open, w.node.Status().Lease.State, "acks that come too late open nothing")
			closed, ignored := false, false
			bound := c.timing.SilenceAfter() + c.timing.FailoverWithin(clock.BootRaw, clock.BootRaw) + time.Second
			c.within(bound, "the dispatcher runs on another node", func() bool {
				for _, l := range leader.plane.Leader.Leases() {
					closed = closed || string(l.Node) == old && l.Heard && !l.GateOpen && l.HeardAge < c.timing.Lease/2
					ignored = ignored || string(l.Node) == old && l.Silenced
				}
				o := c.owner(d)
				return o != "" && o != old
			})
			if closed {
				heard++
			}
			if ignored {
				silenced++
			}
			c.net.heal()
			c.attached()
			o := judgeLedger(c.world.effects())
			require.Empty(c.t, o.wrong, "seed %d", c.seed)
			require.NotZero(c.t, o.handovers)
			moved += o.handovers
			c.settled()
		})
	}
	t.Logf("R19: in %d of %d runs the node was heard while its gate was closed, in %d it was heard and no longer named; "+
		"%d handovers without token checks, no overlap; seed %d", heard, *leaseFlag, silenced, moved, s)
	require.NotZero(t, heard, "no node was heard with a closed gate")
	require.NotZero(t, silenced, "no node was heard and no longer named")
}

// No lease survives a clock that stands still, as that of a paused virtual machine does: the old owner goes on writing. A
// sink that checks tokens refuses it; with one that does not the ledger shows the overlap, so that these tests can fail.
func TestLease_AStandingClockIsStoppedByTheSinkAlone(t *testing.T) {
	s := seed(t)
	for _, checks := range []bool{true, false} {
		inBubble(t, s, 2, func(c *cluster) { c.world.every, c.world.checks = 10*time.Millisecond, checks }, func(c *cluster) {
			c.createFeed("feed")
			d := c.dispatcherOf(c.attached(), "feed", "first")
			c.eventually("the dispatcher runs", func() bool { return c.owner(d) != "" })
			old := c.owner(d)
			w := c.named(old)
			c.net.cutBetween(w.host, c.serverIDs()...)
			w.clock.Stall()
			c.eventually("the dispatcher runs on another node", func() bool { o := c.owner(d); return o != "" && o != old })
			time.Sleep(500 * time.Millisecond)
			w.clock.Resume()
			c.net.heal()
			o := judgeLedger(c.world.effects())
			t.Logf("a clock stood still, token checks %t: %d calls accepted, %d refused, %d overlaps; seed %d", checks, o.accepted, o.refused, len(o.wrong), s)
			if checks {
				require.Empty(c.t, o.wrong)
				require.NotZero(c.t, o.refused)
			} else {
				require.NotEmpty(c.t, o.wrong)
			}
		})
	}
}

// A ledger with an overlap is found: the check of these tests can fail.
func TestLease_TheLedgerShowsAnOverlap(t *testing.T) {
	at := place{span: fsm.Span{}}
	began := time.Now()
	write := func(node string, epoch fsm.Epoch, after time.Duration) effect {
		e := effect{node: node, place: at, accepted: true, at: began.Add(after)}
		e.token.Epoch, e.token.Claim = epoch, 1
		return e
	}
	good := []effect{write("n1", 1, 0), write("n1", 1, 1), write("n2", 2, 2), write("n2", 2, 3)}
	require.Empty(t, judgeLedger(good).wrong)
	half := write("n2", 3, 4)
	half.place.span.Start = "m"
	other := write("n3", 9, 0)
	other.place = place{feed: "another", trigger: true}
	split := judgeLedger(append(good, other, half, half))
	require.Empty(t, split.wrong)
	require.Equal(t, 2, split.handovers)
	for _, bad := range [][]effect{
		{write("n1", 1, 0), half, write("n1", 1, 5)},
		{write("n1", 1, 0), write("n2", 2, 1), write("n1", 1, 2)},
		{write("n1", 1, 0), write("n2", 2, 0)},
		{write("n1", 1, 0), write("n2", 1, 1)},
	} {
		require.NotEmpty(t, judgeLedger(bad).wrong, fmt.Sprint(bad))
	}
}
