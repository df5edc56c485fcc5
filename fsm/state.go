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
	servers     rowset[ServerID, Server]
	nodes       rowset[NodeName, Node]
	changefeeds rowset[ChangefeedID, Changefeed]
	tables      rowset[TableID, Table]
	dispatchers dispatcherSet
	operators   rowset[OpID, Operator] // running: exactly those in slots
	finished    rowset[OpID, Operator]
	requests    rowset[RequestID, Request]
	history     rowset[recordKey, PlacementRecord]
	barriers    rowset[BarrierKey, Barrier] // open
	records     rowset[BarrierKey, Barrier] // ended

	derived
}

// derived holds the secondary indexes. Each equals a recomputation from the rows, which CheckInvariants makes; they are
// neither in snapshots nor in the hash.
type derived struct {
	nodeOf   lookup[Incarnation, NodeName]
	gone     lookup[Incarnation, NodeName] // nodes whose newest incarnation has ended
	feeds    lookup[string, ChangefeedID]
	targets  lookup[target, TableID] // downstream table -> the live table that replicates into it
	titles   lookup[TableID, string] // schema.name, made once
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

func compareRecords(x, y recordKey) int {
	return cmp.Or(cmp.Compare(x.dispatcher, y.dispatcher), cmp.Compare(x.epoch, y.epoch))
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
		servers:     newRowset(SectionServers, cmp.Compare[ServerID], func(r Server) ServerID { return r.ID }, (*Server).code),
		nodes:       newRowset(SectionNodes, cmp.Compare[NodeName], func(r Node) NodeName { return r.Name }, (*Node).code),
		changefeeds: newRowset(SectionChangefeeds, cmp.Compare[ChangefeedID], func(r Changefeed) ChangefeedID { return r.ID }, (*Changefeed).code),
		tables:      newRowset(SectionTables, cmp.Compare[TableID], func(r Table) TableID { return r.ID }, (*Table).code),
		dispatchers: dispatcherSet{scratch: new(Dispatcher)},
		operators:   newRowset(SectionOperators, cmp.Compare[OpID], func(r Operator) OpID { return r.ID }, (*Operator).code),
		finished:    newRowset(SectionFinished, cmp.Compare[OpID], func(r Operator) OpID { return r.ID }, (*Operator).code),
		requests:    newRowset(SectionRequests, cmp.Compare[RequestID], func(r Request) RequestID { return r.ID }, (*Request).code),
		history:     newRowset(SectionHistory, compareRecords, func(r PlacementRecord) recordKey { return recordKey{r.Dispatcher, r.Epoch} }, (*PlacementRecord).code),
		barriers:    newRowset(SectionBarriers, compareKeys, func(r Barrier) BarrierKey { return r.Key }, (*Barrier).code),
		records:     newRowset(SectionBarrierRecords, compareKeys, func(r Barrier) BarrierKey { return r.Key }, (*Barrier).code),
		derived:     newDerived(),
	}
}

func newDerived() derived {
	return derived{
		nodeOf: newLookup[Incarnation, NodeName](cmp.Compare[Incarnation]),
		gone:   newLookup[Incarnation, NodeName](cmp.Compare[Incarnation]),
		feeds:  newLookup[string, ChangefeedID](cmp.Compare[string]), targets: newLookup[target, TableID](compareTargets),
		titles: newLookup[TableID, string](cmp.Compare[TableID]), tablesOf: newPairs(), spans: newSpanIndex(),
		loads: newLookup[Incarnation, Load](cmp.Compare[Incarnation]), placed: newPairs(), pending: newPairs(),
		absent: newPairs(), crews: newCrews(), quiet: newQuiet(), waiting: newPairs(), tallies: newTallies(), bound: newPairs(),
		incoming: newLookup[Incarnation, uint32](cmp.Compare[Incarnation]), removals: newRangeIndex(), due: newPairs(),
		ended: newPairs(), answers: newLookup[uint64, RequestID](cmp.Compare[uint64]),
		past: newLookup[uint64, recordKey](cmp.Compare[uint64]), over: newLookup[uint64, BarrierKey](cmp.Compare[uint64]),
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
		nodeOf: d.nodeOf.clone(), gone: d.gone.clone(), feeds: d.feeds.clone(), targets: d.targets.clone(), titles: d.titles.clone(),
		tablesOf: d.tablesOf.clone(), spans: d.spans.clone(), loads: d.loads.clone(), placed: d.placed.clone(),
		pending: d.pending.clone(), absent: d.absent.clone(), bound: d.bound.clone(), incoming: d.incoming.clone(), removals: d.removals.clone(),
		ended: d.ended.clone(), answers: d.answers.clone(), past: d.past.clone(), over: d.over.clone(),
		crews: d.crews.clone(), quiet: d.quiet.clone(), waiting: d.waiting.clone(), tallies: d.tallies.clone(), due: d.due.clone(),
	}
}

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
