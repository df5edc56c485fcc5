package fsm

import "github.com/weir-project/weir/fsm/internal/wire"

// The state is a handful of kinds of rows. Each row has one code function, from which come its bytes in snapshots and
// its share of the state hash: a field that is missing here is missing in both, and a test that fills every field by
// reflection notices.

// NodeStatus says what a node's newest incarnation may do.
type NodeStatus uint8

// The states of an incarnation; they only move forward.
const (
	NodeStatusLive    NodeStatus = iota + 1 // named by ticks, may be given work
	NodeStatusFenced                        // never named again, expires when its lease must be over
	NodeStatusExpired                       // owns nothing any more
	NodeStatusGone                          // said goodbye
)

// Node is a worker and its newest incarnation. Earlier incarnations own nothing.
type Node struct {
	Name        NodeName
	Incarnation Incarnation
	Status      NodeStatus
	// LastTick is the index of the last entry that named the incarnation and was accepted for it; its registration counts.
	LastTick     uint64
	RegisteredAt uint64 // log index
	RegisteredMS uint64 // state-machine time
	// As registered.
	Address               string
	LeaseMS               uint32
	ClockClass            uint8
	Protocol              uint32
	BootID                string
	LockDevice, LockInode uint64
	// FenceWhy says why it was fenced, if it was.
	FenceWhy string
	// EndedAt is the log index of its expiry or goodbye.
	EndedAt uint64
	// Draining belongs to the name: it stays over incarnations until it is cleared. DrainSince is the entry that began
	// it, DrainBy who asked, DrainFrom how many placements the node had then.
	Draining   bool
	DrainSince uint64
	DrainBy    string
	DrainFrom  uint32
	// DrainedAt is the entry in which the current incarnation confirmed that it holds nothing; zero until then.
	DrainedAt uint64
}

func (n *Node) code(c *wire.Coder) {
	wire.Str(c, &n.Name)
	wire.Uint(c, &n.Incarnation)
	wire.Uint8(c, &n.Status)
	c.Uint64(&n.LastTick)
	c.Uint64(&n.RegisteredAt)
	c.Uint64(&n.RegisteredMS)
	wire.Str(c, &n.Address)
	wire.Uint32(c, &n.LeaseMS)
	wire.Uint8(c, &n.ClockClass)
	wire.Uint32(c, &n.Protocol)
	wire.Str(c, &n.BootID)
	c.Uint64(&n.LockDevice)
	c.Uint64(&n.LockInode)
	wire.Str(c, &n.FenceWhy)
	c.Uint64(&n.EndedAt)
	c.Bool(&n.Draining)
	c.Uint64(&n.DrainSince)
	wire.Str(c, &n.DrainBy)
	wire.Uint32(c, &n.DrainFrom)
	c.Uint64(&n.DrainedAt)
}

// Server is a control-plane server as it announced itself.
type Server struct {
	ID           ServerID
	Address      string // gRPC
	HighestLevel uint32
	AnnouncedAt  uint64 // log index
}

func (s *Server) code(c *wire.Coder) {
	wire.Str(c, &s.ID)
	wire.Str(c, &s.Address)
	wire.Uint32(c, &s.HighestLevel)
	c.Uint64(&s.AnnouncedAt)
}

// ChangefeedStatus says whether a changefeed's dispatchers may be placed.
type ChangefeedStatus uint8

// The states of a changefeed.
const (
	ChangefeedRunning ChangefeedStatus = iota + 1
	ChangefeedIsPaused
	ChangefeedIsRemoving // leaves with its last removal
	ChangefeedIsFailed   // as paused, because going on made no sense; Reason says why
)

// Changefeed is a replication job.
type Changefeed struct {
	ID             ChangefeedID
	Name           string
	Status         ChangefeedStatus
	Source, Sink   string
	SinkFenced     bool
	SinkMaxWriteMS uint32
	Start          Position
	// Run is part of every barrier key and of every record at the sink. It is issued anew when the changefeed is set back
	// below what it has done, and never used by another changefeed, also not by a later one of the same name.
	Run       uint64
	CreatedAt uint64 // log index
	// SyncPointEvery is the distance of sync points in units of ts; zero for none.
	SyncPointEvery uint64
	// SyncPointAfter: sync points stand above it. It is the start, and after a change of the distance the furthest that any
	// dispatcher had come, since nobody would have stood at a point below.
	SyncPointAfter Position
	// Trigger is the dispatcher that reads the source's events; it has no rows and leaves last.
	Trigger DispatcherID
	// Watermark: everything of the changefeed up to it is downstream. Within a run it never goes back.
	Watermark   Position
	WatermarkAt uint64 // log index of its last advance
	// Chain is the newest event that the trigger has reported, Granted the newest that was allowed to be written.
	Chain, Granted Position
	// StatusAt is the entry that caused the status, StatusBy who asked. Reason, Detail and FailedBy say why it failed.
	StatusAt       uint64
	StatusBy       string
	Reason, Detail string
	FailedBy       DispatcherID
}

