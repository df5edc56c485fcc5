package bubble

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// refusal is a call that the state machine must refuse.
type refusal struct {
	name, reason string
	call         func(ctx context.Context, c *client.Client) error
}

// refusals is the table of B77: every call that changes something, each for a reason of its own.
func refusals(s scene) []refusal {
	spec := func(kind weirv1.OperatorKind, d fsm.DispatcherID, from, to string) *weirv1.OperatorSpec {
		return &weirv1.OperatorSpec{Kind: kind, Dispatcher: uint64(d), From: from, To: to}
	}
	admit := func(spec *weirv1.OperatorSpec) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := c.AdmitOperator(ctx, spec)
			return err
		}
	}
	done := func(f func(context.Context, *client.Client) (*weirv1.ResponseHeader, error)) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			_, err := f(ctx, c)
			return err
		}
	}
	type ctx = context.Context
	type header = weirv1.ResponseHeader
	const add, move, remove = weirv1.OperatorKind_OPERATOR_KIND_ADD, weirv1.OperatorKind_OPERATOR_KIND_MOVE, weirv1.OperatorKind_OPERATOR_KIND_REMOVE
	other := "n1"
	if s.owner == "n1" {
		other = "n2"
	}
	epoch := spec(move, s.running, s.owner, other)
	epoch.ExpectEpoch = 5
	return []refusal{
		{"add what is owned", "ALREADY_OWNED", admit(spec(add, s.running, "", other))},
		{"add what is being added", "OPERATOR_EXISTS", admit(spec(add, s.starting, "", other))},
		{"move what is being added", "OPERATOR_EXISTS", admit(spec(move, s.starting, "", other))},
		{"move from nowhere what runs", "ALREADY_OWNED", admit(spec(move, s.running, "", other))},
		{"move from another node", "NOT_OWNER", admit(spec(move, s.running, other, s.owner))},
		{"move to where it is", "SAME_NODE", admit(spec(move, s.running, s.owner, s.owner))},
		{"move to nobody", "UNKNOWN_NODE", admit(spec(move, s.running, s.owner, "nobody"))},
		{"move to a fenced node", "NODE_FENCED", admit(spec(move, s.running, s.owner, "n3"))},
		{"move under another epoch", "EPOCH_MISMATCH", admit(epoch)},
		{"add in a held range", "RANGE_REMOVING", admit(spec(add, s.held, "", other))},
		{"add in a paused changefeed", "CHANGEFEED_PAUSED", admit(spec(add, s.paused, "", other))},
		{"remove nothing", "UNKNOWN_DISPATCHER", admit(spec(remove, 999, "", ""))},
		{"no kind", "MALFORMED", admit(spec(0, s.running, "", other))},
		{"cancel nothing", "NO_SUCH_OPERATOR", done(func(x ctx, c *client.Client) (*header, error) { return c.CancelOperator(x, 12345) })},
		{"cancel what has ended", "OPERATOR_FINISHED", done(func(x ctx, c *client.Client) (*header, error) {
			return c.CancelOperator(x, uint64(s.finished))
		})},
		{"cancel a removal", "NOT_CANCELLABLE", done(func(x ctx, c *client.Client) (*header, error) {
			return c.CancelOperator(x, uint64(s.removal))
		})},
		{"create twice", "CHANGEFEED_EXISTS", func(x ctx, c *client.Client) error {
			_, err := c.CreateChangefeed(x, &weirv1.CreateChangefeedRequest{
				Name: "feed", Source: "memory:s", Sink: "memory:k", SinkFenced: true, Tables: []*weirv1.TableSpec{{Name: "x"}},
			})
			return err
		}},
		{"create over the tables of another", "TABLE_EXISTS", func(x ctx, c *client.Client) error {
			_, err := c.CreateChangefeed(x, &weirv1.CreateChangefeedRequest{
				Name: "thief", Source: "memory:source", Sink: "memory:sink", SinkFenced: true, Tables: []*weirv1.TableSpec{{Name: "first"}},
			})
			return err
		}},
		{"pause nothing", "UNKNOWN_CHANGEFEED", done(func(x ctx, c *client.Client) (*header, error) { return c.PauseChangefeed(x, "none") })},
		{"pause twice", "CHANGEFEED_PAUSED", done(func(x ctx, c *client.Client) (*header, error) { return c.PauseChangefeed(x, "idle") })},
		{"resume what runs", "CHANGEFEED_NOT_PAUSED", done(func(x ctx, c *client.Client) (*header, error) {
			return c.ResumeChangefeed(x, "feed")
		})},
		{"remove no changefeed", "UNKNOWN_CHANGEFEED", done(func(x ctx, c *client.Client) (*header, error) {
			return c.RemoveChangefeed(x, "none")
		})},
		{"add a table twice", "TABLE_EXISTS", done(func(x ctx, c *client.Client) (*header, error) {
			return c.AddTables(x, &weirv1.AddTablesRequest{Changefeed: "feed", Tables: []*weirv1.TableSpec{{Name: "new"}, {Name: "first"}}})
		})},
		{"drop a table that is not there", "UNKNOWN_TABLE", done(func(x ctx, c *client.Client) (*header, error) {
			return c.DropTables(x, &weirv1.DropTablesRequest{Changefeed: "feed", Tables: []*weirv1.TableRef{{Name: "first"}, {Name: "none"}}})
		})},
		{"fence nobody", "UNKNOWN_NODE", func(x ctx, c *client.Client) error {
			_, err := c.FenceNode(x, "nobody", 0, "test")
			return err
		}},
		{"fence twice", "NODE_FENCED", func(x ctx, c *client.Client) error {
			_, err := c.FenceNode(x, "n3", 0, "again")
			return err
		}},
		{"fence an old incarnation", "STALE_INCARNATION", func(x ctx, c *client.Client) error {
			_, err := c.FenceNode(x, s.owner, 3, "late")
			return err
		}},
		{"register a name that is live", "NODE_LIVE", func(x ctx, c *client.Client) error {
			_, err := c.NodeDialer().Register(x, session.Registration{Cluster: "bubble", Node: fsm.NodeName(s.owner), LeaseMS: 2000, ClockClass: 1, Protocol: 1})
			return err
		}},
		{"register with a lease that is too long", "MALFORMED", func(x ctx, c *client.Client) error {
			_, err := c.NodeDialer().Register(x, session.Registration{Cluster: "bubble", Node: "n9", LeaseMS: 60_000, ClockClass: 1, Protocol: 1})
			return err
		}},
		{"goodbye of an old incarnation", "STALE_INCARNATION", func(x ctx, c *client.Client) error {
			return c.NodeDialer().Goodbye(x, fsm.Goodbye{Node: fsm.NodeName(s.owner), Incarnation: 3})
		}},
		{"another request under a known id", "REQUEST_ID_REUSED", func(x ctx, c *client.Client) error {
			_, err := c.Admit(x, &weirv1.AdmitOperatorRequest{
				Header: &weirv1.RequestHeader{RequestId: usedID, RequestTimeMs: s.time}, Operator: spec(remove, s.running, "", ""),
			})
			return err
		}},
		{"a request from the future", "REQUEST_TOO_NEW", func(x ctx, c *client.Client) error {
			_, err := c.Admit(x, &weirv1.AdmitOperatorRequest{
				Header: &weirv1.RequestHeader{RequestId: "future", RequestTimeMs: 1 << 50}, Operator: spec(remove, s.running, "", ""),
			})
			return err
		}},
	}
}

