package server

import (
	"context"
	"time"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Proposer brings commands into the log.
type Proposer interface {
	// Propose returns one verdict per proposal, in order. It stamps the term. Errors should be, or wrap, an *Error: any
	// other is taken for an unknown outcome.
	Propose(ctx context.Context, proposals ...fsm.Proposal) ([]fsm.Verdict, error)
}

// Reader hands out views of the state.
type Reader interface {
	// Read returns a view that holds everything acknowledged before the call. Only a leader can.
	Read(ctx context.Context) (*fsm.View, error)
	// Local returns what this server has applied, and the time since it last knew that to be current; ok is false while
	// there is nothing to show.
	Local() (view *fsm.View, age time.Duration, ok bool)
}

// Leadership is who leads, as this server knows.
type Leadership struct {
	Term uint64
	// Leading: this server leads, and its own BeginTerm has been applied here.
	Leading bool
	// Leader is empty if none is known.
	Leader fsm.ServerID
}

// Leader tells who leads.
type Leader interface {
	Leadership() Leadership
}

// Contact tells whether this server may answer.
type Contact interface {
	// Contact is true while the server hears the leader, or leads with a quorum; age is the time since it last did.
	Contact() (ok bool, age time.Duration)
}

// RaftMember is a server of the Raft configuration.
type RaftMember struct {
	ID      fsm.ServerID
	Address string
	Voter   bool
}

// Replica tells about this server's copy of the log.
type Replica interface {
	AppliedIndex() uint64
	// HashAt returns the state hash right after the entry; ok is false if it is not kept, any more or yet.
	HashAt(index uint64) (hash fsm.Digest, ok bool)
	Members() []RaftMember
}

// History rebuilds earlier states.
type History interface {
	// StateAt returns the state right after the log entry at index. Errors should be, or wrap, an *Error of kind
	// IndexTooOld, with the oldest index that is kept in Have, or IndexNotYet, with the newest.
	StateAt(ctx context.Context, index uint64) (*fsm.View, error)
}

// Sessions serves the sessions of nodes while this server leads.
type Sessions interface {
	// Serve returns when the session is over: the stream is broken, the context has ended, or the term.
	Serve(ctx context.Context, stream session.LeaderStream, hello session.Hello) error
}

// LeaseState is what the leader knows of a node's lease.
type LeaseState struct {
	HeardAge     time.Duration
	Named        bool
	GateOpen     bool
	GateReason   string
	SetHashEqual bool
}

// SoftState is what the leader knows and the log does not. On a follower both answers are false.
type SoftState interface {
	Progress(dispatcher fsm.DispatcherID) (session.Progress, bool)
	Lease(incarnation fsm.Incarnation) (LeaseState, bool)
}
