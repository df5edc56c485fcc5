package oracle

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// The model's rows. They name each other by number, so that a copy of the maps is a copy of the model.

type node struct {
	name                fsm.NodeName
	inc                 fsm.Incarnation
	status              fsm.NodeStatus
	lastTick            uint64
	draining, confirmed bool
}

func (n *node) ended() bool {
	return n.status == fsm.NodeStatusExpired || n.status == fsm.NodeStatusGone
}

type feed struct {
	id                               fsm.ChangefeedID
	name, sink, source               string
	status                           fsm.ChangefeedStatus
	run, every                       uint64
	after, watermark, chain, granted fsm.Position
	trigger                          fsm.DispatcherID
	failedBy                         fsm.DispatcherID
}

func (f *feed) stopped() bool {
	return f.status == fsm.ChangefeedIsPaused || f.status == fsm.ChangefeedIsFailed
}

type table struct {
	id                fsm.TableID
	feed              fsm.ChangefeedID
	ref               fsm.TableRef
	trigger, dropping bool
}

type dispatcher struct {
	id                     fsm.DispatcherID
	table                  fsm.TableID
	span                   fsm.Span
	at                     fsm.Position
	phase                  fsm.Phase
	waits, leaving, hasRun bool
	inc                    fsm.Incarnation
	epoch                  fsm.Epoch
	slot                   fsm.OpID
	phaseMS                uint64
	failures               uint32
}

type operator struct {
	id              fsm.OpID
	kind            fsm.OperatorKind
	dispatcher      fsm.DispatcherID
	to              fsm.Incarnation
	moved, aborting bool
	drop, stuck     bool
	abortResult     fsm.OpResult
	result          fsm.OpResult
	replacedBy      fsm.OpID
	deadline, ended uint64
	spans           []fsm.Span
	targets         []fsm.Incarnation
	sources, made   []fsm.DispatcherID
}

type event struct {
	key               fsm.BarrierKey
	spec              fsm.BarrierSpec
	status            fsm.BarrierStatus
	result            fsm.BarrierResult
	triggerSaid       bool
	permission        uint64
	writer            fsm.DispatcherID
	writerEpoch       fsm.Epoch
	notBegun, unknown bool
	stuck             bool
	deadline          uint64
}

type request struct {
	id           fsm.RequestID
	command      fsm.Command
	timeMS, kept uint64
	answer       answer
}

// answer is what the model says of a command. Facts that it has no opinion about are zero.
type answer struct {
	reason   fsm.Reason
	index    uint64
	replayed bool
	operator fsm.OpID          // admitted, or in the way
	epoch    fsm.Epoch         // issued, or the owner's
	owner    fsm.NodeName      // who stands in the way
	refused  []fsm.Incarnation // of a tick
	reports  []fsm.Reason
	items    []answer
}

func yes() answer { return answer{reason: fsm.Accepted} }

func no(r fsm.Reason) answer { return answer{reason: r} }

// model is the whole state, as somebody would write it who never heard of performance.
type model struct {
	nodes       map[fsm.NodeName]*node
	feeds       map[fsm.ChangefeedID]*feed
	tables      map[fsm.TableID]*table
	dispatchers map[fsm.DispatcherID]*dispatcher
	operators   map[fsm.OpID]*operator
	finished    map[fsm.OpID]*operator
	events      map[fsm.BarrierKey]*event
	records     map[fsm.BarrierKey]*event
	requests    []request // oldest first
	servers     map[fsm.ServerID]uint32

	policy                                   fsm.Policy
	level                                    uint32
	generation                               fsm.Generation
	index, term, tickedTerm, timeMS, floorMS uint64

	epoch          uint64 // the last epoch or operator id
	incarnation    fsm.Incarnation
	lastFeed       fsm.ChangefeedID
	lastTable      fsm.TableID
	lastDispatcher fsm.DispatcherID
	lastRun        uint64
}

