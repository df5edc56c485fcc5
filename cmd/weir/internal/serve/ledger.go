package serve

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// LedgerLine is one line of an agent's ledger: evidence for checkers that share no code with the product. All times are
// CLOCK_BOOTTIME in nanoseconds, one clock for every process of a machine. A line of kind "attempt" is written before
// the call that it names, so that a process which dies inside the call has said so.
type LedgerLine struct {
	// Event is "gate", "attempt", "outcome" or "barrier".
	Event string `json:"event"`
	// At is when the line was written.
	At          int64  `json:"at"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	// Opening numbers the stretches for which the gate was open.
	Opening uint64 `json:"opening"`

	// Edge is "opened", "closed" or "fenced", NoticedAt when the gate noticed, and Deadline where the lease stood: of a
	// closing, no write started after it. Only for "gate".
	Edge      string `json:"edge,omitempty"`
	Reason    string `json:"reason,omitempty"`
	NoticedAt int64  `json:"noticed_at,omitempty"`
	Deadline  int64  `json:"deadline,omitempty"`

	// The rest is about calls. Call is "claim", "write" or "event"; the token is (Epoch, Claim) over the keys [From, To) of Table at
	// Sink, keys in hexadecimal, an empty To meaning no end.
	Call       string `json:"call,omitempty"`
	Dispatcher uint64 `json:"dispatcher,omitempty"`
	Epoch      string `json:"epoch,omitempty"`
	Claim      uint64 `json:"claim,omitempty"`
	Sink       string `json:"sink,omitempty"`
	Table      string `json:"table,omitempty"`
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`
	// Begun is read before the call, Allowed just before the newest granted test of the lease (0: never granted), and
	// Returned after it: the effect, if any, lies between Allowed and Returned.
	Begun    int64 `json:"begun,omitempty"`
	Allowed  int64 `json:"allowed,omitempty"`
	Returned int64 `json:"returned,omitempty"`
	// Outcome is "accepted", "refused" (the gate was closed), "fenced" (the sink refused the token), "unknown" (perhaps
	// carried out) or "failed" (not sent).
	Outcome string `json:"outcome,omitempty"`
	Resume  string `json:"resume,omitempty"`
	Rows    int    `json:"rows,omitempty"`
	Error   string `json:"error,omitempty"`

	// Of calls of kind "event", and of lines "barrier": the event (Run, Key) of a changefeed, and the number of the
	// permission to write it. A line "barrier" says that the dispatcher has reached the event ("waiting"), that it has
	// been written, which Recorded says the sink knew already, or that it goes on beyond it ("passed").
	Changefeed string `json:"changefeed,omitempty"`
	Run        uint64 `json:"run,omitempty"`
	Key        string `json:"key,omitempty"`
	Permission uint64 `json:"permission,omitempty"`
	Step       string `json:"step,omitempty"`
	Recorded   bool   `json:"recorded,omitempty"`
}

// ledger appends lines to a file. Each line is one write, so that what was written survives the process.
type ledger struct {
	node  string
	clock clock.Clock

	queued  sync.Mutex
	queue   []LedgerLine // edges that have not been written
	pending sync.WaitGroup

	mu   sync.Mutex
	file *os.File
	err  error
}

func openLedger(path string, node fsm.NodeName, c clock.Clock) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return &ledger{node: string(node), clock: c, file: file}, nil
}

// stamp says who wrote a line and when.
func (l *ledger) stamp(line LedgerLine) LedgerLine {
	line.At, line.Node = int64(l.clock.Now().Boot), l.node
	return line
}

// append writes what is queued and then the line.
func (l *ledger) append(lines ...LedgerLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued.Lock()
	lines = append(l.queue, lines...)
	l.queue = nil
	l.queued.Unlock()
	for _, line := range lines {
		raw, err := json.Marshal(line)
		if l.err != nil {
			return
		}
		if err == nil {
			_, err = l.file.Write(append(raw, '\n'))
		}
		l.err = err
	}
}

// Close writes what is queued, closes the file and returns the first error of any line.
func (l *ledger) Close() error {
	l.pending.Wait()
	l.append()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	if l.err != nil {
		return fmt.Errorf("write ledger: %w", l.err)
	}
	return nil
}

// Gate implements dispatcher.Ledger. It is called under the gate's lock, which a disk must never hold up: the edge is
// queued, and written before the next call to a sink at the latest.
func (l *ledger) Gate(e fence.Edge) {
	line := l.stamp(LedgerLine{
		Event: "gate", Incarnation: fsm.Incarnation(e.Incarnation).String(), Opening: e.Opening, Edge: e.Kind.String(),
		Reason: e.Reason.String(), NoticedAt: int64(e.At.Boot), Deadline: int64(e.Deadline.Boot),
	})
	l.queued.Lock()
	l.queue = append(l.queue, line)
	l.queued.Unlock()
	l.pending.Go(func() { l.append() })
}

// Attempt implements dispatcher.Ledger.
func (l *ledger) Attempt(c dispatcher.SinkCall) { l.append(l.stamp(callLine("attempt", c))) }

// Outcome implements dispatcher.Ledger.
func (l *ledger) Outcome(c dispatcher.SinkCall) { l.append(l.stamp(callLine("outcome", c))) }

// Event implements dispatcher.Ledger.
func (l *ledger) Event(n dispatcher.EventNote) {
	line := l.stamp(LedgerLine{
		Event: "barrier", Incarnation: n.Incarnation.String(), Dispatcher: uint64(n.Dispatcher), Epoch: n.Epoch.String(),
		Changefeed: n.Changefeed, Run: n.Key.Run, Key: n.Key.At.String(), Permission: n.Permission, Step: n.Kind.String(),
		Recorded: n.Recorded,
	})
	line.At = int64(n.At.Boot)
	l.append(line)
}

func callLine(event string, c dispatcher.SinkCall) LedgerLine {
	line := LedgerLine{
		Event: event, Incarnation: c.Incarnation.String(), Opening: c.Opening, Call: c.Kind.String(),
		Dispatcher: uint64(c.Dispatcher), Epoch: c.Token.Epoch.String(), Claim: c.Token.Claim, Sink: c.Sink,
		Table: c.Table.String(), From: hex.EncodeToString([]byte(c.Span.Start)), To: hex.EncodeToString([]byte(c.Span.End)),
		Begun: int64(c.Begun.Boot), Rows: c.Rows, Resume: c.Resume.String(),
	}
	if c.Kind == dispatcher.CallEvent {
		line.Run, line.Key, line.Permission = c.Event.Run, c.Event.At.String(), c.Permission
	}
	if event == "attempt" {
		return line
	}
	line.Allowed, line.Returned, line.Outcome = int64(c.Allowed.Boot), int64(c.Returned.Boot), c.Outcome.String()
	if c.Err != nil {
		line.Error = c.Err.Error()
	}
	return line
}