const usedID = "used"

// scene is what the refusals are about.
type scene struct {
	owner                           string
	running, starting, held, paused fsm.DispatcherID
	finished, removal               fsm.OpID
	time                            uint64
}

// setScene brings the cluster into a state in which every call of the table must be refused.
func (c *cluster) setScene() scene {
	c.t.Helper()
	x := c.t.Context()
	c.world.opening["hung"], c.world.closing["late"] = true, make(chan struct{})
	c.createFeed("feed")
	_, err := c.admin.CreateChangefeed(x, &weirv1.CreateChangefeedRequest{
		Name: "idle", Source: "memory:source", Sink: "memory:other", SinkFenced: true, Tables: []*weirv1.TableSpec{{Name: "v"}},
	})
	require.NoError(c.t, err)
	leader := c.attached()
	s := scene{running: c.dispatcherOf(leader, "feed", "first"), paused: c.dispatcherOf(leader, "idle", "v")}
	s.starting = c.newDispatcher(leader, "feed", "hung")
	late := c.newDispatcher(leader, "feed", "late")
	inPhase := func(d fsm.DispatcherID, p fsm.Phase) {
		c.t.Helper()
		c.eventually("the dispatcher is "+p.String(), func() bool { row, ok := leader.view().Dispatcher(d); return ok && row.Phase == p })
	}
	inPhase(s.running, fsm.Running)
	inPhase(s.starting, fsm.Starting)
	inPhase(late, fsm.Running)
	_, err = c.admin.PauseChangefeed(x, "idle")
	require.NoError(c.t, err)
	_, err = c.admin.DropTables(x, &weirv1.DropTablesRequest{Changefeed: "feed", Tables: []*weirv1.TableRef{{Name: "late"}}})
	require.NoError(c.t, err)
	s.held = c.newDispatcher(leader, "feed", "late")
	inPhase(s.paused, fsm.Absent)
	inPhase(late, fsm.Stopping)

	row, _ := leader.view().Dispatcher(s.running)
	node, _ := leader.view().NodeOf(row.Incarnation)
	s.owner = string(node.Name)
	s.finished = operatorsOf(leader.view(), s.running)[0].ID
	held, _ := leader.view().Dispatcher(late)
	s.removal = held.Slot
	s.time = leader.view().Meta().TimeMS
	_, err = c.admin.Admit(x, &weirv1.AdmitOperatorRequest{
		Header:   &weirv1.RequestHeader{RequestId: usedID, RequestTimeMs: s.time},
		Operator: &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_ADD, Dispatcher: uint64(s.running), To: "n1"},
	})
	require.Error(c.t, err, "this verdict is remembered")
	c.nodes[slices.IndexFunc(c.nodes, func(w *worker) bool { return w.name == "n3" })].kill()
	_, err = c.admin.FenceNode(x, "n3", 0, "test")
	require.NoError(c.t, err)
	return s
}

