package control

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// LeaseInfo is how the leader sees one live or fenced node.
type LeaseInfo struct {
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	Status      fsm.NodeStatus
	// LastTick is the log index of the last entry that named it.
	LastTick uint64
	Lease    time.Duration
	// ExpiresIn is the time after which it may be expired unless a tick names it; zero when that time has come.
	ExpiresIn time.Duration
	// Connected: it has a session here. Heard: a heartbeat came in this term, HeardAge ago.
	Connected, Heard bool
	HeardAge         time.Duration
	// Named: a tick that named it was applied less than a lease ago in this term.
	Named bool
	// Silenced: it is heard but no longer named, since it has been closed or has stood still for too long.
	Silenced bool
	// GateOpen, GateReason and SetHashEqual are as of its newest heartbeat.
	GateOpen     bool
	GateReason   string
	SetHashEqual bool
}

func (r *reign) leases() []LeaseInfo {
	view, now := r.fresh(), r.cfg.Clock.Now()
	silenced := r.tracker.Silenced(now)
	var out []LeaseInfo
	for n := range view.Nodes() {
		if ended(n.Status) {
			continue
		}
		info := LeaseInfo{
			Node: n.Name, Incarnation: n.Incarnation, Status: n.Status, LastTick: n.LastTick, Lease: leaseOf(n),
			ExpiresIn: r.expiresIn(n, now),
		}
		_, info.Silenced = slices.BinarySearch(silenced, uint64(n.Incarnation))
		if c := r.contact(n.Incarnation); c != nil {
			c.describe(&info, now)
		}
		out = append(out, info)
	}
	return out
}

// progressOf finds the owner's newest word about a dispatcher.
func (r *reign) progressOf(id fsm.DispatcherID) (soft, bool) {
	row, ok := r.recentOrFresh().Dispatcher(id)
	if !ok || row.Phase == fsm.Absent {
		return soft{}, false
	}
	c := r.contact(row.Incarnation)
	if c == nil {
		return soft{}, false
	}
	return c.progressOf(row)
}

func (r *reign) recentOrFresh() *fsm.View {
	if v := r.recent(); v != nil {
		return v
	}
	return r.fresh()
}

func (c *contact) describe(info *LeaseInfo, now clock.Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info.Connected, info.Heard = c.link != nil, c.heard
	info.GateOpen, info.GateReason, info.SetHashEqual = c.gateOpen, c.gateReason, c.setEqual
	if c.heard {
		info.HeardAge = clock.MaxElapsed(c.heardAt, now)
	}
	info.Named = c.acked && clock.MaxElapsed(c.ackedAt, now) < info.Lease
}

// expiresIn is the rest of the wait before an incarnation may be expired.
func (r *reign) expiresIn(n fsm.Node, now clock.Reading) time.Duration {
	since := r.cfg.Appends.LearnTick(uint64(n.Incarnation), n.LastTick, now)
	wait := fence.Wait(leaseOf(n), clock.Class(n.ClockClass), clock.ClassOf(r.cfg.Clock))
	return max(0, wait-clock.MinElapsed(since, now))
}

// Counters count what a Leader has done since it was made.
type Counters struct {
	// Ticks were applied, TicksLost were not, or are not known to have been.
	Ticks, TicksLost uint64
	// Acks were released, RefusedNames were not, since a tick's verdict refused the incarnation.
	Acks, RefusedNames uint64
	// Silenced heartbeats were heard from nodes that are not named any more.
	Silenced uint64
	// StepDowns asked for because ticks did not commit.
	StepDowns uint64
	// Sessions were served, RefusedSessions were closed at once.
	Sessions, RefusedSessions uint64
	// Orders were sent, repetitions included; Strays of them were for pairs that the state does not have.
	Orders, Strays uint64
	// Reports went into the log, ReportsDeduplicated were answered without an entry.
	Reports, ReportsDeduplicated uint64
	// ListsAsked because set hashes differed for too long.
	ListsAsked uint64
	// Expiries were applied, ExpiriesRefused lost against a newer tick. HeldExpiries is how many the guard holds back now.
	Expiries, ExpiriesRefused, HeldExpiries uint64
	// Planned commands of the scheduler were accepted, PlansRefused were not.
	Planned, PlansRefused uint64
	// BarrierReports are words about events that went into the log, BarrierReportsDeduplicated were answered without an
	// entry. BarriersAsked counts nodes asked again for whom an event waits.
	BarrierReports, BarrierReportsDeduplicated, BarriersAsked uint64
	// Checkpoints raised a watermark, CheckpointsRefused were overtaken on their way into the log.
	Checkpoints, CheckpointsRefused uint64
	// Drained nodes were confirmed.
	Drained uint64
}

type counters struct {
	ticks, ticksLost, acks, refusedNames, silenced, stepDowns, sessions, refusedSessions atomic.Uint64
	orders, strays, reports, reportsDeduplicated, listsAsked                             atomic.Uint64
	expiries, expiriesRefused, held, planned, plansRefused                               atomic.Uint64
	barrierReports, barrierReportsDeduplicated, barriersAsked                            atomic.Uint64
	checkpoints, checkpointsRefused, drained                                             atomic.Uint64
}

func (c *counters) read() Counters {
	return Counters{
		Ticks: c.ticks.Load(), TicksLost: c.ticksLost.Load(), Acks: c.acks.Load(), RefusedNames: c.refusedNames.Load(),
		Silenced: c.silenced.Load(), StepDowns: c.stepDowns.Load(), Sessions: c.sessions.Load(),
		RefusedSessions: c.refusedSessions.Load(), Orders: c.orders.Load(), Strays: c.strays.Load(),
		Reports: c.reports.Load(), ReportsDeduplicated: c.reportsDeduplicated.Load(), ListsAsked: c.listsAsked.Load(),
		Expiries: c.expiries.Load(), ExpiriesRefused: c.expiriesRefused.Load(), HeldExpiries: c.held.Load(),
		Planned: c.planned.Load(), PlansRefused: c.plansRefused.Load(),
		BarrierReports: c.barrierReports.Load(), BarrierReportsDeduplicated: c.barrierReportsDeduplicated.Load(),
		BarriersAsked: c.barriersAsked.Load(), Checkpoints: c.checkpoints.Load(),
		CheckpointsRefused: c.checkpointsRefused.Load(), Drained: c.drained.Load(),
	}
}
