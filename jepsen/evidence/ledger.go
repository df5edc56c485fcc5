package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Line is a line of an agent's ledger. All times are CLOCK_BOOTTIME in nanoseconds.
type Line struct {
	Event       string `json:"event"`
	At          int64  `json:"at"`
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Opening     uint64 `json:"opening"`

	Edge      string `json:"edge"`
	Reason    string `json:"reason"`
	NoticedAt int64  `json:"noticed_at"`
	Deadline  int64  `json:"deadline"`

	Call       string `json:"call"`
	Dispatcher uint64 `json:"dispatcher"`
	Epoch      string `json:"epoch"`
	Claim      uint64 `json:"claim"`
	Sink       string `json:"sink"`
	Table      string `json:"table"`
	From       string `json:"from"`
	To         string `json:"to"`
	Begun      int64  `json:"begun"`
	Allowed    int64  `json:"allowed"`
	Returned   int64  `json:"returned"`
	Outcome    string `json:"outcome"`
	Resume     string `json:"resume"`
	Rows       int    `json:"rows"`
	Error      string `json:"error"`

	Changefeed string `json:"changefeed"`
	Run        uint64 `json:"run"`
	Key        string `json:"key"`
	Permission uint64 `json:"permission"`
	Step       string `json:"step"`
	Recorded   bool   `json:"recorded"`
}

// Call is one call to a sink by an agent.
type Call struct {
	Node, Incarnation string
	Opening           uint64
	Kind              string
	Dispatcher        uint64
	Epoch             Epoch
	Claim             uint64
	Sink, Table       string
	Span              Span
	Begun             int64
	// Allowed is the newest granted test of the lease, 0 if there was none or it is not known; Returned is 0 for a call
	// that never ended: its process died inside it.
	Allowed, Returned int64
	Outcome           string
	Error             string
}

// Unfinished says that the process died inside the call.
func (c *Call) Unfinished() bool { return c.Returned == 0 }

// Step is what a dispatcher noted about an event of its changefeed.
type Step struct {
	Node, Incarnation string
	Dispatcher        uint64
	Epoch             Epoch
	Changefeed        string
	Run               uint64
	// Key is the event's position, as the agent prints it.
	Key string
	// Kind is "waiting" (everything before the event is downstream), "written" or "passed" (it goes on beyond it).
	Kind       string
	Permission uint64
	// Recorded: the sink had a record of the event already, so that nothing was done.
	Recorded bool
	At       int64
}

// Edge is one edge of an agent's gate.
type Edge struct {
	Node, Incarnation string
	Opening           uint64
	Kind              string // opened, closed, fenced
	NoticedAt         int64
	Deadline          int64
	Reason            string
}

// Span is a key range; keys are hexadecimal, an empty To has no end.
type Span struct{ From, To string }

// Overlaps says whether the ranges have a key in common.
func (s Span) Overlaps(o Span) bool {
	return (s.To == "" || o.From < s.To) && (o.To == "" || s.From < o.To)
}

// Covers says whether every key of o is in s.
func (s Span) Covers(o Span) bool {
	return s.From <= o.From && (s.To == "" || (o.To != "" && o.To <= s.To))
}

// Epoch is an epoch in its order.
type Epoch uint64

// ParseEpoch reads GENERATION.SEQUENCE, or a plain number.
func ParseEpoch(text string) (Epoch, error) {
	high, low, dotted := strings.Cut(text, ".")
	if !dotted {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("epoch %q: %w", text, err)
		}
		return Epoch(n), nil
	}
	g, gerr := strconv.ParseUint(high, 10, 32)
	n, nerr := strconv.ParseUint(low, 10, sequenceBits)
	if err := errors.Join(gerr, nerr); err != nil {
		return 0, fmt.Errorf("epoch %q: %w", text, err)
	}
	return Epoch(g<<sequenceBits | n), nil
}

// sequenceBits is how many low bits of a token are its sequence number, as the API documents.
const sequenceBits = 36

// Agents is what the agents noted.
type Agents struct {
	Calls []Call
	Edges []Edge
	Steps []Step
}

// ReadLedgers reads the ledgers of all agents, in the order of their lines. A last line without an end is that of a
// process that was killed while it wrote.
func ReadLedgers(paths []string) (*Agents, error) {
	a := &Agents{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		if err := a.parse(raw); err != nil {
			return nil, fmt.Errorf("ledger %s: %w", path, err)
		}
	}
	return a, nil
}

type callKey struct {
	node, incarnation string
	dispatcher        uint64
	epoch             string
	claim             uint64
	kind              string
	begun             int64
}

func (a *Agents) parse(raw []byte) error {
	open := map[callKey]int{}
	for n := 1; len(raw) > 0; n++ {
		end := bytes.IndexByte(raw, '\n')
		torn := end < 0
		if torn {
			end = len(raw) - 1
		}
		var l Line
		err := unmarshal(raw[:end+1], &l)
		raw = raw[end+1:]
		if err != nil {
			if torn {
				continue
			}
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := a.add(&l, open); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// unmarshal reads a line. A process killed inside its write leaves a part of a line, and its next life goes on right
// behind it.
func unmarshal(raw []byte, l *Line) error {
	err := json.Unmarshal(raw, l)
	if at := bytes.LastIndex(raw, []byte(`{"event":`)); err != nil && at > 0 {
		*l = Line{}
		return json.Unmarshal(raw[at:], l)
	}
	return err
}

func (a *Agents) add(l *Line, open map[callKey]int) error {
	switch l.Event {
	case "gate":
		a.Edges = append(a.Edges, Edge{
			Node: l.Node, Incarnation: l.Incarnation, Opening: l.Opening, Kind: l.Edge, NoticedAt: l.NoticedAt,
			Deadline: l.Deadline, Reason: l.Reason,
		})
		return nil
	case "barrier", "attempt", "outcome":
	default:
		return fmt.Errorf("event %q is not known", l.Event)
	}
	epoch, err := ParseEpoch(l.Epoch)
	if err != nil {
		return err
	}
	if l.Event == "barrier" {
		a.Steps = append(a.Steps, Step{
			Node: l.Node, Incarnation: l.Incarnation, Dispatcher: l.Dispatcher, Epoch: epoch, Changefeed: l.Changefeed,
			Run: l.Run, Key: l.Key, Kind: l.Step, Permission: l.Permission, Recorded: l.Recorded, At: l.At,
		})
		return nil
	}
	return a.addCall(l, epoch, open)
}

// addCall adds a call, or joins its outcome to its attempt.
func (a *Agents) addCall(l *Line, epoch Epoch, open map[callKey]int) error {
	key := callKey{l.Node, l.Incarnation, l.Dispatcher, l.Epoch, l.Claim, l.Call, l.Begun}
	call := Call{
		Node: l.Node, Incarnation: l.Incarnation, Opening: l.Opening, Kind: l.Call, Dispatcher: l.Dispatcher, Epoch: epoch,
		Claim: l.Claim, Sink: l.Sink, Table: l.Table, Span: Span{l.From, l.To}, Begun: l.Begun, Allowed: l.Allowed,
		Returned: l.Returned, Outcome: l.Outcome, Error: l.Error,
	}
	if l.Event == "attempt" {
		open[key] = len(a.Calls)
		a.Calls = append(a.Calls, call)
		return nil
	}
	at, known := open[key]
	if !known {
		return fmt.Errorf("an outcome of %s has no attempt", l.Call)
	}
	delete(open, key)
	a.Calls[at] = call
	return nil
}
