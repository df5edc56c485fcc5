package dispatcher

import (
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fsm"
)

// WorkerPhase is where a dispatcher on this node stands.
type WorkerPhase uint8

// The phases.
const (
	PhaseStarting WorkerPhase = iota + 1 // being built
	PhaseRunning
	PhaseClosing // over; its sink has not returned yet
)

// String is the phase's word.
func (p WorkerPhase) String() string {
	switch p {
	case PhaseStarting:
		return "starting"
	case PhaseRunning:
		return "running"
	case PhaseClosing:
		return "closing"
	default:
		return "unset"
	}
}

// WorkerStatus is one dispatcher on this node.
type WorkerStatus struct {
	Dispatcher fsm.DispatcherID
	Epoch      fsm.Epoch
	Claim      uint64 // number of the newest claim under the epoch; 0 before the first
	Changefeed string
	Table      TableName
	Span       fsm.Span
	// Trigger: it reads the changefeed's events; Table is empty.
	Trigger bool
	Phase   WorkerPhase
	// Position is up to where everything is known to be downstream and every event passed; Positioned says that the sink
	// has told.
	Position   fsm.Position
	Positioned bool
	// LagMS is how far the newest written commit lay behind the wall clock when it was written; -1 if unknown.
	LagMS int64
	Rows  uint64
	// Idle: the source's end has been reached and everything is written.
	Idle bool
	// LastError is the newest error of the sink since the last success, or why what it says of an event is not taken.
	LastError string
	// Standing says how it stands at an event, which has the key Event, the words Statement (none for a sync point), and
	// the newest permission to write it; zero for a dispatcher that moves.
	Standing   StandState
	Event      fsm.BarrierKey
	Statement  string
	Permission uint64
}

// SessionStatus is how the session with the leader stands.
type SessionStatus struct {
	Connected bool
	// LastError says how the session before ended, while there is none.
	LastError string
}

// Counters count since the start of the process.
type Counters struct {
	Sessions, Heartbeats, OrdersRefused uint64
	// Claims, Writes and Events are calls to sinks; Rows are those of accepted writes.
	Claims, Writes, Events, Rows uint64
	// Refused calls met a closed gate, Fenced ones a newer token at the sink, Unknown ones may have taken effect, Failed
	// ones did not.
	Refused, Fenced, Unknown, Failed uint64
}

// Status is a snapshot of a node.
type Status struct {
	Node fsm.NodeName
	// Incarnation is the newest; zero before the first registration.
	Incarnation fsm.Incarnation
	Lease       fence.Status
	Session     SessionStatus
	// Dispatchers are those of the newest incarnation, by id and epoch.
	Dispatchers []WorkerStatus
	// Ranges counts the key ranges that are held, those included that earlier incarnations are still closing.
	Ranges   int
	Counters Counters
}

// Status says how the node stands. It may be called at any time, also before and after Run.
func (n *Node) Status() Status {
	n.mu.Lock()
	l := n.life
	s := Status{Node: n.cfg.Node, Counters: n.counters}
	n.mu.Unlock()
	s.Ranges = n.ranges.len()
	if l == nil {
		return s
	}
	s.Incarnation, s.Lease = l.inc, l.gate.State()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Session = l.session
	for _, w := range l.sorted() {
		s.Dispatchers = append(s.Dispatchers, l.standingOf(w))
	}
	return s
}

// standingOf is a dispatcher's status with what it waits for. It needs l.mu.
func (l *life) standingOf(w *worker) WorkerStatus {
	s := w.status()
	st := l.roll.stands[w.pair]
	if st == nil {
		return s
	}
	s.Standing, s.Event, s.Statement, s.Permission = st.state, st.key, st.spec.Statement, st.permission.number
	if st.trouble != 0 {
		s.LastError = troubleText(st)
	}
	return s
}