func newModel() *model {
	return &model{
		nodes: map[fsm.NodeName]*node{}, feeds: map[fsm.ChangefeedID]*feed{}, tables: map[fsm.TableID]*table{},
		dispatchers: map[fsm.DispatcherID]*dispatcher{}, operators: map[fsm.OpID]*operator{},
		finished: map[fsm.OpID]*operator{}, events: map[fsm.BarrierKey]*event{}, records: map[fsm.BarrierKey]*event{},
		servers: map[fsm.ServerID]uint32{}, policy: fsm.DefaultPolicy(), level: 1,
	}
}

func copied[K comparable, R any](rows map[K]*R) map[K]*R {
	out := make(map[K]*R, len(rows))
	for k, r := range rows {
		c := *r
		out[k] = &c
	}
	return out
}

// clone copies everything; slices inside rows are never changed in place.
func (m *model) clone() *model {
	c := *m
	c.nodes, c.feeds, c.tables = copied(m.nodes), copied(m.feeds), copied(m.tables)
	c.dispatchers, c.operators, c.finished = copied(m.dispatchers), copied(m.operators), copied(m.finished)
	c.events, c.records = copied(m.events), copied(m.records)
	c.requests, c.servers = slices.Clone(m.requests), maps.Clone(m.servers)
	return &c
}

// inOrder lists the rows by number.
func inOrder[K cmp.Ordered, R any](rows map[K]*R) []*R {
	out := make([]*R, 0, len(rows))
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, rows[k])
	}
	return out
}

// apply is one entry.
func (m *model) apply(e fsm.Entry) []answer {
	m.index = e.Index
	answers := make([]answer, len(e.Proposals))
	for i := range e.Proposals {
		answers[i] = m.proposal(e, &e.Proposals[i])
	}
	return answers
}

func (m *model) proposal(e fsm.Entry, p *fsm.Proposal) answer {
	if a, stands := m.requested(p); stands {
		return a
	}
	_, begins := p.Command.(*fsm.BeginTerm)
	a := answer{}
	switch {
	case p.Term != e.Term, !begins && p.Term != m.term:
		a.reason = fsm.StaleTerm
	case p.Level > m.level:
		a.reason = fsm.FeatureLevel
	case m.generation == 0 && !slices.Contains([]fsm.CommandKind{
		fsm.KindBeginTerm, fsm.KindBeginGeneration, fsm.KindAnnounceServer, fsm.KindTick,
	}, p.Command.Kind()):
		a.reason = fsm.NotBootstrapped
	}
	a.index = e.Index
	if a.reason != 0 {
		return a
	}
	a = m.command(p.Command, e)
	a.index = e.Index
	m.settle()
	if p.Request != "" {
		kept := a
		kept.refused, kept.reports = nil, nil
		m.requests = append(m.requests, request{p.Request, p.Command, p.RequestTimeMS, m.timeMS, kept})
		m.forgetRequests()
	}
	return a
}

// requested answers what has been answered before, or may have been.
func (m *model) requested(p *fsm.Proposal) (answer, bool) {
	if p.Request == "" {
		return answer{}, false
	}
	for _, r := range m.requests {
		switch {
		case r.id != p.Request:
		case !reflect.DeepEqual(r.command, p.Command):
			return answer{reason: fsm.RequestIDReused, index: m.index}, true
		default:
			a := r.answer
			a.replayed = true
			return a, true
		}
	}
	switch {
	case len(p.Request) > 64:
		return answer{reason: fsm.Malformed, index: m.index}, true
	case p.RequestTimeMS < m.floorMS:
		return answer{reason: fsm.RequestTooOld, index: m.index}, true
	case p.RequestTimeMS > m.timeMS:
		return answer{reason: fsm.RequestTooNew, index: m.index}, true
	}
	return answer{}, false
}

func (m *model) forgetRequests() {
	for range 4 {
		if len(m.requests) == 0 {
			return
		}
		oldest := m.requests[0]
		if m.timeMS-oldest.kept <= m.policy.KeepRequestsMS && len(m.requests) <= int(m.policy.KeepRequests) {
			return
		}
		m.requests = slices.Clone(m.requests[1:])
		m.floorMS = max(m.floorMS, oldest.timeMS+1)
	}
}

