package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
	"github.com/weir-project/weir/cmd/weir/internal/show"
	"github.com/weir-project/weir/fsm"
)

// Env is what the commands need from outside.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal: Stdout is one, so that a view may be redrawn.
	Terminal bool
	// User is who asks, for display.
	User string
	// Getenv reads the environment.
	Getenv func(string) string
	// Connect opens a client to the servers.
	Connect func(addresses []string, by string, timeout time.Duration) (plane.Plane, error)
	// Server and Agent run until their context ends, Dev until the user is done.
	Server func(ctx context.Context, c serve.ServerConfig) error
	Agent  func(ctx context.Context, c serve.AgentConfig) error
	Dev    func(ctx context.Context, c dev.Config) error
}

// Connection are the flags of every command that asks the control plane.
type Connection struct {
	Servers []string      `env:"WEIR_SERVERS" placeholder:"HOST:PORT,..." help:"Addresses of servers. Default: those of the folder that --dir names, else the first ports of weir dev."`
	Dir     string        `env:"WEIR_DIR" type:"path" placeholder:"FOLDER" help:"Folder of a running weir dev, whose servers are asked."`
	Timeout time.Duration `default:"10s" help:"How long the whole command may take."`
	Output  string        `short:"o" enum:"table,json" default:"table" help:"How to print: table or json."`
	Stale   bool          `help:"Read from the server that answers first, however old its state is."`
}

// AfterApply notes the flags in the call; kong calls it when the line has been read.
func (c *Connection) AfterApply(x *call) error {
	x.flags = c
	if c.Timeout <= 0 {
		return usage("--timeout %s: want more than nothing, for example 10s", c.Timeout)
	}
	return nil
}

// Mutation are the flags of every command that changes something.
type Mutation struct {
	RequestID string `placeholder:"ID" help:"Send again what an earlier command with this id may have done: it takes effect once. Default: a new id."`
	DryRun    bool   `help:"Only say what would become of it; nothing is changed."`
	At        uint64 `placeholder:"INDEX" help:"With --dry-run: on the state right after this log entry. Default: now."`
}

// request is the identity of what was sent.
type request struct {
	id   string
	time uint64
}

// again is what --request-id takes to send the same request again; empty if nothing was sent.
func (r request) again(e *plane.Error) string {
	if r.id == "" {
		return ""
	}
	if at := max(r.time, e.RequestTimeMS); at != 0 {
		return r.id + "@" + strconv.FormatUint(at, 10)
	}
	return r.id
}

// call is one run of the program.
type call struct {
	context.Context //nolint:containedctx // a call is one command from start to end, and the context is its time

	env   Env
	flags *Connection
	plane plane.Plane
	sent  request
}

// asJSON says whether the answer is for scripts.
func (x *call) asJSON() bool { return x.flags != nil && x.flags.Output == "json" }

// read are the options of reads.
func (x *call) read() *weirv1.ReadOptions {
	if x.flags.Stale {
		return &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_STALE}
	}
	return &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_LINEARIZABLE}
}

// connect opens the client, once.
func (x *call) connect() (plane.Plane, error) {
	if x.plane != nil {
		return x.plane, nil
	}
	addresses, err := x.flags.addresses()
	if err != nil {
		return nil, err
	}
	p, err := x.env.Connect(addresses, x.env.User, x.flags.Timeout)
	if err != nil {
		return nil, err
	}
	x.plane = p
	return p, nil
}

// addresses are those of the flags, of the folder, or of the first weir dev on this machine.
func (c *Connection) addresses() ([]string, error) {
	if len(c.Servers) > 0 {
		for _, a := range c.Servers {
			if host, port, ok := strings.Cut(a, ":"); !ok || host == "" || port == "" {
				return nil, usage("--servers %q: want HOST:PORT, several of them with commas between", a)
			}
		}
		return c.Servers, nil
	}
	if c.Dir != "" {
		s, err := dev.ReadState(c.Dir)
		if err != nil {
			return nil, usage("--dir %s: %v; name the folder that weir dev printed at its start", c.Dir, err)
		}
		return s.Servers, nil
	}
	return dev.DefaultAddresses(), nil
}