func (f *Changefeed) code(c *wire.Coder) {
	wire.Uint(c, &f.ID)
	wire.Str(c, &f.Name)
	wire.Uint8(c, &f.Status)
	wire.Str(c, &f.Source)
	wire.Str(c, &f.Sink)
	c.Bool(&f.SinkFenced)
	wire.Uint32(c, &f.SinkMaxWriteMS)
	f.Start.code(c)
	c.Uint64(&f.Run)
	c.Uint64(&f.CreatedAt)
	c.Uint64(&f.SyncPointEvery)
	f.SyncPointAfter.code(c)
	wire.Uint(c, &f.Trigger)
	f.Watermark.code(c)
	c.Uint64(&f.WatermarkAt)
	f.Chain.code(c)
	f.Granted.code(c)
	c.Uint64(&f.StatusAt)
	wire.Str(c, &f.StatusBy)
	wire.Str(c, &f.Reason)
	wire.Str(c, &f.Detail)
	wire.Uint(c, &f.FailedBy)
}

// Table is a table of a changefeed.
type Table struct {
	ID           TableID
	Changefeed   ChangefeedID
	Schema, Name string
	// Trigger: not a table of the source, but where the changefeed's trigger dispatcher belongs.
	Trigger bool
	// Dropping: its name is free again, its dispatchers are being removed.
	Dropping  bool
	CreatedAt uint64 // log index
}

func (t *Table) code(c *wire.Coder) {
	wire.Int(c, &t.ID)
	wire.Uint(c, &t.Changefeed)
	wire.Str(c, &t.Schema)
	wire.Str(c, &t.Name)
	c.Bool(&t.Trigger)
	c.Bool(&t.Dropping)
	c.Uint64(&t.CreatedAt)
}

// Phase is where a placement stands.
type Phase uint8

// The phases of a placement.
const (
	Absent   Phase = iota + 1 // runs nowhere
	Starting                  // a start is ordered
	Running                   // reported running
	Stopping                  // a stop is ordered
)

// Dispatcher is one span's replication and its one placement.
type Dispatcher struct {
	ID    DispatcherID
	Table TableID
	Span  Span
	// Position is where the next placement starts: raised by the stop and barrier reports of current placements, and to
	// the watermark when it is placed.
	Position Position
	Phase    Phase
	// Waits: the current placement has reported that it waits at the event that follows Position.
	Waits bool
	// Leaving: a removal is in the slot; the dispatcher is not wanted any more and takes part in nothing.
	Leaving bool
	// HasRun: the placement was reported running, so it counts in its node's set hash.
	HasRun bool
	// Incarnation and Epoch are zero when absent.
	Incarnation Incarnation
	Epoch       Epoch
	// Slot is the operator that the dispatcher is in; zero for none.
	Slot OpID
	// PlacedAt is the entry that ordered the placement's start; zero when absent. PhaseAt is the entry that caused the
	// phase, PhaseMS its state-machine time.
	PlacedAt, PhaseAt uint64
	PhaseMS           uint64
	// Failures counts placements that failed or stopped by themselves since one last ran for the policy's healthy time;
	// FailedMS is the state-machine time of the last one. Facts for the scheduler's back-off; admission ignores them.
	Failures uint32
	FailedMS uint64
}

func (d *Dispatcher) code(c *wire.Coder) {
	wire.Uint(c, &d.ID)
	wire.Int(c, &d.Table)
	d.Span.code(c)
	d.Position.code(c)
	wire.Uint8(c, &d.Phase)
	c.Bool(&d.Waits)
	c.Bool(&d.Leaving)
	c.Bool(&d.HasRun)
	wire.Uint(c, &d.Incarnation)
	wire.Uint(c, &d.Epoch)
	wire.Uint(c, &d.Slot)
	c.Uint64(&d.PlacedAt)
	c.Uint64(&d.PhaseAt)
	c.Uint64(&d.PhaseMS)
	wire.Uint32(c, &d.Failures)
	c.Uint64(&d.FailedMS)
}

// OpResult says how an operator ended.
type OpResult uint8

