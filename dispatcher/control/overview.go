package control

import (
	"time"

	"github.com/weir-project/weir/fsm"
)

// Overview is what the leader works on and what it waits for, for people. Lists are bounded by overviewLimit.
type Overview struct {
	Term       uint64
	Watermarks []WatermarkInfo
	Barriers   []BarrierInfo
	Drains     []DrainInfo
	Stuck      []StuckInfo
}

// WatermarkInfo says what holds a changefeed's watermark where it is.
type WatermarkInfo struct {
	Changefeed string
	ID         fsm.ChangefeedID
	Watermark  fsm.Position
	Holder     Holder
	// For is how long it has been this holder, whatever its position.
	For time.Duration
}

// BarrierInfo is an open event and how far it is.
type BarrierInfo struct {
	Barrier fsm.Barrier
	// Members are the dispatchers that it concerns, Behind those that have not reached it, Unpassed those that have not
	// passed it. Missing are a few of those that it waits for now.
	Members, Behind, Unpassed int
	Missing                   []fsm.DispatcherID
	// OpenMS is how long it has been open, in state-machine time.
	OpenMS uint64
}

// DrainInfo is a drain and how far it is.
type DrainInfo struct {
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	// From is how many placements the node had when the drain began, Left how many it has or gets, by the state.
	From, Left uint64
	// Told is how many dispatchers the node named in its newest heartbeat.
	Told uint64
	// Done: the state has nothing there and the current incarnation has confirmed it.
	Done bool
	// Stays: no other node can take work, so that what runs stays where it is.
	Stays bool
}

// StuckInfo is an operator past its deadline and what it waits for.
type StuckInfo struct {
	Operator fsm.Operator
	// WaitsFor is the placement that must stop or start; zero for none.
	WaitsFor fsm.Dispatcher
	Node     fsm.NodeName
	// StuckMS is how long it has been past its deadline, in state-machine time.
	StuckMS uint64
}

const (
	overviewLimit = 1_000
	missingShown  = 16
)

// Overview describes what the leader works on; false when this server does not lead.
func (l *Leader) Overview() (Overview, bool) {
	r := l.current()
	if r == nil {
		return Overview{}, false
	}
	view := r.fresh()
	o := Overview{Term: r.term, Drains: r.drainInfos(view), Stuck: stuckInfos(view)}
	for feed := range view.Changefeeds() {
		if w, ok := r.watermark(feed); ok && len(o.Watermarks) < overviewLimit {
			o.Watermarks = append(o.Watermarks, w)
		}
		for b := range view.Barriers(feed.ID) {
			if len(o.Barriers) < overviewLimit {
				o.Barriers = append(o.Barriers, barrierInfo(view, b))
			}
		}
	}
	return o, true
}

// Watermark says what holds a changefeed's watermark; false when that is not known, or this server does not lead.
func (l *Leader) Watermark(id fsm.ChangefeedID) (WatermarkInfo, bool) {
	r := l.current()
	if r == nil {
		return WatermarkInfo{}, false
	}
	feed, ok := r.recentOrFresh().ChangefeedByID(id)
	if !ok {
		return WatermarkInfo{}, false
	}
	return r.watermark(feed)
}

func (r *reign) watermark(feed fsm.Changefeed) (WatermarkInfo, bool) {
	holder, since, ok := r.heldBy(feed.ID)
	return WatermarkInfo{Changefeed: feed.Name, ID: feed.ID, Watermark: feed.Watermark, Holder: holder, For: since}, ok
}

func barrierInfo(view *fsm.View, b fsm.Barrier) BarrierInfo {
	i := BarrierInfo{Barrier: b, OpenMS: view.Meta().TimeMS - b.OpenedMS}
	i.Members, i.Behind, i.Unpassed = view.BarrierProgress(b.Key)
	if waits := (b.Status == fsm.BarrierCollecting && i.Behind > 0) || (b.Status == fsm.BarrierPassing && i.Unpassed > 0); !waits {
		return i
	}
	for row := range view.BarrierMissing(b) {
		if len(i.Missing) == missingShown {
			break
		}
		i.Missing = append(i.Missing, row.ID)
	}
	return i
}

func (r *reign) drainInfos(view *fsm.View) (out []DrainInfo) {
	stays := true
	for n := range view.Nodes() {
		stays = stays && (n.Draining || n.Status != fsm.NodeStatusLive)
	}
	for n := range view.Nodes() {
		if !n.Draining || len(out) == overviewLimit {
			continue
		}
		d := DrainInfo{
			Node: n.Name, Incarnation: n.Incarnation, From: uint64(n.DrainFrom), Left: view.DrainLeft(n), Done: n.DrainedAt != 0, Stays: stays,
		}
		if c := r.contact(n.Incarnation); c != nil {
			_, told := c.holdsNothing()
			d.Told = uint64(told)
		}
		out = append(out, d)
	}
	return out
}

func stuckInfos(view *fsm.View) (out []StuckInfo) {
	looks := overviewLooks
	for op := range view.Operators() {
		if looks == 0 || len(out) == overviewLimit {
			break
		}
		looks--
		if op.StuckAt == 0 {
			continue
		}
		s := StuckInfo{Operator: op, StuckMS: view.Meta().TimeMS - op.DeadlineMS}
		if row, waits := view.WaitsFor(op); waits {
			s.WaitsFor = row
			if n, ok := view.NodeOf(row.Incarnation); ok && row.Phase != fsm.Absent {
				s.Node = n.Name
			}
		}
		out = append(out, s)
	}
	return out
}

// overviewLooks bounds the operators that are looked at for stuck ones; the oldest come first.
const overviewLooks = 1 << 14