// limited is the context of a command that has to end by itself.
func (x *call) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(x.Context, x.flags.Timeout)
}

// ask connects and calls do within the time limit.
func (x *call) ask(do func(ctx context.Context, p plane.Plane) error) error {
	p, err := x.connect()
	if err != nil {
		return err
	}
	ctx, cancel := x.limited()
	defer cancel()
	return do(ctx, p)
}

// header names the request: by the flag, or by a new id.
func (x *call) header(m Mutation) (*weirv1.RequestHeader, error) {
	if m.At != 0 && !m.DryRun {
		return nil, usage("--at %d: the past cannot be changed; want --dry-run too", m.At)
	}
	if m.DryRun && m.RequestID == "" {
		return &weirv1.RequestHeader{By: x.env.User}, nil
	}
	id, at, timed := strings.Cut(m.RequestID, "@")
	if m.RequestID == "" {
		id = rand.Text()
	}
	var ms uint64
	if timed {
		var err error
		if ms, err = strconv.ParseUint(at, 10, 64); err != nil {
			return nil, usage("--request-id %q: want ID or ID@TIME as an earlier command printed it", m.RequestID)
		}
	}
	if id == "" || len(id) > fsm.MaxRequestID {
		return nil, usage("--request-id %q: want 1 to %d bytes", id, fsm.MaxRequestID)
	}
	x.sent = request{id: id, time: ms}
	return &weirv1.RequestHeader{RequestId: id, RequestTimeMs: ms, By: x.env.User}, nil
}

// withoutTime is the id alone of what --request-id takes.
func withoutTime(request string) string {
	id, _, _ := strings.Cut(request, "@")
	return id
}

// json prints one document.
func (x *call) json(v any) error {
	e := json.NewEncoder(x.env.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// say prints a line for people.
func (x *call) say(format string, args ...any) error {
	_, err := fmt.Fprintf(x.env.Stdout, format+"\n", args...)
	return err
}

// note prints a line beside the answer.
func (x *call) note(format string, args ...any) {
	_, _ = fmt.Fprintf(x.env.Stderr, format+"\n", args...)
}

// Done is the answer to a command that changed something.
type Done struct {
	RequestID string `json:"request_id"`
	// Index is the log entry that decided it.
	Index    uint64 `json:"index,omitempty"`
	Replayed bool   `json:"replayed"`
	// Changefeed, Dispatcher, Operator, Epoch, Node and Incarnation are what the command was about or made.
	Changefeed   string `json:"changefeed,omitempty"`
	ChangefeedID uint64 `json:"changefeed_id,omitempty"`
	Run          uint64 `json:"run,omitempty"`
	Dispatcher   uint64 `json:"dispatcher,omitempty"`
	Operator     string `json:"operator,omitempty"`
	Epoch        string `json:"epoch,omitempty"`
	Node         string `json:"node,omitempty"`
	Incarnation  string `json:"incarnation,omitempty"`
}

// done prints the answer: the document, or the sentence.
func (x *call) done(h *weirv1.ResponseHeader, d Done, format string, args ...any) error {
	d.RequestID, d.Index = x.sent.id, max(d.Index, h.GetIndex())
	d.Replayed = d.Replayed || h.GetReplayed()
	if x.asJSON() {
		return x.json(d)
	}
	text := fmt.Sprintf(format, args...)
	if d.Replayed {
		text += " (the request had been carried out before: this is its first answer)"
	}
	return x.say("%s", text)
}

// token reads an id that people give.
func token(what, text string) (uint64, error) {
	v, err := fsm.ParseToken(text)
	if err != nil || v == 0 {
		return 0, usage("%s %q: want GENERATION.SEQUENCE as weir prints it, for example 29700000.17", what, text)
	}
	return v, nil
}

// limitNote says that a list was cut.
func (x *call) limitNote(more bool, shown int) {
	if more {
		x.note("weir: there are more than these %d; --limit 0 shows all", shown)
	}
}

// table prints a grid.
func (x *call) table(g *show.Grid, none string) error { return g.Print(x.env.Stdout, none) }
