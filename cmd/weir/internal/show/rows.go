package show

import (
	"encoding/hex"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
)

// Changefeed is a replication job.
type Changefeed struct {
	ID             uint64 `json:"id"`
	Name           string `json:"name"`
	Status         string `json:"status"`
	Source         string `json:"source"`
	Sink           string `json:"sink"`
	SinkFenced     bool   `json:"sink_fenced"`
	SinkMaxWriteMS uint32 `json:"sink_max_write_ms,omitempty"`
	Start          string `json:"start"`
	Run            uint64 `json:"run"`
	CreatedAt      uint64 `json:"created_at"`
	// Tables, Dispatchers and Absent are counted for one changefeed only, not in lists.
	Tables      *uint32 `json:"tables,omitempty"`
	Dispatchers *uint64 `json:"dispatchers,omitempty"`
	Absent      *uint64 `json:"absent,omitempty"`
	// SyncPointEvery is the distance of sync points in units of ts; 0: none.
	SyncPointEvery uint64 `json:"sync_point_every"`
	Trigger        uint64 `json:"trigger"`
	Watermark      string `json:"watermark"`
	WatermarkAt    uint64 `json:"watermark_at"`
	StatusAt       uint64 `json:"status_at"`
	StatusBy       string `json:"status_by"`
	Reason         string `json:"reason"`
	Detail         string `json:"detail"`
	FailedBy       uint64 `json:"failed_by"`
	// Barriers and Hold are told for one changefeed only.
	Barriers *uint32 `json:"barriers,omitempty"`
	Hold     *Hold   `json:"hold,omitempty"`
}

// Hold is what keeps a changefeed's watermark from going further.
type Hold struct {
	At         string `json:"at"`
	Dispatcher uint64 `json:"dispatcher"`
	Node       string `json:"node"`
	Operator   string `json:"operator"`
	Barrier    string `json:"barrier"`
	Text       string `json:"text"`
}

// ChangefeedRow reads a changefeed of the API; counted says that its counts were asked for.
func ChangefeedRow(c *weirv1.Changefeed, counted bool) Changefeed {
	row := Changefeed{
		ID: c.GetId(), Name: c.GetName(), Status: Word(c.GetStatus().String(), "CHANGEFEED_STATUS_"), Source: c.GetSource(),
		Sink: c.GetSink(), SinkFenced: c.GetSinkFenced(), SinkMaxWriteMS: c.GetSinkMaxWriteMs(),
		Start: Position(c.GetStart()), Run: c.GetRun(), CreatedAt: c.GetCreatedAt(),
		SyncPointEvery: c.GetSyncPointEvery(), Trigger: c.GetTrigger(), Watermark: Position(c.GetWatermark()),
		WatermarkAt: c.GetWatermarkAt(), StatusAt: c.GetStatusAt(), StatusBy: c.GetStatusBy(), Reason: c.GetReason(),
		Detail: c.GetDetail(), FailedBy: c.GetFailedBy(),
	}
	if counted {
		tables, dispatchers, absent, barriers := c.GetTables(), c.GetDispatchers(), c.GetAbsent(), c.GetBarriers()
		row.Tables, row.Dispatchers, row.Absent, row.Barriers = &tables, &dispatchers, &absent, &barriers
	}
	if h := c.GetHold(); h != nil {
		row.Hold = &Hold{
			At: Position(h.GetAt()), Dispatcher: h.GetDispatcher(), Node: h.GetNode(), Operator: Token(h.GetOperator()), Text: h.GetText(),
		}
		if h.GetBarrier() != nil {
			row.Hold.Barrier = Position(h.GetBarrier())
		}
	}
	return row
}

// TableOf is a table of a changefeed.
type TableOf struct {
	ID          int64  `json:"id"`
	Changefeed  string `json:"changefeed"`
	Table       string `json:"table"`
	Dropping    bool   `json:"dropping"`
	CreatedAt   uint64 `json:"created_at"`
	Dispatchers uint32 `json:"dispatchers"`
}

// TableRow reads a table of the API.
func TableRow(t *weirv1.Table) TableOf {
	return TableOf{
		ID: t.GetId(), Changefeed: t.GetChangefeed(), Table: Table(t.GetSchema(), t.GetName()), Dropping: t.GetDropping(),
		CreatedAt: t.GetCreatedAt(), Dispatchers: t.GetDispatchers(),
	}
}

