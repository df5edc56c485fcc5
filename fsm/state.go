package fsm

import (
	"cmp"

	"github.com/weir-project/weir/fsm/internal/wire"
)

// State is the state machine. It is not safe for concurrent use: one goroutine applies, and others read views.
type State struct {
	data
	metaDigest Digest // the meta row's share of the hash
	trace      func(Cell)
	// dirty are the open barriers that the command being applied may have moved on.
	dirty []BarrierKey
}

// View is a snapshot of the state: taken in O(1), never changing, safe for any number of readers.
type View struct{ data }

// data is the state and everything that can be read from it.
type data struct {
	meta Meta
	hash hasher

	// Rows: what snapshots hold and the hash covers.
	servers     rowset[Server]
	nodes       rowset[Node]
	changefeeds rowset[Changefeed]
	tables      rowset[Table]
	dispatchers dispatcherSet
	operators   rowset[Operator] // running: exactly those in slots
	finished    rowset[Operator]
	requests    rowset[Request]
	history     rowset[PlacementRecord]
	barriers    rowset[Barrier] // open
	records     rowset[Barrier] // ended

	derived
}

// derived holds the secondary indexes. Each equals a recomputation from the rows, which CheckInvariants makes; they are
// neither in snapshots nor in the hash.
type derived struct {
	nodeOf   lookup[Incarnation, NodeName]
	gone     lookup[Incarnation, NodeName] // nodes whose newest incarnation has ended
	feeds    lookup[string, ChangefeedID]
	targets  lookup[string, TableID] // downstream table -> the live table that replicates into it
	tablesOf pairs                   // changefeed -> tables
	spans    spanIndex               // table -> dispatchers in key order
	loads    lookup[Incarnation, Load]
	placed   pairs                       // incarnation -> dispatchers in any phase but absent
	pending  pairs                       // incarnation -> dispatchers in Starting or Stopping
	absent   pairs                       // changefeed -> absent dispatchers
	crews    crews                       // changefeed, incarnation -> what heartbeats must name
	quiet    quiet                       // changefeed -> dispatchers that no node's minimum covers
	waiting  pairs                       // incarnation -> dispatchers that wait at a barrier
	tallies  tallies                     // open barrier -> how far those concerned are
	bound    pairs                       // destination incarnation -> running operators
	incoming lookup[Incarnation, uint32] // moves whose origin has not stopped
	removals rangeIndex                  // ranges that a removal holds
	due      pairs                       // deadline -> running operators that are not stuck
	ended    pairs                       // entry of the end -> finished operators
	answers  lookup[uint64, RequestID]
	past     lookup[uint64, recordKey]  // order of ends -> history
	over     lookup[uint64, BarrierKey] // order of ends -> barrier records
}

// Load is what one incarnation carries.
type Load struct {
	// Placements counts its placements in any phase but absent.
	Placements uint32
	// Set counts those that have been running, SetHash is the sum of their PairHash: what its heartbeats must name.
	Set     uint32
	SetHash uint64
}

type recordKey struct {
	dispatcher DispatcherID
	epoch      Epoch
}

func lessRecord(a, b PlacementRecord) bool {
	return cmp.Or(cmp.Compare(a.Dispatcher, b.Dispatcher), cmp.Compare(a.Epoch, b.Epoch)) < 0
}

// New is the state before the first entry.
func New() *State {
	s := &State{data: newData()}
	s.meta = Meta{Level: 1, Policy: DefaultPolicy()}
	s.sealMeta()
	return s
}

