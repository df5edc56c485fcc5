package checker

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/jepsen/history"
)

// Operator is a running or finished operator as the cluster lists it. Ended is 0 while it runs.
type Operator struct {
	ID         uint64 `json:"id"`
	Kind       string `json:"kind"`
	Dispatcher uint64 `json:"dispatcher"`
	To         string `json:"to,omitempty"`
	By         string `json:"by,omitempty"`
	Since      uint64 `json:"since"`
	Ended      uint64 `json:"ended,omitempty"`
	Result     string `json:"result,omitempty"`
}

// OneOperator checks that no dispatcher was ever in two operators, that every admission shows as an operator of its
// dispatcher, and that every refusal for an operator in the way names one that was there at that entry.
func OneOperator(ops []*history.Operation, listed []Operator) *Report {
	r := &Report{Check: "one operator a dispatcher"}
	byID := map[uint64]Operator{}
	for _, o := range listed {
		byID[o.ID] = o
	}
	disjoint(r, byID)
	var admitted, refused, forgotten int64
	for _, op := range ops {
		var known bool
		switch {
		case op.Answer.Outcome == history.OK && op.Answer.Operator != 0:
			admitted++
			known = shown(r, op, byID)
		case op.Answer.Reason == "OPERATOR_EXISTS":
			refused++
			known = named(r, op, byID)
		default:
			continue
		}
		r.Looked++
		if !known {
			forgotten++
		}
	}
	r.figure("admissions looked for among the operators", admitted)
	r.figure("refusals that name the winner", refused)
	r.figure("operators that the cluster had forgotten", forgotten)
	return r
}

// disjoint checks that the operators of a dispatcher follow each other.
func disjoint(r *Report, byID map[uint64]Operator) {
	byDispatcher := map[uint64][]Operator{}
	for _, o := range byID {
		byDispatcher[o.Dispatcher] = append(byDispatcher[o.Dispatcher], o)
	}
	for d, list := range byDispatcher {
		slices.SortFunc(list, func(a, b Operator) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID)) })
		for i := 1; i < len(list); i++ {
			r.Looked++
			if before := list[i-1]; before.Ended == 0 || before.Ended > list[i].Since {
				r.violate("dispatcher %d was in operator %d from entry %d to %d (0: still) and in operator %d from entry %d",
					d, before.ID, before.Since, before.Ended, list[i].ID, list[i].Since)
			}
		}
	}
}

// shown checks an admission's operator; it returns false if the cluster does not remember it.
func shown(r *Report, op *history.Operation, byID map[uint64]Operator) bool {
	o, ok := byID[op.Answer.Operator]
	if ok && (o.Dispatcher != op.Answer.Dispatcher || (o.Since != op.Answer.Index && op.Spec.Kind != history.Remove)) {
		r.violate("request %s was admitted as operator %d of dispatcher %d at entry %d; the cluster lists it for dispatcher %d since entry %d",
			op.Request, op.Answer.Operator, op.Answer.Dispatcher, op.Answer.Index, o.Dispatcher, o.Since)
	}
	return ok
}

// named checks a refusal's winner; it returns false if the cluster does not remember that operator.
func named(r *Report, op *history.Operation, byID map[uint64]Operator) bool {
	if op.Answer.Operator == 0 {
		r.violate("request %s was refused with OPERATOR_EXISTS, which names no operator", op.Request)
		return true
	}
	o, ok := byID[op.Answer.Operator]
	if !ok {
		return false
	}
	at := op.Answer.Index
	if o.Dispatcher != op.Spec.Dispatcher || o.Since > at || (o.Ended != 0 && o.Ended < at) {
		r.violate("request %s for dispatcher %d was refused at entry %d in favour of operator %d, which was in dispatcher %d from entry %d to %d (0: still)",
			op.Request, op.Spec.Dispatcher, at, o.ID, o.Dispatcher, o.Since, o.Ended)
	}
	return true
}

// Race is one race for an absent dispatcher, with every contender's operation.
type Race struct {
	Dispatcher uint64
	Operations []*history.Operation
	// LeaderLost: the leader was killed while the operations were open.
	LeaderLost bool
	// Outside is the operator of somebody else (the scheduler) that was there first, nil for none; Epoch is the one that it
	// was given.
	Outside      *Operator
	OutsideEpoch uint64
}

// Races checks that of the contenders exactly one was admitted, and that each loser was told the winner: its operator, or,
// when that had ended already, the epoch that it was given.
func Races(races []Race) *Report {
	r := &Report{Check: "one winner a race, whom every loser is told"}
	var lost, outside int64
	for i := range races {
		race := &races[i]
		r.Looked++
		if race.Outside != nil {
			outside++
		}
		if race.LeaderLost {
			lost++
		}
		winner, epoch, admitted := race.winner()
		if admitted != 1 {
			r.violate("race for dispatcher %d: %d contenders were admitted, not one", race.Dispatcher, admitted)
			continue
		}
		for _, op := range race.Operations {
			if op.Answer.Outcome != history.OK && !tells(&op.Answer, winner, epoch) {
				r.violate("race for dispatcher %d: operator %d won, and request %s (%s) was told %s %s",
					race.Dispatcher, winner, op.Request, op.Spec.Kind, op.Answer.Brief(), op.Answer.Message)
			}
		}
	}
	r.figure("with the leader killed meanwhile", lost)
	r.figure("won by the scheduler", outside)
	return r
}

// winner is the operator that was admitted, its epoch, and how many were.
func (race *Race) winner() (operator, epoch uint64, admitted int) {
	for _, op := range race.Operations {
		if op.Answer.Outcome == history.OK {
			operator, epoch, admitted = op.Answer.Operator, op.Answer.Epoch, admitted+1
		}
	}
	if race.Outside != nil {
		operator, epoch, admitted = race.Outside.ID, race.OutsideEpoch, admitted+1
	}
	return operator, epoch, admitted
}

// tells says whether a refusal names the winner.
func tells(a *history.Answer, operator, epoch uint64) bool {
	return a.Outcome == history.Rejected && (a.Operator == operator || (a.Reason == "ALREADY_OWNED" && a.Epoch == epoch))
}
