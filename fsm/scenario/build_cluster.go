package scenario

import (
	"slices"
	"strconv"

	"github.com/weir-project/weir/fsm"
)

// The cluster that a script starts with, unless it says otherwise.
const (
	firstTerm       = 1
	firstServer     = "s1"
	firstGeneration = 1
	clusterName     = "scenario"
	tickMS          = 100
)

func buildBeginTerm(a *args) fsm.Command {
	server := a.world.state.Meta().Leader
	if a.more() {
		server = fsm.ServerID(a.word("a server"))
	}
	a.world.term = a.number("term", a.world.term+1, 64)
	return &fsm.BeginTerm{Server: server}
}

func buildBeginGeneration(a *args) fsm.Command {
	g, err := strconv.ParseUint(a.word("a generation"), 10, 64)
	if err != nil {
		a.fail("want a generation: a whole number")
	}
	return &fsm.BeginGeneration{
		Generation: fsm.Generation(g),
		Cluster:    a.text("cluster", clusterName),
		Why:        fsm.GenerationWhy(a.number("why", uint64(fsm.GenerationBootstrap), 8)),
	}
}

func buildAnnounce(a *args) fsm.Command {
	return &fsm.AnnounceServer{
		Server:       fsm.ServerID(a.word("a server")),
		Address:      a.word("an address"),
		HighestLevel: uint32(a.number("level", 1, 32)),
	}
}

func buildLevel(a *args) fsm.Command {
	level, err := strconv.ParseUint(a.word("a feature level"), 10, 32)
	if err != nil {
		a.fail("want a feature level: a whole number")
	}
	return &fsm.SetFeatureLevel{Level: uint32(level)}
}

// buildPolicy starts from the present policy, so that a script names only what it changes.
func buildPolicy(a *args) fsm.Command {
	p := a.world.state.Meta().Policy
	wide := func(key string, limit *uint64) { *limit = a.number(key, *limit, 64) }
	narrow := func(key string, limit *uint32) { *limit = uint32(a.number(key, uint64(*limit), 32)) }
	wide("max-dispatchers", &p.MaxDispatchers)
	narrow("max-placements-per-node", &p.MaxPlacementsPerNode)
	narrow("max-operators", &p.MaxOperators)
	narrow("max-nodes", &p.MaxNodes)
	narrow("keep-requests", &p.KeepRequests)
	wide("keep-requests-ms", &p.KeepRequestsMS)
	narrow("keep-operators", &p.KeepOperators)
	narrow("keep-history", &p.KeepHistory)
	narrow("keep-history-each", &p.KeepHistoryEach)
	wide("healthy-ms", &p.HealthyMS)
	narrow("keep-barriers", &p.KeepBarriers)
	wide("operator-deadline-ms", &p.OperatorDeadlineMS)
	wide("barrier-deadline-ms", &p.BarrierDeadlineMS)
	p.CancelStuck = a.truth("cancel-stuck", p.CancelStuck)
	p.FenceStuck = a.truth("fence-stuck", p.FenceStuck)
	wide("fence-stuck-ms", &p.FenceStuckMS)
	narrow("fail-after", &p.FailAfter)
	narrow("drain-at-once", &p.DrainAtOnce)
	return &fsm.SetPolicy{Policy: p}
}

// buildTick names incarnations by a bitmap, as the leader does.
func buildTick(a *args) fsm.Command {
	t := &fsm.Tick{ElapsedMS: tickMS}
	if a.more() {
		if ms, err := strconv.ParseUint(a.plain[0], 10, 32); err == nil {
			t.ElapsedMS = uint32(ms)
			a.plain = a.plain[1:]
		}
	}
	var heard []fsm.Incarnation
	if a.more() {
		heard = a.heard(a.word("the nodes that were heard"))
	}
	t.Base, t.Bits = bitmap(heard)
	if base, ok := a.value("base"); ok {
		t.Base = fsm.Incarnation(a.token(base))
	}
	if bits, ok := a.value("bits"); ok {
		t.Bits = a.bits(bits)
	}
	return t
}

// bits reads 1101: the first one is bit 0.
func (a *args) bits(w string) []byte {
	bits := make([]byte, (len(w)+7)/8)
	for i, c := range w {
		switch c {
		case '0':
		case '1':
			bits[i/8] |= 1 << (i % 8)
		default:
			a.fail("bits=%s: want digits 0 and 1, the first one for the base", w)
		}
	}
	return bits
}

// heard reads n1,n2#3,#4 or *, which is every live node.
func (a *args) heard(w string) []fsm.Incarnation {
	if w == "*" {
		return a.world.liveIncarnations()
	}
	names, err := splitList(w)
	if err != nil {
		a.fail("%w", err)
	}
	var heard []fsm.Incarnation
	for _, name := range names {
		l := a.asNode(name)
		if l.inc == 0 {
			a.fail("%s has no incarnation: register it, or name one as #INCARNATION", name)
		}
		heard = append(heard, l.inc)
	}
	return heard
}

func (w *world) liveIncarnations() []fsm.Incarnation {
	var live []fsm.Incarnation
	for n := range w.state.Nodes() {
		if n.Status == fsm.NodeStatusLive {
			live = append(live, n.Incarnation)
		}
	}
	return live
}

func bitmap(heard []fsm.Incarnation) (fsm.Incarnation, []byte) {
	if len(heard) == 0 {
		return 0, nil
	}
	base := slices.Min(heard)
	bits := make([]byte, (slices.Max(heard)-base)/8+1)
	for _, inc := range heard {
		bits[(inc-base)/8] |= 1 << ((inc - base) % 8)
	}
	return base, bits
}
