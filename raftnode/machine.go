package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// AppendObserver is told when this server process received log entries; [fence.Appends] is one.
type AppendObserver interface {
	// NoteAppends notes that entries first..last were received at at, for the first time or again.
	NoteAppends(first, last uint64, at clock.Reading)
	// Learn notes that all entries up to index came by other means: from disk at the start, or in a snapshot.
	Learn(index uint64, at clock.Reading)
}

// machine is the state machine as Raft sees it: it decodes, applies and publishes.
type machine struct {
	clock   clock.Clock
	appends AppendObserver
	latch   *faultLatch
	faults  *FaultHooks
	// cluster is the id that the data folder belongs to, empty while unknown. learnt is told when the log names it.
	cluster string
	learnt  func(cluster string)

	mu      sync.Mutex
	state   *fsm.State
	view    *fsm.View // of state; nil until somebody asks
	applied uint64    // every entry up to here is in state
	hashes  hashRing
	changed chan struct{} // closed at the next change; nil while nobody waits
}

func newMachine(cfg *Config, cluster string, latch *faultLatch) *machine {
	m := &machine{
		clock: cfg.Clock, appends: cfg.Appends, latch: latch, faults: cfg.Faults, cluster: cluster,
		state: fsm.New(), hashes: newHashRing(),
	}
	m.hashes.put(0, m.state.Hash())
	return m
}

// answer is what Apply returns through Raft's future: verdicts, or the fault that ended the server.
type answer struct {
	verdicts []fsm.Verdict
	fault    *FaultError
}

// Apply decodes one entry completely and applies it. After a fault it does nothing.
func (m *machine) Apply(l *raft.Log) any {
	if f := m.latch.get(); f != nil {
		return answer{fault: f}
	}
	m.faults.apply(l.Index)
	entry, err := logcodec.DecodeEntry(l.Index, l.Term, l.Data)
	if err != nil {
		return answer{fault: m.latch.report(entryFault(l, err))}
	}
	verdicts, fault := m.applyEntry(entry)
	if fault != nil {
		return answer{fault: m.latch.report(fault)}
	}
	return answer{verdicts: verdicts}
}

func entryFault(l *raft.Log, err error) *FaultError {
	f := &FaultError{
		Cause: FaultEntry, Err: err,
		What:   fmt.Sprintf("log entry %d of term %d cannot be applied by this version; nothing of it was applied", l.Index, l.Term),
		Advice: "run the version of weir that the other servers run; if they are the same, move this data folder away and add the server anew under a new id",
	}
	if _, unknown := errors.AsType[*logcodec.UnknownCommandError](err); unknown {
		f.Advice = "upgrade this server to the version of the others and start it again"
	}
	return f
}

func (m *machine) applyEntry(e fsm.Entry) (verdicts []fsm.Verdict, fault *FaultError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		// A half-applied state must never be seen: the fault is latched before the lock is released, and after it
		// nothing is published.
		if p := recover(); p != nil {
			fault = m.latch.report(&FaultError{
				Cause: FaultApply, What: fmt.Sprintf("applying log entry %d broke off: %v", e.Index, p),
				Advice: "keep the data folder and report the entry; the server will stop there again",
			})
		}
	}()
	verdicts = m.state.Apply(e)
	if fault := m.checkCluster(); fault != nil {
		return nil, m.latch.report(fault)
	}
	if level := m.state.Meta().Level; level > fsm.HighestLevel {
		return nil, m.latch.report(&FaultError{
			Cause: FaultEntry, What: fmt.Sprintf("log entry %d raises the feature level to %d, and this version understands %d", e.Index, level, fsm.HighestLevel),
			Advice: "upgrade this server to the version of the others and start it again",
		})
	}
	m.publish(e.Index)
	m.hashes.put(e.Index, m.state.Hash())
	return verdicts, nil
}

// checkCluster compares the cluster of the log with that of the data folder. Requires m.mu.
func (m *machine) checkCluster() *FaultError {
	named := m.state.Meta().Cluster
	switch {
	case named == "" || named == m.cluster:
		return nil
	case m.cluster == "":
		m.cluster = named
		if m.learnt != nil {
			m.learnt(named)
		}
		return nil
	default:
		return &FaultError{
			Cause: FaultCluster, What: fmt.Sprintf("the log belongs to cluster %s and the data folder to cluster %s", named, m.cluster),
			Advice: "start the server with the data folder and the peers of one cluster",
		}
	}
}

// publish makes the state up to index visible. Requires m.mu.
func (m *machine) publish(index uint64) {
	m.view = nil
	m.applied = max(m.applied, index)
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// StoreConfiguration moves the applied index past a membership entry; without it no snapshot can be taken until the next
// command.
func (m *machine) StoreConfiguration(index uint64, _ raft.Configuration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publish(index)
}

// Snapshot returns a view in O(1); it is written while entries go on being applied.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	view, fault := m.View()
	if fault != nil {
		return nil, fault
	}
	return &snapshot{view: view}, nil
}

// Restore reads a snapshot completely before it replaces the state; when it fails, the state is as before.
func (m *machine) Restore(r io.ReadCloser) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	if f := m.latch.get(); f != nil {
		return f
	}
	state, err := readSnapshot(r)
	if err != nil {
		return m.latch.report(&FaultError{
			Cause: FaultSnapshot, Err: err, What: "a snapshot cannot be read",
			Advice: "compare the versions of the servers; if they are the same, move this data folder away and add the server anew under a new id",
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	index := state.Meta().Index
	if m.appends != nil {
		m.appends.Learn(index, m.clock.Now())
	}
	m.state, m.applied, m.hashes = state, 0, newHashRing()
	m.publish(index)
	m.hashes.put(index, state.Hash())
	if fault := m.checkCluster(); fault != nil {
		return m.latch.report(fault)
	}
	return nil
}

// readSnapshot turns a panic of the reader into an error: a snapshot comes from disk or from another server.
func readSnapshot(r io.Reader) (s *fsm.State, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("read snapshot: %v", p)
		}
	}()
	return logcodec.ReadSnapshot(r)
}

// View returns the present state, or the fault after which there is none.
func (m *machine) View() (*fsm.View, *FaultError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.latch.get(); f != nil {
		return nil, f
	}
	if m.view == nil {
		m.view = m.state.View()
	}
	return m.view, nil
}

// Applied is the highest index that the state contains.
func (m *machine) Applied() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// HashAt returns the state hash as of index, if it is remembered.
func (m *machine) HashAt(index uint64) (fsm.Digest, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index > m.applied || m.latch.get() != nil {
		return fsm.Digest{}, false
	}
	return m.hashes.at(index)
}

// Changed returns a channel that is closed when more than what has been applied now is applied.
func (m *machine) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed
}

// snapshot is a view on its way to disk.
type snapshot struct{ view *fsm.View }

// Persist writes the view. It cancels on errors only: a cancel after success would throw the snapshot away while the log
// is cut.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := logcodec.WriteSnapshot(sink, s.view); err != nil {
		return errors.Join(fmt.Errorf("write snapshot: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release does nothing: views are garbage collected.
func (*snapshot) Release() {}
