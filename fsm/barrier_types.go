package fsm

import "slices"

// A barrier is one event of a changefeed that every dispatcher it concerns must reach before one of them writes it: a
// schema change, or a sync point.

// BarrierKey names a barrier. At one ts the DDL sorts before the sync point, which the stage says.
type BarrierKey struct {
	Changefeed ChangefeedID
	Run        uint64
	At         Position // with StageDDL or StageSyncPoint
}

// Valid says whether the stage is one of a barrier.
func (k BarrierKey) Valid() bool { return k.At.Stage == StageDDL || k.At.Stage == StageSyncPoint }

// Before is the position of a span that has reached the key and not passed it.
func (k BarrierKey) Before() Position { return Position{TS: k.At.TS, Stage: k.At.Stage - 1} }

// Influence says which dispatchers a barrier concerns.
type Influence uint8

// The influences.
const (
	InfluenceTables Influence = iota + 1 // those of the listed tables
	InfluenceSchema                      // those of every table of one schema
	InfluenceAll                         // all
)

// TableRename is a table that goes on under another name. For the state machine it is the old table dropped and a new
// one added with the same spans, in one apply: fence rows and resume rows belong to names.
type TableRename struct{ From, To TableRef }

// BarrierSpec says what an event concerns and what it changes. Every reporter of one key must give the same.
type BarrierSpec struct {
	Influence Influence
	Tables    []TableRef // for InfluenceTables
	Schema    string     // for InfluenceSchema
	// Schedule effects, applied when the event has been written: the tables to drop and to rename lie inside the
	// influence.
	Drop   []TableRef
	Add    []TableSpec
	Rename []TableRename
	// Trigger: the changefeed's trigger takes part and writes, also without schedule effects.
	Trigger bool
	// Statement is the event in words; nothing is decided by it, but all reporters must give the same.
	Statement string
}

// HasEffects says whether writing the event changes what is replicated.
func (s *BarrierSpec) HasEffects() bool { return len(s.Drop)+len(s.Add)+len(s.Rename) > 0 }

// TriggerTakesPart says whether the changefeed's trigger is a participant, and so the writer: of every event with
// schedule effects, and of every one that concerns more than listed tables.
func (s *BarrierSpec) TriggerTakesPart() bool {
	return s.Trigger || s.HasEffects() || s.Influence != InfluenceTables
}

// Equal says whether two reporters mean the same event.
func (s *BarrierSpec) Equal(o *BarrierSpec) bool {
	return s.Influence == o.Influence && s.Schema == o.Schema && s.Trigger == o.Trigger && s.Statement == o.Statement &&
		slices.Equal(s.Tables, o.Tables) && slices.Equal(s.Drop, o.Drop) && slices.Equal(s.Rename, o.Rename) &&
		slices.EqualFunc(s.Add, o.Add, func(a, b TableSpec) bool {
			return a.Schema == b.Schema && a.Name == b.Name && slices.Equal(a.SplitKeys, b.SplitKeys)
		})
}

// SyncPointSpec is the spec of every sync point.
func SyncPointSpec() BarrierSpec { return BarrierSpec{Influence: InfluenceAll} }

// BarrierSaid is what a node says of an event.
type BarrierSaid uint8

// What a node can say. Waiting: everything before the key is downstream and the dispatcher stands. Written, not begun
// and unknown are words of the holder of a write permission, passed of everybody else.
const (
	SaidWaiting BarrierSaid = iota + 1
	SaidWritten
	SaidPassed
	SaidNotBegun
	SaidUnknown
)

// Pair names a placement.
type Pair struct {
	Dispatcher DispatcherID
	Epoch      Epoch
}

// BarrierReport is one node's word about one event, for some of its placements or for all of a changefeed at once.
type BarrierReport struct {
	Key  BarrierKey
	What BarrierSaid
	// Pairs names the placements, unless All is set.
	Pairs []Pair
	// All: every dispatcher of the changefeed in the node's set, except those listed and the trigger. SetHash is the
	// sum of PairHash over the whole set of this changefeed, trigger and exceptions included; a report whose hash is
	// not the state's is refused, and the node lists its pairs instead.
	All     bool
	SetHash uint64
	Except  []DispatcherID
	// Permission is the number of the write permission that written, not begun and unknown are about.
	Permission uint64
	// Earlier is, in a trigger's waiting, the key of its event before this one, or where it started.
	Earlier Position
	// Spec is set in waiting.
	Spec BarrierSpec
}

// BarrierStatus says where an open barrier stands.
type BarrierStatus uint8

// The states of a barrier.
const (
	BarrierCollecting BarrierStatus = iota + 1 // not everybody has reached the key
	BarrierInWriting                           // a write permission is live
	BarrierPassing                             // written (or skipped); not everybody has passed
	BarrierUndecided                           // the holder ended without knowing whether it wrote; an operator decides
	BarrierEnded
)

// BarrierResult says how a barrier ended.
type BarrierResult uint8

// The results; zero while it is open and unwritten.
const (
	BarrierWritten BarrierResult = iota + 1
	BarrierSkipped               // by a decision; sync points only
	BarrierVoid                  // everybody it concerned has gone, or its run has
)

// BarrierAction is what a node must do about an event.
type BarrierAction uint8

// The actions.
const (
	ActionWrite BarrierAction = iota + 1
	ActionPass
)

// BarrierOrder is what one node should do about one event. Like orders it is derived from state and repeated.
type BarrierOrder struct {
	Key    BarrierKey
	Action BarrierAction
	// Permission is the number of the write permission.
	Permission uint64
	// Pairs names the placements that are meant: the writer, or those that pass.
	Pairs []Pair
	// All: every placement that waits at the key passes, if the node's set of the changefeed has SetHash.
	All     bool
	SetHash uint64
	// Tables are, for a write, those of the influence and of the effects that the changefeed replicates.
	Tables []TableRef
}

// BarrierDecision ends what only a person can decide.
type BarrierDecision uint8

// The decisions.
const (
	DecideWritten    BarrierDecision = iota + 1 // the event is downstream
	DecideWriteAgain                            // it is not, or repeating it is harmless
	DecideSkip                                  // sync points only
)
