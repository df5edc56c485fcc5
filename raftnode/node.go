package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
)

// Node is one server's part in the cluster. Its methods are safe for concurrent use.
type Node struct {
	cfg     Config
	log     hclog.Logger
	raft    *raft.Raft
	machine *machine
	latch   *faultLatch
	known   *registry

	transport *transport
	stable    *stableStore
	snaps     *snapshotStore
	guard     *diskGuard
	release   func() error // closes the stores

	archive    archive       // earlier states
	rebuilding chan struct{} // has room for whoever rebuilds one

	proposer *proposer
	gate     *readGate
	lead     *leadership
	learnt   chan string                   // the cluster id, once, when the log names it
	contact  atomic.Pointer[clock.Reading] // when an entry of this server was last known to be committed

	stopping chan struct{} // closed when the node begins to stop
	stopOnce sync.Once
	mu       sync.Mutex
	taken    bool          // Run or Close has taken over
	finished chan struct{} // closed when everything has ended
	closeErr error
}

// Parts are the stores and the transport of a node that has no disk and no network of its own; for tests. Wire must
// support pre-vote and closing, as the library's transports do. Names of other servers are not checked.
type Parts struct {
	Wire      wire
	Logs      raft.LogStore
	Stable    raft.StableStore
	Snapshots raft.SnapshotStore
}

// Open opens the data folder and starts Raft on it: log and snapshots are verified and read, and the server begins to
// answer the others. It proposes and leads only once Run runs. When Open refuses, its error is one sentence that names
// the file or address and what to do, and everything is as it was.
func Open(cfg Config) (_ *Node, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	id, fresh, err := inspect(&cfg)
	if err != nil {
		return nil, err
	}
	var unwind closers
	defer func() {
		if err != nil {
			err = errors.Join(err, unwind.close())
		}
	}()
	conns, err := listen(&cfg)
	if err != nil {
		return nil, err
	}
	unwind.add(conns.Close)
	if fresh {
		if err := prepare(cfg.DataDir, id); err != nil {
			return nil, err
		}
	}
	d, err := openDisk(&cfg)
	if err != nil {
		return nil, err
	}
	unwind.add(d.close)
	known := &registry{dir: cfg.DataDir, id: id}
	conns.start(known)
	tcp := newTCP(&cfg, conns)
	unwind.add(tcp.Close)
	n, err := start(cfg, known, Parts{Wire: tcp, Logs: d.bolt, Stable: d.bolt, Snapshots: d.snaps})
	if err != nil {
		return nil, d.explain(err)
	}
	n.release = d.close
	return n, nil
}

// OpenWith starts a node on stores and a transport that the caller owns; the node closes the transport, not the stores.
func OpenWith(cfg Config, parts Parts) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validateCommon(); err != nil {
		return nil, err
	}
	known := &registry{id: identity{Server: cfg.ID, Cluster: cfg.Cluster, Folder: randomID()}}
	return start(cfg, known, parts)
}

// closers undoes what was opened, the last first.
type closers struct{ list []func() error }

func (c *closers) add(f func() error) { c.list = append(c.list, f) }

func (c *closers) close() error {
	var err error
	for _, f := range slices.Backward(c.list) {
		err = errors.Join(err, f())
	}
	return err
}

const logCacheSize = 512

