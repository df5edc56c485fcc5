package checker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-project/weir/jepsen/history"
)

// RealTime checks the order of the log against that of the clients: an operation that was called after another one had
// been answered cannot stand before it in the log. Operations of one entry have no order among them.
func RealTime(ops []*history.Operation) *Report {
	r := &Report{Check: "log order is real-time order"}
	decided := requestsOf(ops)
	slices.SortFunc(decided, func(a, b *history.Operation) int { return cmp.Compare(a.Answer.Index, b.Answer.Index) })
	var latest *history.Operation // the latest call of a smaller index
	for i := 0; i < len(decided); {
		end := i
		for end < len(decided) && decided[end].Answer.Index == decided[i].Answer.Index {
			end++
		}
		for _, op := range decided[i:end] {
			r.Looked++
			if latest != nil && op.Return < latest.Call {
				r.violate("request %s was answered at %d with entry %d before request %s was called at %d, which got the smaller entry %d",
					op.Request, op.Return, op.Answer.Index, latest.Request, latest.Call, latest.Answer.Index)
			}
		}
		for _, op := range decided[i:end] {
			if latest == nil || op.Call > latest.Call {
				latest = op
			}
		}
		i = end
	}
	return r
}

// requestsOf joins the operations of each request into one: it was called when the first of them was, and answered when
// the first of them was. Only those that the log decided are returned.
func requestsOf(ops []*history.Operation) []*history.Operation {
	joined := map[string]*history.Operation{}
	var decided []*history.Operation
	calls := map[string]int64{}
	for _, op := range ops {
		if first, seen := calls[op.Request]; !seen || op.Call < first {
			calls[op.Request] = op.Call
		}
	}
	for _, op := range ops {
		if !op.Answer.Outcome.Acknowledged() || op.Answer.Index == 0 {
			continue
		}
		one, seen := joined[op.Request]
		if !seen {
			twin := *op
			twin.Call = calls[op.Request]
			one = &twin
			joined[op.Request] = one
			decided = append(decided, one)
		}
		one.Return = min(one.Return, op.Return)
	}
	return decided
}

// UniqueEffects checks that each request took effect once: twins have one verdict, and no two requests were given the
// same operator or the same new epoch. Removals of one dispatcher share their operator by design.
func UniqueEffects(ops []*history.Operation) *Report {
	r := &Report{Check: "each request takes effect once"}
	first := map[string]*history.Operation{}
	operators, epochs := map[uint64]string{}, map[uint64]string{}
	twins := int64(0)
	for _, op := range ops {
		if !op.Answer.Outcome.Acknowledged() {
			continue
		}
		r.Looked++
		if one, seen := first[op.Request]; seen {
			twins++
			if !one.Answer.SameVerdict(&op.Answer) {
				r.violate("request %s got two verdicts: %s, and %s", op.Request, one.Answer.Brief(), op.Answer.Brief())
			}
			continue
		}
		first[op.Request] = op
		if op.Answer.Outcome != history.OK {
			continue
		}
		if op.Spec.Kind == history.Add || op.Spec.Kind == history.Move {
			claimNumber(r, operators, "operator", op.Answer.Operator, op.Request)
		}
		if op.Spec.Kind == history.Add {
			claimNumber(r, epochs, "epoch", op.Answer.Epoch, op.Request)
		}
	}
	r.figure("requests answered twice or more", twins)
	return r
}

func claimNumber(r *Report, taken map[uint64]string, what string, number uint64, request string) {
	if number == 0 {
		r.violate("request %s was admitted without %s", request, what)
		return
	}
	if other, seen := taken[number]; seen {
		r.violate("requests %s and %s were both given %s %d", other, request, what, number)
	}
	taken[number] = request
}

// Replays checks the answers that the same requests got when they were sent again after the run. An acknowledged verdict
// must come back as it was, marked as replayed. A request that was called not proposed must not have been answered before.
// One of unknown outcome may be either, and is resolved by this.
func Replays(ops []*history.Operation, again map[string]history.Answer) *Report {
	r := &Report{Check: "acknowledged verdicts stand"}
	verdicts := map[string]*history.Operation{}
	sent := map[string]bool{}
	for _, op := range ops {
		if op.Answer.Outcome.Acknowledged() {
			verdicts[op.Request] = op
		}
		sent[op.Request] = sent[op.Request] || op.MayLinger || op.Answer.Outcome == history.Unknown
	}
	var carriedOut, not, notProposed int64
	for _, request := range slices.Sorted(maps.Keys(sent)) {
		answer, asked := again[request]
		if !asked || !answer.Outcome.Acknowledged() {
			r.violate("request %s could not be asked again: %s %s", request, answer.Brief(), answer.Message)
			continue
		}
		r.Looked++
		op, acknowledged := verdicts[request]
		switch {
		case acknowledged && !op.Answer.SameVerdict(&answer):
			r.violate("request %s (%s by %s) was told %s, and after the run %s", request, op.Spec.Kind, op.Client, op.Answer.Brief(), answer.Brief())
		case acknowledged && !answer.Replayed:
			r.violate("request %s was told %s, and after the run it was carried out again", request, op.Answer.Brief())
		case acknowledged:
		case answer.Replayed && !sent[request]:
			r.violate("request %s was called not proposed, and yet it has a verdict: %s", request, answer.Brief())
		case answer.Replayed:
			carriedOut++
		case sent[request]:
			not++
		default:
			notProposed++
		}
	}
	r.figure("unknown outcomes that were carried out", carriedOut)
	r.figure("unknown outcomes that were not", not)
	r.figure("not proposed, and indeed not", notProposed)
	return r
}