func newData() data {
	return data{
		servers:     newRowset(SectionServers, func(a, b Server) bool { return a.ID < b.ID }, (*Server).code),
		nodes:       newRowset(SectionNodes, func(a, b Node) bool { return a.Name < b.Name }, (*Node).code),
		changefeeds: newRowset(SectionChangefeeds, func(a, b Changefeed) bool { return a.ID < b.ID }, (*Changefeed).code),
		tables:      newRowset(SectionTables, func(a, b Table) bool { return a.ID < b.ID }, (*Table).code),
		dispatchers: dispatcherSet{scratch: new(Dispatcher)},
		operators:   newRowset(SectionOperators, func(a, b Operator) bool { return a.ID < b.ID }, (*Operator).code),
		finished:    newRowset(SectionFinished, func(a, b Operator) bool { return a.ID < b.ID }, (*Operator).code),
		requests:    newRowset(SectionRequests, func(a, b Request) bool { return a.ID < b.ID }, (*Request).code),
		history:     newRowset(SectionHistory, lessRecord, (*PlacementRecord).code),
		barriers:    newRowset(SectionBarriers, lessBarrier, (*Barrier).code),
		records:     newRowset(SectionBarrierRecords, lessBarrier, (*Barrier).code),
		derived:     newDerived(),
	}
}

func newDerived() derived {
	return derived{
		nodeOf: newLookup[Incarnation, NodeName](), gone: newLookup[Incarnation, NodeName](),
		feeds: newLookup[string, ChangefeedID](), targets: newLookup[string, TableID](), tablesOf: newPairs(),
		spans: newSpanIndex(), loads: newLookup[Incarnation, Load](), placed: newPairs(), pending: newPairs(),
		absent: newPairs(), crews: newCrews(), quiet: newQuiet(), waiting: newPairs(), tallies: newTallies(), due: newPairs(), bound: newPairs(), incoming: newLookup[Incarnation, uint32](), removals: newRangeIndex(), ended: newPairs(),
		answers: newLookup[uint64, RequestID](), past: newLookup[uint64, recordKey](),
		over: newLookup[uint64, BarrierKey](),
	}
}

// View returns a snapshot in O(1). The state goes on; the view stays.
func (s *State) View() *View { return &View{data: s.cloneData()} }

func (d *data) cloneData() data {
	return data{
		meta: d.meta, hash: hasher{sum: d.hash.sum},
		servers: d.servers.clone(), nodes: d.nodes.clone(), changefeeds: d.changefeeds.clone(), tables: d.tables.clone(),
		dispatchers: d.dispatchers.clone(), operators: d.operators.clone(), finished: d.finished.clone(),
		requests: d.requests.clone(), history: d.history.clone(), barriers: d.barriers.clone(), records: d.records.clone(),
		derived: d.cloneDerived(),
	}
}

func (d *derived) cloneDerived() derived {
	return derived{
		nodeOf: d.nodeOf.clone(), gone: d.gone.clone(), feeds: d.feeds.clone(), targets: d.targets.clone(),
		tablesOf: d.tablesOf.clone(), spans: d.spans.clone(), loads: d.loads.clone(), placed: d.placed.clone(),
		pending: d.pending.clone(), absent: d.absent.clone(), bound: d.bound.clone(), incoming: d.incoming.clone(), removals: d.removals.clone(),
		ended: d.ended.clone(), answers: d.answers.clone(), past: d.past.clone(), over: d.over.clone(),
		crews: d.crews.clone(), quiet: d.quiet.clone(), waiting: d.waiting.clone(), tallies: d.tallies.clone(), due: d.due.clone(),
	}
}

func lessBarrier(a, b Barrier) bool { return compareKeys(a.Key, b.Key) < 0 }

// ownScratch gives a copy buffers of its own.
func (d *data) ownScratch() {
	d.servers.scratch, d.nodes.scratch, d.changefeeds.scratch = new(Server), new(Node), new(Changefeed)
	d.tables.scratch, d.dispatchers.scratch = new(Table), new(Dispatcher)
	d.operators.scratch, d.finished.scratch = new(Operator), new(Operator)
	d.requests.scratch, d.history.scratch = new(Request), new(PlacementRecord)
	d.barriers.scratch, d.records.scratch = new(Barrier), new(Barrier)
	d.hash.coder = wire.Coder{}
}

// sealMeta brings the meta row's share of the hash up to date.
func (s *State) sealMeta() {
	now := s.digestMeta()
	s.hash.sum.sub(s.metaDigest)
	s.hash.sum.add(now)
	s.metaDigest = now
}

func (s *State) digestMeta() Digest {
	s.hash.coder.Reset()
	s.meta.code(&s.hash.coder)
	return digestOf(uint8(SectionMeta), s.hash.coder.Bytes())
}
