package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"

	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// Config is what a Server is made of. Every field without a default must be set.
type Config struct {
	// ID is this server's lasting identity.
	ID fsm.ServerID
	// Listener accepts the calls. The server closes it.
	Listener net.Listener

	Proposer Proposer
	Reader   Reader
	Leader   Leader
	Contact  Contact
	Replica  Replica
	Sessions Sessions
	// Soft may be nil: nothing is known then.
	Soft SoftState
	// History may be nil: only the present state can be asked about then.
	History History

	Timers clock.Timers
	Logger hclog.Logger
	// Wall is the wall clock in Unix milliseconds; it goes into entries for display.
	Wall func() int64
	// TimeLeft tells for how long a node's incarnation still holds its lease at most, so that a refused registration can
	// say when to come back; nil: not known.
	TimeLeft func(fsm.Incarnation) (time.Duration, bool)

	// Credentials secure what is served, PeerCredentials the calls to other servers; nil: plain text.
	Credentials, PeerCredentials credentials.TransportCredentials
	// PeerDial opens the byte stream to another server; nil: TCP.
	PeerDial func(ctx context.Context, address string) (net.Conn, error)

	// Tick and Heartbeat are the cluster's periods, told to nodes that register.
	Tick, Heartbeat time.Duration
	// Limits bound what a caller may ask for; zero fields take their defaults.
	Limits Limits
}

// Limits bound what a caller may ask for.
type Limits struct {
	// Command is the largest request that becomes one command, in bytes; default 256 KiB.
	Command int
	// Goodbye is the same for a node's goodbye, which lists all it held; default 4 MiB.
	Goodbye int
	// Batch is the largest number of operators in one AdmitBatch or AdmitMany; default 4,096.
	Batch int
	// Scan is how many dispatchers one page of a list looks at; default 200,000.
	Scan int
	// Streams bounds the calls under way on one connection; default 1,024.
	Streams uint32
	// Call bounds a call that comes without a deadline; default 10 s.
	Call time.Duration
	// Wait bounds one WaitOperator; default 30 s.
	Wait time.Duration
	// Hello is how long a session may take to say who it is; default 5 s.
	Hello time.Duration
	// Stop is how long calls under way may go on when the server stops; default 2 s.
	Stop time.Duration
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if l.Command == 0 {
		l.Command = 256 << 10
	}
	if l.Goodbye == 0 {
		l.Goodbye = 4 << 20
	}
	if l.Batch == 0 {
		l.Batch = 4096
	}
	if l.Scan == 0 {
		l.Scan = 200_000
	}
	if l.Streams == 0 {
		l.Streams = 1024
	}
	set(&l.Call, 10*time.Second)
	set(&l.Wait, 30*time.Second)
	set(&l.Hello, 5*time.Second)
	set(&l.Stop, 2*time.Second)
	return l
}

// Validate says what is missing.
func (c *Config) Validate() error {
	for _, need := range []struct {
		set  bool
		name string
	}{
		{c.ID != "", "ID"},
		{c.Listener != nil, "Listener"},
		{c.Proposer != nil, "Proposer"},
		{c.Reader != nil, "Reader"},
		{c.Leader != nil, "Leader"},
		{c.Contact != nil, "Contact"},
		{c.Replica != nil, "Replica"},
		{c.Sessions != nil, "Sessions"},
		{c.Timers != nil, "Timers"},
		{c.Logger != nil, "Logger"},
		{c.Wall != nil, "Wall"},
		{c.Tick > 0, "Tick"},
		{c.Heartbeat > 0, "Heartbeat"},
	} {
		if !need.set {
			return errors.New("api server configuration: " + need.name + " is not set")
		}
	}
	return nil
}