// all is everything in a state but what ticks and refusals themselves leave: time, and remembered answers.
type all struct {
	issued      [5]uint64
	dispatchers []fsm.Dispatcher
	nodes       []fsm.Node
	feeds       []fsm.Changefeed
	tables      []fsm.Table
	operators   []fsm.Operator
	servers     []fsm.Server
	starts      int
}

func (c *cluster) everything(v *fsm.View) all {
	m := v.Meta()
	a := all{
		issued: [5]uint64{
			uint64(m.LastEpoch), uint64(m.LastIncarnation), uint64(m.LastDispatcher), uint64(m.LastChangefeed), uint64(m.LastTable),
		},
		dispatchers: slices.Collect(v.Dispatchers()), nodes: slices.Collect(v.Nodes()), feeds: slices.Collect(v.Changefeeds()),
		operators: slices.Concat(slices.Collect(v.Operators()), slices.Collect(v.FinishedOperators())), servers: slices.Collect(v.Servers()),
	}
	for i := range a.nodes {
		a.nodes[i].LastTick = 0
	}
	for _, f := range a.feeds {
		a.tables = append(a.tables, slices.Collect(v.Tables(f.ID))...)
	}
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	a.starts = len(c.world.starts)
	return a
}

// B77: the state machine said no, the handler said yes. Through the leader and through a follower, every refusal reaches
// the caller with its own reason and changes nothing, neither in the state nor at the nodes.
func TestField_B77_EveryRefusalReachesTheCallerThroughTheWholeStack(t *testing.T) {
	s, calls, reasons := seed(t), 0, map[string]int{}
	long := func(c *cluster) { c.timing.Lease = 20 * time.Second } // the fenced node has not expired before the last call
	inBubble(t, s, 3, long, func(c *cluster) {
		scene := c.setScene()
		defer close(c.world.closing["late"])
		leader := c.attached()
		for _, via := range c.servers {
			api := c.client("caller", via.id)
			for _, r := range refusals(scene) {
				before := c.everything(leader.view())
				start := time.Now()
				err := r.call(c.t.Context(), api)
				var no *client.Error
				require.ErrorAs(c.t, err, &no, "%s through %s: %v", r.name, via.id, err)
				require.Equal(c.t, r.reason, no.Reason, "%s through %s: %s", r.name, via.id, no.Message)
				require.Contains(c.t, []client.Class{client.Rejected, client.Invalid}, no.Class, "%s through %s", r.name, via.id)
				require.NotEmpty(c.t, no.Message)
				require.Less(c.t, time.Since(start), time.Second, "%s through %s was answered at once", r.name, via.id)
				require.Equal(c.t, before, c.everything(leader.view()), "%s through %s changes nothing", r.name, via.id)
				calls++
				reasons[r.reason]++
			}
		}
		before := c.everything(leader.view())
		time.Sleep(time.Second)
		require.Equal(c.t, before, c.everything(leader.view()), "nothing that was refused is carried out later")
		c.settled()
	})
	t.Logf("B77: %d refused calls through 3 servers, %d reasons, no side effect; seed %d", calls, len(reasons), s)
}