func (m *model) command(c fsm.Command, e fsm.Entry) answer {
	switch c := c.(type) {
	case *fsm.BeginTerm:
		m.term = e.Term
		return yes()
	case *fsm.BeginGeneration:
		return m.beginGeneration(c)
	case *fsm.AnnounceServer:
		if c.Server == "" || c.HighestLevel == 0 {
			return no(fsm.Malformed)
		}
		m.servers[c.Server] = c.HighestLevel
		return yes()
	case *fsm.SetFeatureLevel:
		return m.setLevel(c)
	case *fsm.SetPolicy:
		return m.setPolicy(c)
	case *fsm.Tick:
		return m.tick(c, e)
	case *fsm.RegisterNode:
		return m.register(c)
	case *fsm.Goodbye:
		return m.goodbye(c)
	case *fsm.FenceNode:
		return m.fence(c)
	case *fsm.ExpireNode:
		return m.expire(c)
	case *fsm.StartDrain:
		return m.startDrain(c)
	case *fsm.ClearDrain:
		return m.clearDrain(c)
	case *fsm.ConfirmDrain:
		return m.confirmDrain(c)
	default:
		return m.work(c)
	}
}

func (m *model) work(c fsm.Command) answer {
	switch c := c.(type) {
	case *fsm.CreateChangefeed:
		return m.create(c)
	case *fsm.UpdateChangefeed:
		return m.update(c)
	case *fsm.PauseChangefeed:
		return m.pause(c)
	case *fsm.ResumeChangefeed:
		return m.resume(c)
	case *fsm.RemoveChangefeed:
		return m.remove(c)
	case *fsm.AddTables:
		return m.addTables(c)
	case *fsm.DropTables:
		return m.dropTables(c)
	case *fsm.AdmitOperator:
		return m.admit(c)
	case *fsm.AdmitMany:
		return m.admitMany(c)
	case *fsm.CancelOperator:
		return m.cancel(c)
	case *fsm.ReportPlacements:
		return m.reportPlacements(c)
	case *fsm.ReportBarrier:
		return m.reportBarrier(c)
	case *fsm.DecideBarrier:
		return m.decide(c)
	case *fsm.AdvanceCheckpoint:
		return m.advance(c)
	default:
		panic("a command that the model does not know")
	}
}

func (m *model) beginGeneration(c *fsm.BeginGeneration) answer {
	switch {
	case c.Why != fsm.GenerationBootstrap || c.Generation == 0 || c.Generation > 1<<27-1 || c.Cluster == "":
		return no(fsm.Malformed)
	case m.generation != 0:
		return no(fsm.AlreadyBootstrapped)
	}
	m.generation = c.Generation
	m.epoch = uint64(c.Generation) << 36
	m.incarnation = fsm.Incarnation(c.Generation) << 36
	return yes()
}

func (m *model) setLevel(c *fsm.SetFeatureLevel) answer {
	if c.Level < m.level {
		return no(fsm.Malformed)
	}
	for _, highest := range m.servers {
		if highest < c.Level {
			return no(fsm.FeatureLevel)
		}
	}
	if len(m.servers) == 0 {
		return no(fsm.FeatureLevel)
	}
	m.level = c.Level
	return yes()
}

// setPolicy refuses a limit of zero; some settings say "never" by a zero.
func (m *model) setPolicy(c *fsm.SetPolicy) answer {
	p := reflect.ValueOf(c.Policy)
	for i := range p.NumField() {
		if p.Type().Field(i).Name != "HealthyMS" && p.Type().Field(i).Name != "FailAfter" && p.Field(i).CanUint() && p.Field(i).IsZero() {
			return no(fsm.Malformed)
		}
	}
	m.policy = c.Policy
	return yes()
}

// next issues the next number of the sequence of epochs and operator ids.
func (m *model) next() uint64 {
	m.epoch++
	return m.epoch
}
