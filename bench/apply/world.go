package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

const (
	// nodeCount is the same at every size: only the dispatchers grow.
	nodeCount  = 20
	feedName   = "orders"
	schemaName = "shop"
	// maxSpans: tables have 1 to so many spans, uniformly.
	maxSpans = 64
	term     = 1
	// buildBatch is the number of commands an entry of the set-up.
	buildBatch = 256
)

// table is a table of the changefeed, in the harness's books.
type table struct {
	name        string
	keys        []string // inner bounds
	dispatchers []fsm.DispatcherID
}

// world is a state with dispatchers on nodes, and the books that the harness keeps of it. Everything random is drawn
// from one seed.
type world struct {
	state  *fsm.State
	index  uint64
	nodes  []fsm.NodeName
	incs   []fsm.Incarnation
	tables []table
	places []place // one for each dispatcher
	rng    *rand.Rand
	made   int // tables ever made, for their names
}

// place says where in tables a dispatcher stands.
type place struct{ table, span int }

// newWorld builds n dispatchers, each running on a random node.
func newWorld(n int, seed uint64) *world {
	w := &world{state: fsm.New(), rng: rand.New(rand.NewPCG(seed, uint64(n)))} //nolint:gosec // a mix that can be played again
	w.do(&fsm.BeginTerm{Server: "s1"})
	w.do(&fsm.BeginGeneration{Generation: 1000, Cluster: "bench", Why: fsm.GenerationBootstrap})
	w.setPolicy(func(p *fsm.Policy) { p.KeepRequests, p.KeepOperators, p.KeepHistory = 1, 1, 1 })
	w.do(&fsm.Tick{})
	for i := range nodeCount {
		name := fsm.NodeName(fmt.Sprintf("worker-%02d.example", i))
		v := w.do(&fsm.RegisterNode{
			Node: name, Address: fmt.Sprintf("10.0.0.%d:7400", i), LeaseMS: 2000, ClockClass: fsm.ClockBootRaw, Protocol: 1,
			BootID: fmt.Sprintf("boot-%02d", i), LockDevice: 1, LockInode: uint64(i),
		})
		w.nodes, w.incs = append(w.nodes, name), append(w.incs, v[0].Facts.Incarnation)
	}
	w.addDispatchers(n)
	w.placeAll()
	return w
}

// setPolicy applies the default limits with a change. They are raised so far that nothing is refused at any size.
func (w *world) setPolicy(change func(*fsm.Policy)) {
	p := fsm.DefaultPolicy()
	p.MaxPlacementsPerNode = 1 << 20
	change(&p)
	w.do(&fsm.SetPolicy{Policy: p})
}

// addDispatchers adds tables until there are n dispatchers. The changefeed begins with the first table.
func (w *world) addDispatchers(n int) {
	for left := n; left > 0; {
		spans := min(left, 1+w.rng.IntN(maxSpans))
		left -= spans
		t := table{name: w.newName(), keys: w.newKeys(spans - 1)}
		specs := []fsm.TableSpec{t.spec()}
		if len(w.tables) == 0 {
			w.do(&fsm.CreateChangefeed{
				Name: feedName, Source: "wal:main", Sink: "sqlite:warehouse.db", SinkFenced: true, Start: fsm.At(1), Tables: specs,
			})
		} else {
			w.do(&fsm.AddTables{Changefeed: feedName, Start: fsm.At(1), Tables: specs})
		}
		w.learn(&t)
		for i := range t.dispatchers {
			w.places = append(w.places, place{len(w.tables), i})
		}
		w.tables = append(w.tables, t)
	}
}

func (w *world) newName() string {
	w.made++
	return fmt.Sprintf("orders_%07d", w.made)
}

// newKeys draws n ascending keys of 16 bytes.
func (w *world) newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d%012x", i, w.rng.Uint64()>>16)
	}
	return keys
}