// The results of operators; zero while it runs.
const (
	OpDone     OpResult = iota + 1
	OpFailed            // the destination failed, stopped or was lost
	OpCanceled          // by CancelOperator or by a pause
	OpReplaced          // by a removal
)

// Destination is a node, bound to the incarnation that it had at admission; both are zero for none.
type Destination struct {
	Node        NodeName
	Incarnation Incarnation
}

// Operator is a running or finished change to a dispatcher, or, for a Merge, to several.
type Operator struct {
	ID   OpID
	Kind OperatorKind
	// Dispatcher is the one that it works on; of a Merge the first of its sources in key order.
	Dispatcher DispatcherID
	Changefeed string
	Table      string
	// From is the placement that is stopped first (Move, Remove, Stop), To the destination (Add, Move).
	From            NodeName
	FromIncarnation Incarnation
	To              NodeName
	ToIncarnation   Incarnation
	// Epoch is the placement's that the operator works on: the newest that it issued, else the one that it stops.
	Epoch Epoch
	// Moved: the origin of a Move has stopped, and the destination has been ordered to start.
	Moved bool
	// Aborting: it will end absent as soon as what may run is confirmed stopped; AbortResult is then how it ends.
	Aborting    bool
	AbortResult OpResult
	// Drop says that a removal is due to a dropped table or changefeed, not to one dispatcher's removal.
	Drop bool
	By   string
	// Since and SinceMS are the admission's log index and state-machine time.
	Since   uint64
	SinceMS uint64
	// Result, Reason, Detail, Ended and EndedMS are set when it has ended.
	Result  OpResult
	Reason  string
	Detail  string
	Ended   uint64
	EndedMS uint64
	// ReplacedBy is the removal that took its place.
	ReplacedBy OpID
	// DeadlineMS is the state-machine time after which it counts as stuck; StuckAt is the entry that found it so, zero
	// while it is not. Nothing is handed over by a deadline: it names what waits, for people and policies.
	DeadlineMS uint64
	StuckAt    uint64
	// Spans are those of a Split's children, Targets where they go (empty, or one for each span).
	Spans   []Span
	Targets []Destination
	// Sources are a Merge's dispatchers, in key order.
	Sources []DispatcherID
	// Made are the dispatchers that a Split or a Merge has created.
	Made []DispatcherID
}

func (o *Operator) code(c *wire.Coder) {
	wire.Uint(c, &o.ID)
	wire.Uint8(c, &o.Kind)
	wire.Uint(c, &o.Dispatcher)
	wire.Str(c, &o.Changefeed)
	wire.Str(c, &o.Table)
	wire.Str(c, &o.From)
	wire.Uint(c, &o.FromIncarnation)
	wire.Str(c, &o.To)
	wire.Uint(c, &o.ToIncarnation)
	wire.Uint(c, &o.Epoch)
	c.Bool(&o.Moved)
	c.Bool(&o.Aborting)
	wire.Uint8(c, &o.AbortResult)
	c.Bool(&o.Drop)
	wire.Str(c, &o.By)
	c.Uint64(&o.Since)
	c.Uint64(&o.SinceMS)
	wire.Uint8(c, &o.Result)
	wire.Str(c, &o.Reason)
	wire.Str(c, &o.Detail)
	c.Uint64(&o.Ended)
	c.Uint64(&o.EndedMS)
	wire.Uint(c, &o.ReplacedBy)
	c.Uint64(&o.DeadlineMS)
	c.Uint64(&o.StuckAt)
	wire.Slice(c, &o.Spans, func(c *wire.Coder, s *Span) { s.code(c) })
	wire.Slice(c, &o.Targets, func(c *wire.Coder, d *Destination) {
		wire.Str(c, &d.Node)
		wire.Uint(c, &d.Incarnation)
	})
	wire.Slice(c, &o.Sources, wire.Uint[DispatcherID])
	wire.Slice(c, &o.Made, wire.Uint[DispatcherID])
}

// Barrier is an event: open, or the record that it leaves.
type Barrier struct {
	Key    BarrierKey
	Spec   BarrierSpec
	Status BarrierStatus
	// Result is set when it has been written or skipped, and when it has ended.
	Result BarrierResult
	// TriggerSaid: the trigger's own report has been counted, so its earlier events are over.
	TriggerSaid bool
	// Permission is the number of the last write permission, zero if none was issued; Writer, WriterEpoch and
	// WriterIncarnation are its holder. It is live while Status is BarrierInWriting.
	Permission        uint64
	Writer            DispatcherID
	WriterEpoch       Epoch
	WriterIncarnation Incarnation
	// NotBegun and Unknown are the holder's last word before it ended.
	NotBegun, Unknown bool
	// OpenedAt, GrantedAt, WrittenAt and EndedAt are log indexes, zero for not yet; OpenedMS is state-machine time.
	OpenedAt, GrantedAt, WrittenAt, EndedAt uint64
	OpenedMS                                uint64
	OpenedBy                                DispatcherID
	// DeadlineMS and StuckAt are as in an operator.
	DeadlineMS uint64
	StuckAt    uint64
	// Notes says what of the effects could not be applied, or why it ended unwritten.
	Notes string
	// Seq orders records by their end.
	Seq uint64
}

