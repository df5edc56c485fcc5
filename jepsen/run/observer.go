package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/caller"
	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/history"
	"github.com/weir-project/weir/jepsen/workload"
)

// observer looks at the cluster all the time: who leads, who owns what, which operators have ended, what the state
// hashes are.
type observer struct {
	bench *bench
	links *caller.Links
	board *workload.Board
	// groups says what may be done to the dispatchers of a changefeed.
	groups map[string]workload.Group

	mu        sync.Mutex
	operators map[uint64]checker.Operator
	hashes    []checker.Hash
	leaders   map[string]int
}

func newObserver(b *bench, board *workload.Board, groups map[string]workload.Group) (*observer, error) {
	links, err := b.dial()
	if err != nil {
		return nil, err
	}
	return &observer{
		bench: b, links: links, board: board, groups: groups, operators: map[uint64]checker.Operator{},
		leaders: map[string]int{},
	}, nil
}

// run observes until the context ends. What cannot be seen right now is seen later.
func (o *observer) run(ctx context.Context) {
	var wait sync.WaitGroup
	every := func(d time.Duration, look func(context.Context)) {
		wait.Go(func() {
			for ctx.Err() == nil {
				look(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(d):
				}
			}
		})
	}
	every(200*time.Millisecond, func(ctx context.Context) { _ = o.seeDispatchers(ctx) })
	every(time.Second, func(ctx context.Context) { _ = o.seeOperators(ctx, weirv1.OperatorState_OPERATOR_STATE_FINISHED) })
	every(250*time.Millisecond, o.compareHashes)
	wait.Wait()
}

// dispatchers reads all of them.
func (o *observer) dispatchers(ctx context.Context) ([]*weirv1.Dispatcher, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var list []*weirv1.Dispatcher
	for d, err := range o.bench.admin.Dispatchers(ctx, &weirv1.ListDispatchersRequest{PageSize: 500}) {
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

func (o *observer) seeDispatchers(ctx context.Context) error {
	list, err := o.dispatchers(ctx)
	if err != nil {
		return err
	}
	var known []workload.Known
	for _, d := range list {
		known = append(known, workload.Known{ID: d.GetId(), Group: o.groups[d.GetChangefeed()], Table: d.GetTable(), Owner: d.GetNode()})
	}
	o.board.See(known)
	return nil
}

// seeOperators reads the operators of a state; of finished ones, the newest first until one is known.
func (o *observer) seeOperators(ctx context.Context, state weirv1.OperatorState) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	known := 0
	for op, err := range o.bench.admin.Operators(ctx, &weirv1.ListOperatorsRequest{State: state, PageSize: 500}) {
		if err != nil {
			return err
		}
		if o.noteOperator(op) {
			known++
		}
		// A page may straddle a change; some overlap makes sure that nothing is missed.
		if known > 1000 && state == weirv1.OperatorState_OPERATOR_STATE_FINISHED {
			return nil
		}
	}
	return nil
}

// noteOperator keeps an operator; it reports whether its end was known.
func (o *observer) noteOperator(op *weirv1.Operator) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, there := o.operators[op.GetId()]
	o.operators[op.GetId()] = checker.Operator{
		ID: op.GetId(), Kind: word(op.GetKind().String(), "OPERATOR_KIND_"), Dispatcher: op.GetDispatcher(), To: op.GetTo(), By: op.GetBy(),
		Since: op.GetSince(), Ended: op.GetEnded(), Result: word(op.GetResult().String(), "OPERATOR_RESULT_"),
	}
	return there && old.Ended != 0
}

func word(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

// each asks every server at once, each for at most so long.
func (o *observer) each(ctx context.Context, ask func(ctx context.Context, i int, cc *grpc.ClientConn)) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	var wait sync.WaitGroup
	for i := range o.links.Count() {
		wait.Go(func() { ask(ctx, i, o.links.Conn(i)) })
	}
	wait.Wait()
}

// applied asks each server for the last entry that it has applied, and for who leads.
func (o *observer) applied(ctx context.Context) (applied map[int]uint64, leader string) {
	var mu sync.Mutex
	applied = map[int]uint64{}
	var newest uint64 // of two that think they lead, the one that has applied more is right
	o.each(ctx, func(ctx context.Context, i int, cc *grpc.ClientConn) {
		s, err := weirv1.NewClusterClient(cc).GetServerStatus(ctx, &weirv1.GetServerStatusRequest{})
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		applied[i] = s.GetAppliedIndex()
		if s.GetRole() == weirv1.Role_ROLE_LEADER && s.GetAppliedIndex() >= newest {
			leader, newest = o.links.Server(i).ID, s.GetAppliedIndex()
		}
	})
	return applied, leader
}

// leader names the server that leads, "" if none is known to.
func (o *observer) leader(ctx context.Context) string {
	_, leader := o.applied(ctx)
	return leader
}

// compareHashes asks every server for its state hash at the newest index that all have applied.
func (o *observer) compareHashes(ctx context.Context) {
	applied, leader := o.applied(ctx)
	o.mu.Lock()
	if leader != "" {
		o.leaders[leader]++
	}
	o.mu.Unlock()
	if len(applied) < o.links.Count() {
		return
	}
	o.hashesAt(ctx, slices.Min(slices.Collect(maps.Values(applied))))
}

// hashesAt notes every server's state hash at an index.
func (o *observer) hashesAt(ctx context.Context, index uint64) {
	o.each(ctx, func(ctx context.Context, i int, cc *grpc.ClientConn) {
		life := len(o.bench.cluster.Servers[i].Lives())
		h, err := weirv1.NewClusterClient(cc).HashAt(ctx, &weirv1.HashAtRequest{Index: index})
		if err != nil || len(o.bench.cluster.Servers[i].Lives()) != life {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.hashes = append(o.hashes, checker.Hash{
			Server: o.links.Server(i).ID, Life: life, Index: index, A: h.GetHash().GetA(), B: h.GetHash().GetB(), At: history.Now(),
		})
	})
}

// samples copies the hashes so far.
func (o *observer) samples() []checker.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.hashes)
}

// listed copies the operators so far.
func (o *observer) listed() []checker.Operator {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.operators))
}

// save writes what was seen into the run's folder.
func (o *observer) save() error {
	for name, list := range map[string]any{"operators.json": o.listed(), "hashes.json": o.samples()} {
		raw, err := json.Marshal(list)
		if err == nil {
			err = os.WriteFile(o.bench.path(name), raw, 0o600)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