// Dispatcher is one span's replication and its placement.
type Dispatcher struct {
	ID         uint64 `json:"id"`
	Changefeed string `json:"changefeed"`
	Table      string `json:"table"`
	TableID    int64  `json:"table_id"`
	// Keys is for people; StartKey and EndKey are the bounds in hex.
	Keys        string `json:"keys"`
	StartKey    string `json:"start_key"`
	EndKey      string `json:"end_key"`
	Phase       string `json:"phase"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Epoch       string `json:"epoch"`
	Operator    string `json:"operator"`
	HeldBy      string `json:"held_by"`
	// Position is what is stored: where the next placement starts.
	Position string    `json:"position"`
	PlacedAt uint64    `json:"placed_at"`
	PhaseAt  uint64    `json:"phase_at"`
	PhaseMS  uint64    `json:"phase_ms"`
	Failures uint32    `json:"failures"`
	Trigger  bool      `json:"trigger"`
	Waits    bool      `json:"waits"`
	Leaving  bool      `json:"leaving"`
	Progress *Progress `json:"progress,omitempty"`
}

// TriggerTable stands where a changefeed's trigger, which has no table, would have one.
const TriggerTable = "(events)"

// Progress is what the leader last heard of a running dispatcher.
type Progress struct {
	Position string `json:"position"`
	LagMS    int64  `json:"lag_ms"`
	Rows     uint64 `json:"rows"`
	Idle     bool   `json:"idle"`
}

// DispatcherRow reads a dispatcher of the API.
func DispatcherRow(d *weirv1.Dispatcher) Dispatcher {
	row := Dispatcher{
		ID: d.GetId(), Changefeed: d.GetChangefeed(), Table: Table(d.GetSchema(), d.GetTable()), TableID: d.GetTableId(),
		Keys: Keys(d.GetSpan()), StartKey: hex.EncodeToString(d.GetSpan().GetStart()), EndKey: hex.EncodeToString(d.GetSpan().GetEnd()),
		Phase: Phase(d.GetPhase()), Node: d.GetNode(), Incarnation: Token(d.GetIncarnation()), Epoch: Token(d.GetEpoch()),
		Operator: Token(d.GetOperator()), HeldBy: Token(d.GetHeldBy()), Position: Position(d.GetPosition()),
		PlacedAt: d.GetPlacedAt(), PhaseAt: d.GetPhaseAt(), PhaseMS: d.GetPhaseMs(), Failures: d.GetFailures(),
		Trigger: d.GetTrigger(), Waits: d.GetWaits(), Leaving: d.GetLeaving(),
	}
	if row.Trigger {
		row.Table = TriggerTable
	}
	if p := d.GetProgress(); p != nil {
		row.Progress = &Progress{Position: Position(p.GetPosition()), LagMS: p.GetLagMs(), Rows: p.GetRows(), Idle: p.GetIdle()}
	}
	return row
}

// Placement is a line of a dispatcher's ownership history.
type Placement struct {
	Epoch       string `json:"epoch"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	// Phase is set for the present placement only.
	Phase    string `json:"phase,omitempty"`
	HasRun   bool   `json:"has_run"`
	PlacedAt uint64 `json:"placed_at"`
	EndedAt  uint64 `json:"ended_at,omitempty"`
	EndedMS  uint64 `json:"ended_ms,omitempty"`
	WallMS   int64  `json:"wall_ms,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Position string `json:"position"`
}

// History lists a dispatcher's placements, oldest first, the present one last.
func History(h *weirv1.GetHistoryResponse) []Placement {
	placements := make([]Placement, 0, len(h.GetRecords())+1)
	for _, r := range h.GetRecords() {
		placements = append(placements, Placement{
			Epoch: Token(r.GetEpoch()), Node: r.GetNode(), Incarnation: Token(r.GetIncarnation()), HasRun: r.GetHasRun(),
			PlacedAt: r.GetPlacedAt(), EndedAt: r.GetEndedAt(), EndedMS: r.GetEndedMs(), WallMS: r.GetWallMs(),
			Reason: r.GetReason(), Detail: r.GetDetail(), Position: Position(r.GetPosition()),
		})
	}
	if d := h.GetDispatcher(); d.GetEpoch() != 0 {
		placements = append(placements, Placement{
			Epoch: Token(d.GetEpoch()), Node: d.GetNode(), Incarnation: Token(d.GetIncarnation()), Phase: Phase(d.GetPhase()),
			HasRun: d.GetPhase() == weirv1.Phase_PHASE_RUNNING, PlacedAt: d.GetPlacedAt(), Position: Position(d.GetPosition()),
		})
	}
	return placements
}

// HistoryGrid is the text table of placements.
func HistoryGrid(rows []Placement) *Grid {
	g := NewGrid("EPOCH", "NODE", "INCARNATION", "STARTED BY", "ENDED BY", "WHY IT ENDED", "POSITION")
	for _, r := range rows {
		why := r.Reason
		if r.Detail != "" {
			why += ": " + r.Detail
		}
		if r.Phase != "" {
			why = "(" + r.Phase + ")"
		}
		g.Add(r.Epoch, r.Node, r.Incarnation, Entry(r.PlacedAt), Entry(r.EndedAt), why, r.Position)
	}
	return g
}

// Operator is a running or finished change to a dispatcher.
type Operator struct {
	ID              string `json:"id"`
	Kind            string `json:"kind"`
	Dispatcher      uint64 `json:"dispatcher"`
	Changefeed      string `json:"changefeed"`
	Table           string `json:"table"`
	From            string `json:"from"`
	FromIncarnation string `json:"from_incarnation"`
	To              string `json:"to"`
	ToIncarnation   string `json:"to_incarnation"`
	Epoch           string `json:"epoch"`
	Aborting        bool   `json:"aborting"`
	Drop            bool   `json:"drop"`
	By              string `json:"by"`
	Since           uint64 `json:"since"`
	SinceMS         uint64 `json:"since_ms"`
	// Result is running, done, failed, canceled or replaced.
	Result     string `json:"result"`
	Reason     string `json:"reason"`
	Detail     string `json:"detail"`
	Ended      uint64 `json:"ended"`
	EndedMS    uint64 `json:"ended_ms"`
	ReplacedBy string `json:"replaced_by"`
	WaitsFor   string `json:"waits_for"`
	// DeadlineMS is the time after which it counts as stuck, StuckAt the entry that found it so.
	DeadlineMS uint64 `json:"deadline_ms"`
	StuckAt    uint64 `json:"stuck_at"`
	Moved      bool   `json:"moved"`
	// Spans are the key ranges of a split's children, Targets their nodes; Sources are a merge's dispatchers, Made those
	// that a split or a merge has created.
	Spans   []string `json:"spans"`
	Targets []string `json:"targets"`
	Sources []uint64 `json:"sources"`
	Made    []uint64 `json:"made"`
}

// OperatorRow reads an operator of the API.
func OperatorRow(o *weirv1.Operator) Operator {
	result := Word(o.GetResult().String(), "OPERATOR_RESULT_")
	if result == "" {
		result = "running"
	}
	row := Operator{
		ID: Token(o.GetId()), Kind: Word(o.GetKind().String(), "OPERATOR_KIND_"), Dispatcher: o.GetDispatcher(),
		Changefeed: o.GetChangefeed(), Table: o.GetTable(), From: o.GetFrom(), FromIncarnation: Token(o.GetFromIncarnation()),
		To: o.GetTo(), ToIncarnation: Token(o.GetToIncarnation()), Epoch: Token(o.GetEpoch()), Aborting: o.GetAborting(),
		Drop: o.GetDrop(), By: o.GetBy(), Since: o.GetSince(), SinceMS: o.GetSinceMs(), Result: result, Reason: o.GetReason(),
		Detail: o.GetDetail(), Ended: o.GetEnded(), EndedMS: o.GetEndedMs(), ReplacedBy: Token(o.GetReplacedBy()),
		WaitsFor: o.GetWaitsFor(), DeadlineMS: o.GetDeadlineMs(), StuckAt: o.GetStuckAt(), Moved: o.GetMoved(),
		Spans: []string{}, Targets: []string{}, Sources: append([]uint64{}, o.GetSources()...), Made: append([]uint64{}, o.GetMade()...),
	}
	for _, s := range o.GetSpans() {
		row.Spans = append(row.Spans, Keys(s))
	}
	for _, t := range o.GetTargets() {
		row.Targets = append(row.Targets, t.GetNode())
	}
	return row
}

// Node is a worker and its newest incarnation.
type Node struct {
	Name         string `json:"name"`
	Incarnation  string `json:"incarnation"`
	Status       string `json:"status"`
	Address      string `json:"address"`
	LeaseMS      uint32 `json:"lease_ms"`
	ClockClass   uint32 `json:"clock_class"`
	Protocol     uint32 `json:"protocol"`
	BootID       string `json:"boot_id"`
	LastTick     uint64 `json:"last_tick"`
	RegisteredAt uint64 `json:"registered_at"`
	RegisteredMS uint64 `json:"registered_ms"`
	FenceWhy     string `json:"fence_why"`
	Placements   uint32 `json:"placements"`
	Pending      uint32 `json:"pending"`
	EndedAt      uint64 `json:"ended_at"`
	Lease        *Lease `json:"lease,omitempty"`
	Drain        *Drain `json:"drain,omitempty"`
}

// Drain is how far a node's drain has come.
type Drain struct {
	Since       uint64 `json:"since"`
	By          string `json:"by"`
	From        uint32 `json:"from"`
	Left        uint64 `json:"left"`
	ConfirmedAt uint64 `json:"confirmed_at"`
	WaitsFor    string `json:"waits_for"`
}

// Over says that the node holds nothing any more, and has confirmed it itself.
func (d *Drain) Over() bool { return d.Left == 0 && d.ConfirmedAt != 0 }

// Words says in a few words how a drain stands.
func (d *Drain) Words() string {
	if d.Over() {
		return "drained, confirmed at " + Entry(d.ConfirmedAt)
	}
	return fmt.Sprintf("%d of %d left; waits for %s", d.Left, d.From, Dash(d.WaitsFor))
}

// Lease is what the leader knows of a node's lease.
type Lease struct {
	HeardAgeMS   uint64 `json:"heard_age_ms"`
	Named        bool   `json:"named"`
	GateOpen     bool   `json:"gate_open"`
	GateReason   string `json:"gate_reason"`
	SetHashEqual bool   `json:"set_hash_equal"`
}

// NodeRow reads a node of the API.
func NodeRow(n *weirv1.Node) Node {
	row := Node{
		Name: n.GetName(), Incarnation: Token(n.GetIncarnation()), Status: Word(n.GetStatus().String(), "NODE_STATUS_"),
		Address: n.GetAddress(), LeaseMS: n.GetLeaseMs(), ClockClass: n.GetClockClass(), Protocol: n.GetProtocol(),
		BootID: n.GetBootId(), LastTick: n.GetLastTick(), RegisteredAt: n.GetRegisteredAt(), RegisteredMS: n.GetRegisteredMs(),
		FenceWhy: n.GetFenceWhy(), Placements: n.GetPlacements(), Pending: n.GetPending(), EndedAt: n.GetEndedAt(),
	}
	if l := n.GetLease(); l != nil {
		row.Lease = &Lease{
			HeardAgeMS: l.GetHeardAgeMs(), Named: l.GetNamed(), GateOpen: l.GetGateOpen(), GateReason: l.GetGateReason(),
			SetHashEqual: l.GetSetHashEqual(),
		}
	}
	if d := n.GetDrain(); d != nil {
		row.Drain = &Drain{
			Since: d.GetSince(), By: d.GetBy(), From: d.GetFrom(), Left: d.GetLeft(), ConfirmedAt: d.GetConfirmedAt(),
			WaitsFor: d.GetWaitsFor(),
		}
	}
	return row
}

// Words says in one or two words how a node's lease stands.
func (n *Node) Words() string {
	switch {
	case n.Lease == nil:
		return "unheard"
	case n.Lease.GateOpen && n.Lease.Named:
		return "open"
	case n.Lease.GateOpen:
		return "open, unnamed"
	case n.Lease.GateReason != "":
		return "closed: " + n.Lease.GateReason
	default:
		return "closed"
	}
}