func (b *Barrier) code(c *wire.Coder) {
	b.Key.code(c)
	b.Spec.code(c)
	wire.Uint8(c, &b.Status)
	wire.Uint8(c, &b.Result)
	c.Bool(&b.TriggerSaid)
	c.Uint64(&b.Permission)
	wire.Uint(c, &b.Writer)
	wire.Uint(c, &b.WriterEpoch)
	wire.Uint(c, &b.WriterIncarnation)
	c.Bool(&b.NotBegun)
	c.Bool(&b.Unknown)
	c.Uint64(&b.OpenedAt)
	c.Uint64(&b.GrantedAt)
	c.Uint64(&b.WrittenAt)
	c.Uint64(&b.EndedAt)
	c.Uint64(&b.OpenedMS)
	wire.Uint(c, &b.OpenedBy)
	c.Uint64(&b.DeadlineMS)
	c.Uint64(&b.StuckAt)
	wire.Str(c, &b.Notes)
	c.Uint64(&b.Seq)
}

// Request is a remembered answer.
type Request struct {
	ID RequestID
	// Seq orders requests by when they were answered; the oldest is forgotten first.
	Seq uint64
	// Body is the digest of the command that was answered.
	Body    Digest
	TimeMS  uint64 // the request's own time, which becomes the floor when it is forgotten
	KeptMS  uint64 // state-machine time of the answer
	Verdict Verdict
}

func (r *Request) code(c *wire.Coder) {
	wire.Str(c, &r.ID)
	c.Uint64(&r.Seq)
	c.Uint64(&r.Body.A)
	c.Uint64(&r.Body.B)
	c.Uint64(&r.TimeMS)
	c.Uint64(&r.KeptMS)
	r.Verdict.code(c)
}

// PlacementRecord is a placement that has ended: a line of its dispatcher's ownership history.
type PlacementRecord struct {
	Dispatcher  DispatcherID
	Epoch       Epoch
	Node        NodeName
	Incarnation Incarnation
	// HasRun: it was reported running.
	HasRun bool
	// PlacedAt and EndedAt are the entries that ordered its start and confirmed its end; EndedMS is the state-machine
	// time of the end, WallMS its proposer's wall clock (for display).
	PlacedAt, EndedAt uint64
	EndedMS           uint64
	WallMS            int64
	// Reason and Detail say why it ended: an operator's kind, or what went wrong.
	Reason, Detail string
	// Operator and OperatorKind name the operator that ended it, if one did. Detail then follows from them, and is not
	// stored.
	Operator     OpID
	OperatorKind OperatorKind
	// Position is where the next placement starts.
	Position Position
	// Seq orders records by their end.
	Seq uint64
}

func (r *PlacementRecord) code(c *wire.Coder) {
	wire.Uint(c, &r.Dispatcher)
	wire.Uint(c, &r.Epoch)
	wire.Str(c, &r.Node)
	wire.Uint(c, &r.Incarnation)
	c.Bool(&r.HasRun)
	c.Uint64(&r.PlacedAt)
	c.Uint64(&r.EndedAt)
	c.Uint64(&r.EndedMS)
	wire.Int(c, &r.WallMS)
	wire.Str(c, &r.Reason)
	wire.Str(c, &r.Detail)
	wire.Uint(c, &r.Operator)
	wire.Uint8(c, &r.OperatorKind)
	r.Position.code(c)
	c.Uint64(&r.Seq)
}