func (t *table) spec() fsm.TableSpec {
	return fsm.TableSpec{Schema: schemaName, Name: t.name, SplitKeys: t.keys}
}

// learn notes which dispatchers the table has got.
func (w *world) learn(t *table) {
	feed, _ := w.state.Changefeed(feedName)
	row, ok := w.state.TableNamed(feed, schemaName, t.name)
	if !ok {
		panic("table " + t.name + " is not there")
	}
	t.dispatchers = nil
	for d := range w.state.DispatchersOfTable(row.ID) {
		t.dispatchers = append(t.dispatchers, d.ID)
	}
	if len(t.dispatchers) != len(t.keys)+1 {
		panic(fmt.Sprintf("table %s has %d dispatchers, want %d", t.name, len(t.dispatchers), len(t.keys)+1))
	}
}

// placeAll gives each dispatcher a random node and reports it running.
func (w *world) placeAll() {
	for first := 0; first < len(w.places); first += buildBatch {
		places := w.places[first:min(first+buildBatch, len(w.places))]
		adds := make([]fsm.Command, len(places))
		reports := make([]fsm.Command, len(places))
		for i, p := range places {
			adds[i] = w.add(w.tables[p.table].dispatchers[p.span])
		}
		w.do(adds...)
		for i, p := range places {
			reports[i] = w.report(w.tables[p.table].dispatchers[p.span], fsm.ReportRunning)
		}
		w.do(reports...)
	}
}

func (w *world) add(id fsm.DispatcherID) fsm.Command {
	return &fsm.AdmitOperator{Op: fsm.OpAdd, Dispatcher: id, To: w.nodes[w.rng.IntN(nodeCount)]}
}

// report is what the dispatcher's present node says of its present placement.
func (w *world) report(id fsm.DispatcherID, what fsm.ReportKind) fsm.Command {
	row, _ := w.state.Dispatcher(id)
	node, _ := w.state.NodeOf(row.Incarnation)
	p := fsm.PlacementPosition{Dispatcher: id, Epoch: row.Epoch}
	if what == fsm.ReportStopped {
		p.HasPosition, p.Position = true, fsm.At(w.index)
	}
	return &fsm.ReportPlacements{
		Node: node.Name, Incarnation: row.Incarnation, Reports: []fsm.PlacementReport{{PlacementPosition: p, What: what}},
	}
}

// do applies the commands as one entry; each must take effect.
func (w *world) do(commands ...fsm.Command) []fsm.Verdict {
	e := w.entry(commands)
	verdicts := w.state.Apply(e)
	mustTake(e, verdicts)
	return verdicts
}

func (w *world) entry(commands []fsm.Command) fsm.Entry {
	w.index++
	var proposals []fsm.Proposal
	for _, c := range commands {
		proposals = append(proposals, w.policy(c))
	}
	return throughBytes(w.index, proposals)
}

// throughBytes is the entry as a server reads it from its log: what the state keeps of it is its own.
func throughBytes(index uint64, proposals []fsm.Proposal) fsm.Entry {
	raw, err := logcodec.AppendEntry(nil, proposals)
	if err != nil {
		panic(err)
	}
	e, err := logcodec.DecodeEntry(index, term, raw)
	if err != nil {
		panic(err)
	}
	return e
}

// mustTake stops the measurement if a command was refused or a report did not count: it would measure something else.
func mustTake(e fsm.Entry, verdicts []fsm.Verdict) {
	for i, v := range verdicts {
		if !v.OK() {
			panic(fmt.Sprintf("entry %d: %s: %s", e.Index, e.Proposals[i].Command.Kind(), v.Sentence()))
		}
		for _, r := range v.Reports {
			if r != fsm.ReportCounted {
				panic(fmt.Sprintf("entry %d: report was answered %s", e.Index, r))
			}
		}
		if len(v.RefusedNames) > 0 {
			panic(fmt.Sprintf("entry %d: the tick named %v in vain", e.Index, v.RefusedNames))
		}
	}
}
