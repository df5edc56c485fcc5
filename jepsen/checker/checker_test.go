package checker_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/jepsen/changelog"
	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/cluster"
	"github.com/weir-project/weir/jepsen/evidence"
	"github.com/weir-project/weir/jepsen/history"
)

// op is an admitted Add between two instants.
func op(request string, call, end int64, index uint64, change ...func(*history.Operation)) *history.Operation {
	o := &history.Operation{
		Client: "c", Request: request, Call: call, Return: end, Spec: history.Spec{Kind: history.Add, Dispatcher: 1, To: "n1"},
		Answer: history.Answer{Outcome: history.OK, Index: index, Operator: index * 10, Epoch: index * 100, Dispatcher: 1},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

func rejected(reason string, operator uint64) func(*history.Operation) {
	return func(o *history.Operation) {
		o.Answer = history.Answer{Outcome: history.Rejected, Reason: reason, Index: o.Answer.Index, Operator: operator}
	}
}

func outcome(out history.Outcome) func(*history.Operation) {
	return func(o *history.Operation) { o.Answer = history.Answer{Outcome: out} }
}

func clean(t *testing.T, r *checker.Report) {
	t.Helper()
	require.Empty(t, r.Violations)
	require.Zero(t, r.Count)
	require.Positive(t, r.Looked)
}

func broken(t *testing.T, r *checker.Report, text string) {
	t.Helper()
	require.Positive(t, r.Count, "the check must find it")
	require.Contains(t, r.Violations[0], text)
}

func TestRealTimeOrder(t *testing.T) {
	clean(t, checker.RealTime([]*history.Operation{op("a", 1, 5, 7), op("b", 4, 9, 6), op("c", 10, 12, 8), op("d", 10, 11, 8)}))
	broken(t, checker.RealTime([]*history.Operation{op("a", 1, 5, 7), op("b", 6, 9, 6)}), "request a was answered at 5")
	broken(t, checker.RealTime([]*history.Operation{op("a", 1, 5, 9), op("b", 2, 9, 8), op("c", 6, 7, 7)}), "request a")
	clean(t, checker.RealTime([]*history.Operation{op("a", 1, 5, 7), op("b", 6, 9, 3, outcome(history.Unknown))}))
	twins := []*history.Operation{op("a", 1, 9, 7), op("a", 6, 8, 7), op("b", 2, 5, 8)}
	clean(t, checker.RealTime(twins))
	broken(t, checker.RealTime(append(twins, op("c", 9, 12, 6))), "request a was answered at 8")
}

func TestUniqueEffects(t *testing.T) {
	clean(t, checker.UniqueEffects([]*history.Operation{op("a", 1, 5, 7), op("a", 2, 9, 7), op("b", 2, 9, 8)}))
	broken(t, checker.UniqueEffects([]*history.Operation{op("a", 1, 5, 7), op("a", 2, 9, 8)}), "two verdicts")
	broken(t, checker.UniqueEffects([]*history.Operation{op("a", 1, 5, 7), op("a", 2, 9, 7, rejected("ALREADY_OWNED", 0))}), "two verdicts")
	sameOperator := func(o *history.Operation) { o.Answer.Operator = 70 }
	broken(t, checker.UniqueEffects([]*history.Operation{op("a", 1, 5, 7), op("b", 2, 9, 8, sameOperator)}), "both given operator 70")
	sameEpoch := func(o *history.Operation) { o.Answer.Epoch = 700 }
	broken(t, checker.UniqueEffects([]*history.Operation{op("a", 1, 5, 7), op("b", 2, 9, 8, sameEpoch)}), "both given epoch 700")
}

func TestReplays(t *testing.T) {
	ok := history.Answer{Outcome: history.OK, Index: 7, Operator: 70, Epoch: 700, Dispatcher: 1, Replayed: true}
	ops := []*history.Operation{op("a", 1, 5, 7)}
	again := func(change func(*history.Answer)) map[string]history.Answer {
		a := ok
		change(&a)
		return map[string]history.Answer{"a": a}
	}
	clean(t, checker.Replays(ops, again(func(*history.Answer) {})))
	broken(t, checker.Replays(ops, again(func(a *history.Answer) { a.Operator = 71 })), "after the run")
	broken(t, checker.Replays(ops, again(func(a *history.Answer) { a.Replayed = false })), "carried out again")
	broken(t, checker.Replays(ops, again(func(a *history.Answer) { a.Outcome, a.Reason = history.Rejected, "REQUEST_TOO_OLD" })), "after the run")
	broken(t, checker.Replays(ops, map[string]history.Answer{}), "could not be asked again")

	notProposed := []*history.Operation{op("a", 1, 5, 0, outcome(history.NotProposed))}
	broken(t, checker.Replays(notProposed, again(func(*history.Answer) {})), "was called not proposed")
	clean(t, checker.Replays(notProposed, again(func(a *history.Answer) { a.Replayed = false })))
	unknown := []*history.Operation{op("a", 1, 5, 0, outcome(history.Unknown))}
	for _, replayed := range []bool{false, true} {
		clean(t, checker.Replays(unknown, again(func(a *history.Answer) { a.Replayed = replayed })))
	}
	lingering := []*history.Operation{op("a", 1, 5, 0, outcome(history.NotProposed), func(o *history.Operation) { o.MayLinger = true })}
	clean(t, checker.Replays(lingering, again(func(*history.Answer) {})))
}

func TestOneOperator(t *testing.T) {
	list := []checker.Operator{
		{ID: 70, Dispatcher: 1, Since: 7, Ended: 9}, {ID: 90, Dispatcher: 1, Since: 9, Ended: 0}, {ID: 80, Dispatcher: 2, Since: 8, Ended: 8},
	}
	loser := func(index, operator uint64) *history.Operation {
		return op("b", 2, 9, index, rejected("OPERATOR_EXISTS", operator))
	}
	clean(t, checker.OneOperator([]*history.Operation{op("a", 1, 5, 7), loser(8, 70)}, list))
	broken(t, checker.OneOperator(nil, append(list, checker.Operator{ID: 95, Dispatcher: 1, Since: 12})), "dispatcher 1 was in operator 90")
	broken(t, checker.OneOperator([]*history.Operation{loser(12, 70)}, list), "in favour of operator 70")
	broken(t, checker.OneOperator([]*history.Operation{loser(8, 80)}, list), "in favour of operator 80")
	broken(t, checker.OneOperator([]*history.Operation{loser(8, 0)}, list), "names no operator")
	wrong := op("a", 1, 5, 6, func(o *history.Operation) { o.Answer.Operator = 70 })
	broken(t, checker.OneOperator([]*history.Operation{wrong}, list), "was admitted as operator 70")
}

func TestRaces(t *testing.T) {
	loser := op("b", 2, 9, 8, rejected("OPERATOR_EXISTS", 70))
	race := func(ops ...*history.Operation) []checker.Race {
		return []checker.Race{{Dispatcher: 1, Operations: ops}}
	}
	clean(t, checker.Races(race(op("a", 1, 5, 7), loser)))
	broken(t, checker.Races(race(op("a", 1, 5, 7), op("b", 1, 5, 8))), "2 contenders were admitted")
	broken(t, checker.Races(race(loser, loser)), "0 contenders were admitted")
	broken(t, checker.Races(race(op("a", 1, 5, 7), op("b", 1, 5, 8, rejected("OPERATOR_EXISTS", 71)))), "operator 70 won")
	broken(t, checker.Races(race(op("a", 1, 5, 7), op("b", 1, 5, 8, outcome(history.Unknown)))), "operator 70 won")
	late := op("b", 1, 5, 8, rejected("ALREADY_OWNED", 0), func(o *history.Operation) { o.Answer.Epoch = 700 })
	clean(t, checker.Races(race(op("a", 1, 5, 7), late)))
	late.Answer.Epoch = 701
	broken(t, checker.Races(race(op("a", 1, 5, 7), late)), "operator 70 won")
}

// call is an accepted write of an owner.
func call(node string, epoch evidence.Epoch, begun, allowed, returned int64) evidence.Call {
	return evidence.Call{
		Node: node, Incarnation: "1." + node, Opening: 1, Kind: "write", Dispatcher: 1, Epoch: epoch, Claim: 1, Sink: "s", Table: "t",
		Begun: begun, Allowed: allowed, Returned: returned, Outcome: "accepted",
	}
}

func edge(node, kind string, at, deadline int64) evidence.Edge {
	return evidence.Edge{Node: node, Incarnation: "1." + node, Opening: 1, Kind: kind, NoticedAt: at, Deadline: deadline}
}

func TestGates(t *testing.T) {
	edges := []evidence.Edge{edge("n1", "opened", 5, 50), edge("n1", "closed", 41, 40), edge("n2", "opened", 5, 90)}
	gates := func(calls ...evidence.Call) *checker.Report {
		return checker.Gates(&evidence.Agents{Calls: calls, Edges: edges}, []cluster.Life{{Process: "n1", Started: 1, Gone: 60}})
	}
	clean(t, gates(call("n1", 1, 10, 12, 14), call("n2", 2, 20, 22, 24)))
	broken(t, gates(call("n1", 1, 10, 12, 14), call("n1", 1, 30, 32, 34), call("n2", 2, 20, 22, 24)), "could still write")
	broken(t, gates(call("n1", 1, 10, 12, 14), call("n2", 1, 20, 22, 24)), "epoch 1 was used by")
	broken(t, gates(call("n1", 1, 10, 40, 44)), "after the gate was closed")
	broken(t, gates(call("n1", 1, 1, 4, 14)), "before opening 1")

	other := call("n2", 2, 11, 12, 24)
	other.Span = evidence.Span{From: "20"}
	one := call("n1", 1, 10, 12, 14)
	one.Span = evidence.Span{To: "20"}
	clean(t, gates(one, other))
	one.Span.To = "21"
	broken(t, gates(one, other), "could still write")

	died := call("n1", 1, 10, 0, 0)
	broken(t, gates(died, call("n2", 2, 55, 56, 57)), "could still write")
	clean(t, gates(died, call("n2", 2, 61, 62, 63)))
}

func TestStarts(t *testing.T) {
	claim := func(node string, epoch evidence.Epoch) evidence.Call {
		c := call(node, epoch, 1, 2, 3)
		c.Kind = "claim"
		return c
	}
	known := map[uint64]map[evidence.Epoch]string{1: {1: "n1"}}
	starts := func(calls ...evidence.Call) *checker.Report {
		return checker.Starts(&evidence.Agents{Calls: calls}, []uint64{1}, known)
	}
	clean(t, starts(claim("n1", 1)))
	broken(t, starts(claim("n1", 1), claim("n1", 1)), "was obeyed 2 times")
	broken(t, starts(claim("n2", 1)), "was started under epoch 1 on n2")
	broken(t, starts(claim("n1", 2)), "was started under epoch 2")
	broken(t, starts(), "no start of dispatcher 1")
}

func TestSinkOrder(t *testing.T) {
	entry := func(id int64, epoch evidence.Epoch, ts uint64, at int64, session string) evidence.Entry {
		return evidence.Entry{ID: id, Op: "write", Table: "t", Epoch: epoch, Claim: 1, TS: ts, Rows: 2, Session: session, At: at}
	}
	first := entry(1, 1, 10, 100, "n1/1")
	clean(t, checker.SinkOrder("s", []evidence.Entry{first, entry(2, 1, 12, 101, "n1/1"), entry(3, 2, 14, 105, "n2/2")}))
	broken(t, checker.SinkOrder("s", []evidence.Entry{first, entry(2, 2, 12, 101, "n2/2"), entry(3, 1, 14, 105, "n1/1")}), "was accepted after one of (2, 1)")
	broken(t, checker.SinkOrder("s", []evidence.Entry{first, entry(2, 1, 12, 101, "n2/2")}), "epoch 1 was used by n1/1 and by n2/2")
	broken(t, checker.SinkOrder("s", []evidence.Entry{first, entry(2, 1, 9, 101, "n1/1")}), "goes back")
	broken(t, checker.SinkOrder("s", []evidence.Entry{first, entry(2, 2, 11, 100, "n2/2")}), "epoch 2 wrote 0s before")
	parent := entry(2, 1, 11, 102, "n1/1")
	child := entry(1, 2, 10, 100, "n2/2")
	child.Span = evidence.Span{From: "20"}
	broken(t, checker.SinkOrder("s", []evidence.Entry{child, parent}), "was accepted after")

	want := &changelog.Replica{Changes: map[string]int64{"t": 4}}
	clean(t, checker.Delivery("s", []evidence.Entry{first, first}, want))
	broken(t, checker.Delivery("s", []evidence.Entry{first}, want), "the log has 4 changes, the sink accepted 2")
	broken(t, checker.Delivery("s", []evidence.Entry{first, first, first}, want), "the sink accepted 6")
}

func TestEvents(t *testing.T) {
	entry := func(id int64, op string, ts uint64, rows int64) evidence.Entry {
		stage := int64(1)
		if op != "write" {
			stage = 3
		}
		return evidence.Entry{ID: id, Op: op, Table: "t", TS: ts, Stage: stage, Rows: rows}
	}
	step := func(kind, key string, at int64) evidence.Step {
		return evidence.Step{Changefeed: "f", Run: 1, Kind: kind, Key: key, At: at}
	}
	events := func(steps []evidence.Step, entries ...evidence.Entry) *checker.Report {
		return checker.Events("f", entries, steps, 10, 5, 25)
	}
	good := []evidence.Entry{
		entry(1, "write", 10, 2), entry(2, "ddl", 10, 0), entry(3, "ddl-known", 10, 0), entry(4, "write", 20, 1), entry(5, "write", 20, 0),
		entry(6, "ddl", 20, 0), entry(7, "write", 21, 1),
	}
	r := events(nil, good...)
	clean(t, r)
	require.Equal(t, int64(2), r.Figures["events written"])
	require.Equal(t, int64(1), r.Figures["events asked for again after they had been written"])
	broken(t, events(nil, good[:5]...), "the sync point at 20 was never written")
	broken(t, events(nil, append(good, entry(8, "ddl", 20, 0))...), "written after that at 20")
	broken(t, events(nil, append(good, entry(8, "write", 20, 1))...), "behind the event at 20")
	broken(t, events(nil, good[0], entry(2, "write", 11, 0), good[1], good[5]), "when something at 11 had been")

	clean(t, events([]evidence.Step{step("waiting", "10/sync", 1), step("passed", "10/sync", 4), step("written", "10/sync", 3)}, good...))
	broken(t, events([]evidence.Step{step("passed", "10/sync", 3), step("written", "10/sync", 3)}, good...), "before it was written")
	broken(t, events([]evidence.Step{step("passed", "10/sync", 4), step("written", "20/sync", 3)}, good...), "which nobody has written")
}

func TestContents(t *testing.T) {
	want := map[string]map[string]string{"1": {"id": "1", "v": "a"}, "2": {"id": "2", "v": "b"}}
	got := map[string]map[string]string{"1": {"id": "1", "v": "a"}, "2": {"id": "2", "v": "b"}}
	clean(t, checker.Contents("s", "t", want, got))
	got["2"] = map[string]string{"id": "2", "v": "c"}
	broken(t, checker.Contents("s", "t", want, got), `row "2" differs`)
	delete(got, "2")
	broken(t, checker.Contents("s", "t", want, got), `row "2" is missing`)
	got = maps.Clone(want)
	got["3"] = map[string]string{"id": "3"}
	broken(t, checker.Contents("s", "t", want, got), `row "3" should not be there`)
}

func TestHashes(t *testing.T) {
	h := func(server string, life int, index, a uint64) checker.Hash {
		return checker.Hash{Server: server, Life: life, Index: index, A: a}
	}
	r := checker.Hashes([]checker.Hash{h("s1", 1, 5, 1), h("s2", 1, 5, 1), h("s3", 1, 5, 1), h("s1", 2, 5, 1), h("s1", 1, 6, 2)})
	clean(t, r)
	require.Equal(t, int64(1), r.Figures["indexes compared on three servers"])
	require.Equal(t, int64(1), r.Figures["indexes compared across a restart"])
	broken(t, checker.Hashes([]checker.Hash{h("s1", 1, 5, 1), h("s2", 1, 5, 2)}), "at entry 5")
	broken(t, checker.Hashes([]checker.Hash{h("s1", 1, 5, 1), h("s1", 2, 5, 2)}), "s1 (life 2)")
}
