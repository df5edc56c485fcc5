package control

import (
	"context"
	"fmt"
	"sync"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence"
	"github.com/weir-project/weir/fsm"
)

// admit says why a session cannot be opened; nil if it can. A fenced incarnation may: its stops are worth knowing.
func (r *reign) admit(hello session.Hello) *session.Close {
	view := r.fresh()
	meta := view.Meta()
	var c session.Close
	switch {
	case meta.Term != r.term:
		c = notLeader(r.cfg.LeaderAddress())
	case hello.Cluster != meta.Cluster:
		c = wrongCluster(hello.Cluster, meta.Cluster)
	case hello.Protocol != session.Protocol:
		c = unknownProtocol(hello.Protocol)
	case hello.Incarnation.Generation() > meta.Generation:
		c = generationTooOld(hello.Incarnation.Generation(), meta.Generation)
	case hello.Incarnation > meta.LastIncarnation:
		c = staleServer("incarnation", hello.Incarnation, meta.LastIncarnation)
	default:
		node, known := view.Node(hello.Node)
		if known && node.Incarnation == hello.Incarnation && !ended(node.Status) {
			return nil
		}
		c = staleIncarnation(hello, node, known)
	}
	return &c
}

// serve runs a session that has joined.
func (r *reign) serve(ctx context.Context, k *link) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	defer close(k.gone)
	workers.Go(func() { r.reports(ctx, k) })
	// These two end with the stream, which the caller breaks: nothing may wait for them for long.
	read, wrote := make(chan error, 1), make(chan error, 1)
	go func() { read <- r.read(k) }()
	go func() { wrote <- k.write() }()
	select {
	case err := <-read:
		return err
	case err := <-wrote:
		return err
	case <-k.closing:
	case <-ctx.Done():
		k.close(serverStopping())
	}
	cancel() // no report is proposed while the last message waits
	t := r.cfg.Timers.NewTimer(closeWithin)
	defer t.Stop()
	select {
	case err := <-wrote:
		return err
	case <-t.C():
		return fmt.Errorf("close session of node %s: the node does not take the message", k.hello.Node)
	}
}

// read handles what the node sends until the stream breaks or the session has ended.
func (r *reign) read(k *link) error {
	for {
		msg, err := k.stream.Recv()
		if err != nil {
			return fmt.Errorf("session of node %s: %w", k.hello.Node, err)
		}
		select {
		case <-k.closing:
			return nil
		case <-k.gone:
			return nil
		default:
			r.handle(k, msg)
		}
	}
}

func (r *reign) handle(k *link, msg session.FromNode) {
	switch {
	case msg.Heartbeat != nil:
		r.heartbeat(k, msg.Heartbeat)
	case msg.Report != nil:
		k.leave(msg.Report.Reports)
	case msg.Barrier != nil:
		k.leaveBarriers(*msg.Barrier)
	case msg.List != nil:
		r.list(k, msg.List.Pairs)
	}
}

// heartbeat takes a node's sign of life. It never waits for anything: what hangs on it is the lease.
func (r *reign) heartbeat(k *link, hb *session.Heartbeat) {
	at := r.cfg.Clock.Now()
	view := r.recent()
	if r.provesStale(k, view, hb) {
		return
	}
	node, ok := view.NodeOf(k.inc)
	if !ok || ended(node.Status) {
		r.kick() // the next look closes the session
		return
	}
	setEqual := hb.SetHash == view.Load(k.inc).SetHash
	empty := node.Draining && hb.Dispatchers == 0 && view.DrainLeft(node) == 0 && r.carriedOut(k, hb)
	k.contact.note(hb, at, setEqual, empty)
	k.contact.advance(view, hb.Progress, at)
	if node.Status == fsm.NodeStatusLive {
		heard := r.tracker.Heard(fence.Heartbeat{
			Incarnation: uint64(k.inc), Seq: hb.Seq, Open: hb.GateOpen, Done: hb.OrdersIndex, Due: k.due(), Lease: leaseOf(node),
		}, at)
		if heard == fence.HeardSilenced {
			r.counters.silenced.Add(1)
		}
	}
	r.checkSet(k, view, setEqual, at)
}

// carriedOut says whether the node has carried out all that it was ordered in this session.
func (r *reign) carriedOut(k *link, hb *session.Heartbeat) bool {
	index := hb.OrdersIndex
	if hb.OrdersTerm != r.term {
		index = 0
	}
	return k.carriedOut(index)
}

// provesStale closes the session when the node knows of numbers above those that this server has issued.
func (r *reign) provesStale(k *link, view *fsm.View, hb *session.Heartbeat) bool {
	generation, epoch := hb.HighestGeneration, fsm.Epoch(0)
	for i := range hb.Progress {
		epoch = max(epoch, hb.Progress[i].Epoch)
	}
	meta := view.Meta()
	if generation <= meta.Generation && epoch <= meta.LastEpoch {
		return false
	}
	meta = r.fresh().Meta()
	switch {
	case generation > meta.Generation:
		k.close(generationTooOld(generation, meta.Generation))
	case epoch > meta.LastEpoch:
		k.close(staleServer("epoch", epoch, meta.LastEpoch))
	default:
		return false
	}
	return true
}
