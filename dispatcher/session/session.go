// Package session names the messages between a node and the leader.
//
// One bidirectional stream a node carries heartbeats, reports, acknowledgements and orders, so that liveness is proved
// by the path that the work uses. The package holds plain values and the two ends of a stream; it knows neither gRPC
// nor what either side does with a message.
package session

import (
	"github.com/weir-project/weir/fsm"
)

// Protocol is the version of these messages; it travels in a node's registration and in Hello.
const Protocol = 1

// Hello opens a session.
type Hello struct {
	Cluster     string
	Node        fsm.NodeName
	Incarnation fsm.Incarnation
	Protocol    uint32
}

// Heartbeat says that a node is alive and in what state it is. One a node, never one a dispatcher.
type Heartbeat struct {
	// Seq numbers the heartbeats of an incarnation from 1, across sessions. The node remembers when it sent each.
	Seq uint64
	// GateOpen: writes are allowed right now. GateReason says why not.
	GateOpen   bool
	GateReason string
	// NewestAck is the highest Seq whose ack has come; 0 for none.
	NewestAck uint64
	// OrdersTerm and OrdersIndex are those of the newest orders that have been carried out as far as the node can.
	OrdersTerm, OrdersIndex uint64
	// SetHash is the sum of fsm.PairHash over the dispatchers from the ack of their "running" to the ack of their
	// "stopped"; Dispatchers counts them.
	SetHash     uint64
	Dispatchers uint32
	// HighestGeneration is the highest token generation the node has seen anywhere.
	HighestGeneration fsm.Generation
	// Progress tells how far dispatchers are: those that have moved since the last heartbeat, bounded in number.
	Progress []Progress
	// Crews tells, for each changefeed of which the set holds a dispatcher, how far the slowest of them has come.
	Crews []Crew
}

// Crew is the part of a node's set that belongs to one changefeed.
type Crew struct {
	Changefeed fsm.ChangefeedID
	// SetHash is the sum of fsm.PairHash over it.
	SetHash uint64
	// Minimum is the least position of its dispatchers, each with its last checkpoint as long as it is in the set. One
	// that waits at an event counts as just before it until its written or passed has been acknowledged.
	Minimum fsm.Position
}

// Progress is soft state: how far one dispatcher has come.
type Progress struct {
	Dispatcher fsm.DispatcherID
	Epoch      fsm.Epoch
	Position   fsm.Position
	// LagMS is how far the newest written commit lies behind the node's wall clock; -1 if unknown.
	LagMS int64
	// Rows counts rows written under this epoch, Idle says that the source's end has been reached.
	Rows uint64
	Idle bool
}

// Report carries state changes of placements; repeated until acknowledged.
type Report struct {
	Reports []fsm.PlacementReport
}

// BarrierReport carries what the node says of events; each is repeated until it is answered. Seq numbers messages of a
// session, so that an answer can name them.
type BarrierReport struct {
	Seq     uint64
	Reports []fsm.BarrierReport
}

// Pair names a placement as a node sees it.
type Pair = fsm.Pair

// List is everything that the node holds, in any state; sent when asked.
type List struct {
	Pairs []Pair
}

// FromNode is a message of a node; exactly one field is set.
type FromNode struct {
	Hello     *Hello
	Heartbeat *Heartbeat
	Report    *Report
	Barrier   *BarrierReport
	List      *List
}

// Ack releases one heartbeat: a tick that names it has been applied and accepted.
type Ack struct {
	Seq uint64
	// Term is the leader's; a node ignores acks of a term below one that it has seen.
	Term uint64
	// Index is the tick's.
	Index uint64
	// ElapsedNS is the leader's clock since it captured the heartbeat of its previous ack to this incarnation, measured
	// at the capture of this one; 0 for the first of a session. It shows a node that its clock stood still.
	ElapsedNS uint64
}

// Orders carries what the node has to do, with the state that it follows from.
type Orders struct {
	Term, Index uint64
	Orders      []fsm.Order
	// Barriers are what the node has to do about events.
	Barriers []fsm.BarrierOrder
	// More says that further orders of this state follow in another message.
	More bool
}

// ReportAck answers reports: applied at Index, or known to be without effect there.
type ReportAck struct {
	Term, Index uint64
	Pairs       []ReportedPair
}

// ReportedPair is a report that has been dealt with.
type ReportedPair struct {
	Pair
	What fsm.ReportKind
}

// BarrierAnswer answers a BarrierReport: applied at Index, or known there to change nothing. Answers has one reason for
// each pair of each report in order, or one for a report about all: see fsm.Verdict.
type BarrierAnswer struct {
	Term, Index uint64
	Seq         uint64
	Answers     []fsm.Reason
}

// AskBarriers asks for everything that the node has to say about an event, again: somebody is missing there.
type AskBarriers struct{ Key fsm.BarrierKey }

// AskList asks for a List: the set hashes have differed for a while.
type AskList struct{}

// Close ends the session with a reason code and a sentence: NOT_LEADER, STALE_INCARNATION, STALE_SERVER, WRONG_CLUSTER,
// GENERATION_TOO_OLD, SERVER_STOPPING.
type Close struct {
	Reason, Text string
	// Leader is the gRPC address of the leader, if known.
	Leader string
}

// FromLeader is a message of the leader; exactly one field is set.
type FromLeader struct {
	Ack         *Ack
	Orders      *Orders
	ReportAck   *ReportAck
	Barrier     *BarrierAnswer
	AskBarriers *AskBarriers
	AskList     *AskList
	Close       *Close
}

// NodeStream is the node's end. Send may be called while Recv runs; neither concurrently with itself. Both fail for
// good once the stream is broken.
type NodeStream interface {
	Send(FromNode) error
	Recv() (FromLeader, error)
	// Close breaks the stream without waiting for the other side.
	Close()
}

// LeaderStream is the leader's end, with the same rules as NodeStream.
type LeaderStream interface {
	Send(FromLeader) error
	Recv() (FromNode, error)
}

// Registration asks for an incarnation.
type Registration struct {
	Cluster               string // empty: whatever the servers have
	Node                  fsm.NodeName
	Address               string
	LeaseMS               uint32
	ClockClass            uint8
	Protocol              uint32
	BootID                string
	LockDevice, LockInode uint64
	HighestGeneration     fsm.Generation
}

// Registered is the answer: the incarnation, and the lease that it must use.
type Registered struct {
	Cluster     string
	Incarnation fsm.Incarnation
	LeaseMS     uint32
	Index, Term uint64
	// TickMS and HeartbeatMS are the cluster's periods.
	TickMS, HeartbeatMS uint32
}
