package serve

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-project/weir/api/server"
	"github.com/weir-project/weir/dispatcher/control"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/raftnode"
)

// PlaneConfig is what one server of the control plane is assembled from.
type PlaneConfig struct {
	// Raft describes the replica; Clock, Timers, Logger, Lead, Forward and Appends are filled in here.
	Raft raftnode.Config
	// Open opens the replica: raftnode.Open, or another one in tests.
	Open func(raftnode.Config) (*raftnode.Node, error)
	// Listener accepts API calls, PeerDial reaches other servers' (nil: TCP).
	Listener net.Listener
	PeerDial func(ctx context.Context, address string) (net.Conn, error)
	Clock    clock.Clock
	Timers   clock.Timers
	Timing   fence.Timing
	Wall     func() int64
	Logger   hclog.Logger
}

// Plane is one server of the control plane: its replica, the leader's loop, and the API.
type Plane struct {
	Node   *raftnode.Node
	Leader *control.Leader
	API    *server.Server
	log    hclog.Logger
}

// NewPlane opens and connects the parts; nothing runs yet. On an error everything that was opened is closed again, the
// listener included.
func NewPlane(cfg PlaneConfig) (*Plane, error) {
	p := &Plane{log: cfg.Logger}
	appends := fence.NewAppends()
	replica := &replica{}
	leader, err := control.New(control.Config{
		Proposer: replica, Viewer: replica, Appends: appends, Clock: cfg.Clock, Timers: cfg.Timers, Timing: cfg.Timing,
		SharePercent:  expireShare,
		StepDown:      func(reason string) { replica.node().StepDown(reason) },
		LeaderAddress: func() string { return replica.node().LeaderHint().GRPCAddress },
		WallMS:        cfg.Wall, Logger: cfg.Logger.Named("control"),
	})
	if err != nil {
		return nil, errors.Join(err, cfg.Listener.Close())
	}
	p.Leader = leader
	var api atomic.Pointer[server.Server]
	raft := cfg.Raft
	raft.Clock, raft.Timers, raft.Logger, raft.Appends, raft.Wall = cfg.Clock, cfg.Timers, cfg.Logger, appends, cfg.Wall
	raft.Lead = p.lead
	raft.Forward = func(ctx context.Context, proposal fsm.Proposal) (fsm.Verdict, error) {
		return api.Load().Forward(ctx, proposal) // the replica asks only once it runs, which is after the API was made
	}
	p.Node, err = cfg.Open(raft)
	if err != nil {
		return nil, errors.Join(err, cfg.Listener.Close())
	}
	replica.set(p.Node)
	p.API, err = server.New(server.Config{
		ID: raft.ID, Listener: cfg.Listener, PeerDial: cfg.PeerDial, Proposer: replica, Reader: replica, Leader: replica,
		Contact: replica, Replica: replica, Sessions: leader, Soft: softState{leader}, History: replica, Timers: cfg.Timers,
		Logger: cfg.Logger.Named("api"), Wall: cfg.Wall, TimeLeft: timeLeft(leader),
		Tick: cfg.Timing.Tick, Heartbeat: cfg.Timing.Heartbeat,
	})
	if err != nil {
		return nil, errors.Join(err, p.Node.Close(), cfg.Listener.Close())
	}
	api.Store(p.API)
	return p, nil
}

// expireShare is the percentage of live nodes that may expire together without being slowed down.
const expireShare = 34

// lead runs the leader's loop for one term.
func (p *Plane) lead(ctx context.Context, term uint64) {
	err := p.Leader.Run(ctx, term)
	if err == nil || ctx.Err() != nil {
		return
	}
	p.log.Warn("the leader's loop ended", "term", term, "error", err)
	p.Node.StepDown("the leader's loop ended: " + err.Error())
	<-ctx.Done()
}

// Run serves until the context ends or the server must not go on, and returns when everything has stopped: first the
// API, so that nothing new is taken, then the replica, which hands leadership over.
func (p *Plane) Run(ctx context.Context) error {
	apiCtx, stopAPI := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAPI()
	nodeCtx, stopNode := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNode()
	apiDone, nodeDone := make(chan error, 1), make(chan error, 1)
	go func() { apiDone <- p.API.Run(apiCtx) }()
	go func() { nodeDone <- p.Node.Run(nodeCtx) }()

	var apiErr, nodeErr error
	select {
	case <-ctx.Done():
		stopAPI()
		apiErr = <-apiDone
		stopNode()
		nodeErr = <-nodeDone
	case apiErr = <-apiDone:
		stopNode()
		nodeErr = <-nodeDone
	case nodeErr = <-nodeDone:
		stopAPI()
		apiErr = <-apiDone
	}
	return errors.Join(nodeErr, apiErr)
}

// timeLeft says for how long an incarnation still holds its name, as this leader sees it.
func timeLeft(leader *control.Leader) func(fsm.Incarnation) (time.Duration, bool) {
	return func(inc fsm.Incarnation) (time.Duration, bool) {
		for _, l := range leader.Leases() {
			if l.Incarnation == inc {
				return l.ExpiresIn, true
			}
		}
		return 0, false
	}
}
