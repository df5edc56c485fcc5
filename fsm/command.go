package fsm

import "github.com/weir-project/weir/fsm/internal/wire"

// CommandKind numbers the commands in the log. The numbers are part of the log format.
type CommandKind uint8

// The kinds of commands.
const (
	KindBeginTerm CommandKind = iota + 1
	KindBeginGeneration
	KindAnnounceServer
	KindSetFeatureLevel
	KindSetPolicy
	KindTick
	KindRegisterNode
	KindGoodbye
	KindFenceNode
	KindExpireNode
	KindCreateChangefeed
	KindPauseChangefeed
	KindResumeChangefeed
	KindRemoveChangefeed
	KindAddTables
	KindDropTables
	KindAdmitOperator
	KindCancelOperator
	KindReportPlacements
	KindUpdateChangefeed
	KindAdmitMany
	KindStartDrain
	KindClearDrain
	KindConfirmDrain
	KindReportBarrier
	KindDecideBarrier
	KindAdvanceCheckpoint
)

// Command is one kind of change. Every value in it was chosen before it entered the log: Apply looks at nothing else.
type Command interface {
	// Kind says which command it is.
	Kind() CommandKind
	// Code names the fields, in log order, to an encoder or a decoder.
	Code(c *wire.Coder)
	// apply checks everything first and then changes s, or changes nothing and says why.
	apply(s *State, x entryContext) Verdict
}

// NewCommand returns an empty command of the kind to decode into; ok is false if this version does not know the kind.
func NewCommand(kind CommandKind) (cmd Command, ok bool) {
	if make, known := commandKinds()[kind]; known {
		return make(), true
	}
	return nil, false
}

// commandKinds lists every command that this version knows.
func commandKinds() map[CommandKind]func() Command {
	return map[CommandKind]func() Command{
		KindBeginTerm:         func() Command { return &BeginTerm{} },
		KindBeginGeneration:   func() Command { return &BeginGeneration{} },
		KindAnnounceServer:    func() Command { return &AnnounceServer{} },
		KindSetFeatureLevel:   func() Command { return &SetFeatureLevel{} },
		KindSetPolicy:         func() Command { return &SetPolicy{} },
		KindTick:              func() Command { return &Tick{} },
		KindRegisterNode:      func() Command { return &RegisterNode{} },
		KindGoodbye:           func() Command { return &Goodbye{} },
		KindFenceNode:         func() Command { return &FenceNode{} },
		KindExpireNode:        func() Command { return &ExpireNode{} },
		KindCreateChangefeed:  func() Command { return &CreateChangefeed{} },
		KindPauseChangefeed:   func() Command { return &PauseChangefeed{} },
		KindResumeChangefeed:  func() Command { return &ResumeChangefeed{} },
		KindRemoveChangefeed:  func() Command { return &RemoveChangefeed{} },
		KindAddTables:         func() Command { return &AddTables{} },
		KindDropTables:        func() Command { return &DropTables{} },
		KindAdmitOperator:     func() Command { return &AdmitOperator{} },
		KindCancelOperator:    func() Command { return &CancelOperator{} },
		KindReportPlacements:  func() Command { return &ReportPlacements{} },
		KindUpdateChangefeed:  func() Command { return &UpdateChangefeed{} },
		KindAdmitMany:         func() Command { return &AdmitMany{} },
		KindStartDrain:        func() Command { return &StartDrain{} },
		KindClearDrain:        func() Command { return &ClearDrain{} },
		KindConfirmDrain:      func() Command { return &ConfirmDrain{} },
		KindReportBarrier:     func() Command { return &ReportBarrier{} },
		KindDecideBarrier:     func() Command { return &DecideBarrier{} },
		KindAdvanceCheckpoint: func() Command { return &AdvanceCheckpoint{} },
	}
}

// Proposal is a command with what its proposer stamps on it.
type Proposal struct {
	// Term is the Raft term of the server that calls Raft; stamped there, never by a forwarder.
	Term uint64
	// Level is the feature level that the command needs; zero means 1.
	Level uint32
	// Request names the client's request for all its retries; empty means not remembered.
	Request RequestID
	// RequestTimeMS is the log time at which the client first built the request; any answer tells the time.
	RequestTimeMS uint64
	// WallMS is the proposer's wall clock in Unix milliseconds; for display only, nothing is decided by it.
	WallMS int64
	// By says who asked, for display: a user, "scheduler", "leader".
	By string
	// Command is the change itself.
	Command Command
}