// start builds a node and starts Raft; on error nothing runs.
func start(cfg Config, known *registry, parts Parts) (*Node, error) {
	n := &Node{
		cfg: cfg, log: cfg.Logger, known: known, latch: newFaultLatch(), learnt: make(chan string, 1),
		stopping: make(chan struct{}), finished: make(chan struct{}), release: func() error { return nil },
		archive: archive{logs: parts.Logs, snaps: parts.Snapshots}, rebuilding: make(chan struct{}, 1),
	}
	guard := &diskGuard{latch: n.latch, clock: cfg.Clock, timers: cfg.Timers, deadline: cfg.StoreDeadline}
	store := &logStore{LogStore: parts.Logs, guard: guard, clock: cfg.Clock, appends: cfg.Appends, faults: cfg.Faults}
	logs, err := raft.NewLogCache(logCacheSize, store)
	if err != nil {
		return nil, fmt.Errorf("make the log cache: %w", err)
	}
	n.guard = guard
	n.stable = &stableStore{StableStore: parts.Stable, guard: guard, faults: cfg.Faults}
	n.snaps = &snapshotStore{SnapshotStore: parts.Snapshots}
	n.transport = &transport{wire: parts.Wire, faults: cfg.Faults}
	n.machine = newMachine(&n.cfg, known.self().Cluster, n.latch)
	n.machine.learnt = func(cluster string) { n.learnt <- cluster } // has room: a folder learns its cluster once
	n.proposer, n.gate, n.lead = newProposer(&n.cfg), newReadGate(&n.cfg), newLeadership(n)

	rc := cfg.raftConfig()
	if err := n.bootstrap(rc, logs); err != nil {
		return nil, err
	}
	if err := n.learnLog(parts.Logs); err != nil {
		return nil, err
	}
	if n.raft, err = newRaft(rc, n, logs); err != nil {
		return nil, err
	}
	n.connect()
	return n, nil
}

// connect joins the parts that need Raft.
func (n *Node) connect() {
	n.proposer.apply = n.raft.Apply
	n.proposer.leading, n.proposer.committed = n.lead.leading, n.noteCommit
	n.gate.barrier, n.gate.view = n.raft.Barrier, n.machine.View
	n.gate.leading, n.gate.confirmed = n.lead.leading, n.noteCommit
}

// bootstrap writes the first entry of a new cluster, the same one on every server, if this server has no state at all.
func (n *Node) bootstrap(rc *raft.Config, logs raft.LogStore) error {
	has, err := raft.HasExistingState(logs, n.stable, n.snaps)
	if err != nil {
		return fmt.Errorf("look for existing state: %w", err)
	}
	if !has {
		if n.known.begun() {
			return fmt.Errorf("the data folder %s has lost its log: %s", n.cfg.DataDir, repairRejoin)
		}
		if err := raft.BootstrapCluster(rc, logs, n.stable, n.snaps, n.transport, n.cfg.configuration()); err != nil {
			return fmt.Errorf("begin the log of a new cluster: %w", err)
		}
	}
	return n.known.begin()
}

// learnLog notes that the entries on disk were received before this process can know when.
func (n *Node) learnLog(logs raft.LogStore) error {
	last, err := logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the last log index: %w", err)
	}
	if n.cfg.Appends != nil && last > 0 {
		n.cfg.Appends.Learn(last, n.cfg.Clock.Now())
	}
	return nil
}

// newRaft starts the library. It runs in a goroutine of its own because the library panics over some kinds of damage, and
// because a store that cannot write ends the goroutine that asked, see [stableStore].
func newRaft(rc *raft.Config, n *Node, logs raft.LogStore) (r *raft.Raft, err error) {
	err = errors.New("start Raft: its term could not be stored")
	done := make(chan struct{})
	n.stable.running.Store(true)
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r, err = nil, fmt.Errorf("start Raft: %v", p)
			}
		}()
		r, err = raft.NewRaft(rc, n.machine, logs, n.stable, n.snaps, n.transport)
	}()
	<-done
	n.snaps.running.Store(true)
	if err == nil {
		return r, nil
	}
	if f := n.latch.get(); f != nil {
		return nil, &unreadableSnapshotError{fault: f}
	}
	return nil, fmt.Errorf("start Raft: %w", err)
}

// unreadableSnapshotError is a snapshot whose bytes are whole but which cannot be read.
type unreadableSnapshotError struct{ fault *FaultError }

// Error is the fault's sentence.
func (e *unreadableSnapshotError) Error() string { return e.fault.Error() }

// Unwrap returns the fault.
func (e *unreadableSnapshotError) Unwrap() error { return e.fault }