// Policy holds the replicated limits. They travel in the log, so that servers with other settings decide alike.
type Policy struct {
	MaxDispatchers       uint64
	MaxPlacementsPerNode uint32
	MaxOperators         uint32 // running at once
	MaxNodes             uint32 // names that are remembered
	KeepRequests         uint32 // answers
	KeepRequestsMS       uint64
	KeepOperators        uint32 // finished ones
	KeepHistory          uint32 // ended placements in all
	KeepHistoryEach      uint32 // ended placements of one dispatcher
	HealthyMS            uint64 // a placement that ran so long clears the dispatcher's failures
	KeepBarriers         uint32 // ended ones
	// OperatorDeadlineMS and BarrierDeadlineMS are how long one may take before it counts as stuck.
	OperatorDeadlineMS, BarrierDeadlineMS uint64
	// CancelStuck: a stuck operator is cancelled. FenceStuck: what is still stuck after FenceStuckMS more has the node
	// that it waits for fenced, so that its work can go elsewhere.
	CancelStuck, FenceStuck bool
	FenceStuckMS            uint64
	// FailAfter is the number of failures in a row of one dispatcher that fail its changefeed; zero for never.
	FailAfter uint32
	// DrainAtOnce bounds the moves of one drain that run together.
	DrainAtOnce uint32
}

func (p *Policy) code(c *wire.Coder) {
	c.Uint64(&p.MaxDispatchers)
	wire.Uint32(c, &p.MaxPlacementsPerNode)
	wire.Uint32(c, &p.MaxOperators)
	wire.Uint32(c, &p.MaxNodes)
	wire.Uint32(c, &p.KeepRequests)
	c.Uint64(&p.KeepRequestsMS)
	wire.Uint32(c, &p.KeepOperators)
	wire.Uint32(c, &p.KeepHistory)
	wire.Uint32(c, &p.KeepHistoryEach)
	c.Uint64(&p.HealthyMS)
	wire.Uint32(c, &p.KeepBarriers)
	c.Uint64(&p.OperatorDeadlineMS)
	c.Uint64(&p.BarrierDeadlineMS)
	c.Bool(&p.CancelStuck)
	c.Bool(&p.FenceStuck)
	c.Uint64(&p.FenceStuckMS)
	wire.Uint32(c, &p.FailAfter)
	wire.Uint32(c, &p.DrainAtOnce)
}

// DefaultPolicy is what a new cluster starts with.
func DefaultPolicy() Policy {
	return Policy{
		MaxDispatchers:       2_000_000,
		MaxPlacementsPerNode: 200_000,
		MaxOperators:         200_000,
		MaxNodes:             10_000,
		KeepRequests:         50_000,
		KeepRequestsMS:       3_600_000,
		KeepOperators:        20_000,
		KeepHistory:          200_000,
		KeepHistoryEach:      16,
		HealthyMS:            60_000,
		KeepBarriers:         1_000,
		OperatorDeadlineMS:   60_000,
		BarrierDeadlineMS:    300_000,
		FenceStuckMS:         60_000,
		FailAfter:            100,
		DrainAtOnce:          64,
	}
}

// Meta holds the counters and the one-of-a-kind facts of the state.
type Meta struct {
	Cluster    string
	Generation Generation
	Level      uint32
	Policy     Policy
	// Index and RaftTerm are those of the last entry applied.
	Index, RaftTerm uint64
	// Term is the last one begun, Leader who began it, BeganAt the entry; TickedTerm the last term that has ticked.
	Term       uint64
	Leader     ServerID
	BeganAt    uint64
	TickedTerm uint64
	// TimeMS is state-machine time: the sum of the elapsed times of ticks.
	TimeMS uint64
	// The last numbers issued.
	LastEpoch       Epoch // epochs and op ids
	LastIncarnation Incarnation
	LastDispatcher  DispatcherID
	LastChangefeed  ChangefeedID
	LastTable       TableID
	LastRequest     uint64
	LastRecord      uint64
	LastRun         uint64
	// RequestFloorMS: requests built before it may have been forgotten.
	RequestFloorMS uint64
}

func (m *Meta) code(c *wire.Coder) {
	wire.Str(c, &m.Cluster)
	wire.Uint(c, &m.Generation)
	wire.Uint32(c, &m.Level)
	m.Policy.code(c)
	c.Uint64(&m.Index)
	c.Uint64(&m.RaftTerm)
	c.Uint64(&m.Term)
	wire.Str(c, &m.Leader)
	c.Uint64(&m.BeganAt)
	c.Uint64(&m.TickedTerm)
	c.Uint64(&m.TimeMS)
	wire.Uint(c, &m.LastEpoch)
	wire.Uint(c, &m.LastIncarnation)
	wire.Uint(c, &m.LastDispatcher)
	wire.Uint(c, &m.LastChangefeed)
	wire.Int(c, &m.LastTable)
	c.Uint64(&m.LastRequest)
	c.Uint64(&m.LastRecord)
	c.Uint64(&m.LastRun)
	c.Uint64(&m.RequestFloorMS)
}