// Entry is one log entry: a batch of proposals that were waiting together.
type Entry struct {
	Index, Term uint64
	Proposals   []Proposal
}

// BeginTerm opens a leader's term; it is its first entry. It is accepted whatever term the state holds, since a restored
// state may hold a higher one; every later command must equal it.
type BeginTerm struct {
	Server ServerID
}

// GenerationWhy says what started a generation.
type GenerationWhy uint8

// The reasons for a new generation. (Restore and recovery come with their features.)
const (
	GenerationBootstrap GenerationWhy = iota + 1
)

// BeginGeneration starts the life of a cluster: its tokens are above those of every earlier life.
type BeginGeneration struct {
	Generation Generation // minutes of wall clock
	Cluster    string     // the cluster id that every RPC and every fence row carries
	Why        GenerationWhy
}

// AnnounceServer tells where a server can be called and what it understands.
type AnnounceServer struct {
	Server       ServerID
	Address      string // gRPC address
	HighestLevel uint32
}

// SetFeatureLevel raises what may be in the log; refused unless every announced server understands it.
type SetFeatureLevel struct {
	Level uint32
}

// SetPolicy replaces the replicated limits.
type SetPolicy struct {
	Policy Policy
}

// Tick is the leader's pulse: time that has passed, and the incarnations heard since the last tick.
type Tick struct {
	// ElapsedMS is the leader's time since its last tick; bounded by Apply, and ignored in the first tick of a term.
	ElapsedMS uint32
	// Base is the incarnation of bit 0; bit i of byte i/8 names Base+i.
	Base Incarnation
	Bits []byte
}

// RegisterNode starts an incarnation of a node. It counts as the incarnation's first tick.
type RegisterNode struct {
	Node    NodeName
	Address string // display only
	// LeaseMS is the lease that the node will use; the wait before its work is given away is computed from this record.
	LeaseMS uint32
	// ClockClass names the drift bound of the clocks that the node reads.
	ClockClass uint8
	Protocol   uint32
	// BootID, LockDevice and LockInode identify the host's boot and the node's lock file.
	BootID                string
	LockDevice, LockInode uint64
}

// PlacementPosition is a placement and how far it came.
type PlacementPosition struct {
	Dispatcher  DispatcherID
	Epoch       Epoch
	HasPosition bool
	Position    Position
}

// Goodbye says that nothing of the incarnation can start any more and that its sinks have returned: stopped of
// everything. It fences the incarnation.
type Goodbye struct {
	Node        NodeName
	Incarnation Incarnation
	Stopped     []PlacementPosition
}

// FenceNode ends an incarnation's acks: no later tick names it, so it pauses at its deadline and is expired.
type FenceNode struct {
	Node        NodeName
	Incarnation Incarnation // zero: the live one
	Why         string
}

// ExpireNode gives an incarnation's work away. It is a compare-and-set on the last tick that named it.
type ExpireNode struct {
	Node        NodeName
	Incarnation Incarnation
	ExpectTick  uint64 // log index
}

// TableSpec asks for a table, whole or pre-split.
type TableSpec struct {
	Schema, Name string
	// SplitKeys are the inner bounds of the spans, strictly ascending; none means one span.
	SplitKeys []string
}

// CreateChangefeed starts a replication job. Its dispatchers are born absent.
type CreateChangefeed struct {
	Name, Source, Sink string
	// SinkFenced and SinkMaxWriteMS are the sink's promises: token checks, or its longest write.
	SinkFenced     bool
	SinkMaxWriteMS uint32
	Start          Position
	// Tables may be empty: they come with AddTables or with the source's events.
	Tables []TableSpec
	// SyncPointEvery is the distance of sync points in units of ts: one at each multiple above the start. Zero: none.
	SyncPointEvery uint64
}

// PauseChangefeed stops every dispatcher of a changefeed and keeps its state.
type PauseChangefeed struct{ Name string }

// ResumeChangefeed lets the dispatchers of a paused or failed changefeed be placed again, from where they stand.
type ResumeChangefeed struct {
	Name string
	// HasFrom: go on from From, which is not above the watermark. Below it, which repeats what was done, Force is
	// needed, and a new run starts.
	HasFrom bool
	From    Position
	Force   bool
}

// UpdateChangefeed changes settings of a paused or failed changefeed whose dispatchers have all stopped.
type UpdateChangefeed struct {
	Name string
	// Source replaces the source's URI, unless empty.
	Source string
	// HasSyncPoints: SyncPointEvery replaces the distance of sync points.
	HasSyncPoints  bool
	SyncPointEvery uint64
}

// RemoveChangefeed drops everything of a changefeed; its name is free when the last removal has ended.
type RemoveChangefeed struct{ Name string }

// AddTables adds tables to a changefeed, starting at Start; a zero Start means as early as they may: at the watermark, or
// after the newest event that was allowed to be written.
type AddTables struct {
	Changefeed string
	Start      Position
	Tables     []TableSpec
}

// TableRef names a table of a changefeed.
type TableRef struct{ Schema, Name string }

// DropTables takes tables out of a changefeed.
type DropTables struct {
	Changefeed string
	Tables     []TableRef
}

// OperatorKind says what an operator does.
type OperatorKind uint8

// The kinds of operators.
const (
	OpAdd OperatorKind = iota + 1
	OpMove
	OpRemove
	OpStop // by a pause; users cannot ask for it
	OpSplit
	OpMerge
)

// AdmitOperator asks for an operator on one dispatcher, or, for a Merge, on several.
type AdmitOperator struct {
	Op OperatorKind
	// Dispatcher is zero for a Merge.
	Dispatcher DispatcherID
	// From is the owner that a Move expects; empty: the dispatcher must be absent (the Move acts as an Add). FromAny
	// accepts whichever node owns it.
	From    NodeName
	FromAny bool
	// To is the destination of an Add or a Move; it is bound to the node's live incarnation at admission.
	To NodeName
	// ExpectEpoch, if not zero, must equal the epoch of the current placement; for a Merge that of the first source.
	ExpectEpoch Epoch
	// Spans, of a Split, tile the dispatcher's span, in key order. Targets is empty, or names a node (or none, by an empty
	// name) for each of them: where the child is added if the node can take work at that moment.
	Spans   []Span
	Targets []NodeName
	// Sources, of a Merge, are adjacent dispatchers of one table, in any order.
	Sources []DispatcherID
}

// AdmitMany asks for several operators in one entry. Each has its own verdict; with AllOrNothing either all are admitted
// or none.
type AdmitMany struct {
	Items        []AdmitOperator
	AllOrNothing bool
}

// StartDrain takes a node's work away step by step and gives it no new one. It belongs to the node's name, whatever
// becomes of its process, until ClearDrain.
type StartDrain struct{ Node NodeName }

// ClearDrain ends a drain.
type ClearDrain struct{ Node NodeName }

// ConfirmDrain says that the current incarnation itself has told that it holds nothing.
type ConfirmDrain struct {
	Node        NodeName
	Incarnation Incarnation
}

// ReportBarrier carries what one node says of events, one entry for all of it.
type ReportBarrier struct {
	Node        NodeName
	Incarnation Incarnation
	Reports     []BarrierReport
}

// DecideBarrier ends a barrier whose last holder did not know whether it wrote, or skips a sync point. Permission is the
// number of the last permission, so that a decision made on older facts is refused.
type DecideBarrier struct {
	Key        BarrierKey
	Permission uint64
	Decision   BarrierDecision
}

// NodeMinimum is how far the dispatchers of one changefeed in one node's set have come: the least of them.
type NodeMinimum struct {
	Incarnation Incarnation
	// SetHash is the sum of PairHash over the set that the minimum is about.
	SetHash uint64
	Minimum Position
}

// AdvanceCheckpoint raises a changefeed's watermark. Apply checks it against its own state: what runs must be covered by
// its node's minimum over exactly the set that the state knows; what does not run, and open barriers, bound it by their
// stored positions.
type AdvanceCheckpoint struct {
	Changefeed ChangefeedID
	Run        uint64
	To         Position
	Nodes      []NodeMinimum // by incarnation, strictly ascending
}

// CancelOperator stops one operator, never whatever else is in the slot.
type CancelOperator struct {
	Op OpID
}

// ReportKind says what a node saw of a placement.
type ReportKind uint8

// The kinds of placement reports.
const (
	ReportRunning ReportKind = iota + 1
	ReportStopped
	ReportStartFailed
)

// PlacementReport is one node's word about one placement. Stopped and start failed carry the proof that nothing can
// write under the epoch any more: the constructor and the sink have returned.
type PlacementReport struct {
	PlacementPosition
	What ReportKind
	// Fatal: placing the dispatcher anew cannot help, so the whole changefeed stops with the reason.
	Fatal  bool
	Reason string // stable reason code of a failure, empty for none
	Detail string // sentence for people
}

// ReportPlacements carries the state changes of one node, one entry for all of them.
type ReportPlacements struct {
	Node        NodeName
	Incarnation Incarnation
	Reports     []PlacementReport
}
