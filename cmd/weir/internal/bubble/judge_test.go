package bubble

import (
	"fmt"

	"github.com/weir-project/weir/api/client"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// answer is how one request of a race ended, for good.
type answer struct {
	kind  fsm.OperatorKind
	to    string
	given *weirv1.Admission // nil: refused
	no    *client.Error
}

// index is the log entry that decided the request.
func (a answer) index() uint64 {
	if a.given != nil {
		return a.given.GetIndex()
	}
	return a.no.Number("index")
}

func (a answer) String() string {
	if a.given != nil {
		return fmt.Sprintf("%v to %s: admitted %v", a.kind, a.to, a.given)
	}
	return fmt.Sprintf("%v to %s: %v %v", a.kind, a.to, a.no, a.no.Facts)
}

// race is what came of an Add and a Move from nowhere of one absent dispatcher.
type race struct {
	answers [2]answer
	again   [2]answer // the same requests, sent again afterwards
	// operators are those of the dispatcher in the final state, starts the orders to start it that a node obeyed, under
	// the epochs of the final state.
	operators []fsm.Operator
	starts    []start
}

// winner is the request that was admitted, and the other one.
func (r *race) winner() (won, lost answer, err error) {
	a, b := r.answers[0], r.answers[1]
	switch {
	case a.given != nil && b.given != nil:
		return a, b, fmt.Errorf("two operators were admitted: %v and %v", a, b)
	case a.given != nil:
		return a, b, nil
	case b.given != nil:
		return b, a, nil
	default:
		return a, b, fmt.Errorf("no operator was admitted: %v and %v", a, b)
	}
}

// judge says what is wrong with a race.
func (r *race) judge() error {
	won, lost, err := r.winner()
	if err != nil {
		return err
	}
	if len(r.operators) != 1 {
		return fmt.Errorf("the state knows %d operators, should be the winner alone: %+v", len(r.operators), r.operators)
	}
	op := r.operators[0]
	if uint64(op.ID) != won.given.GetOpId() || op.Kind != won.kind || string(op.To) != won.to {
		return fmt.Errorf("%v was admitted, the state knows %+v", won, op)
	}
	if err := names(lost.no, won); err != nil {
		return err
	}
	if len(r.starts) != 1 || r.starts[0].node != won.to {
		return fmt.Errorf("%v was admitted, these starts were obeyed: %+v", won, r.starts)
	}
	for i, first := range r.answers {
		if err := same(first, r.again[i]); err != nil {
			return err
		}
	}
	return nil
}

// names: the refusal says who has won.
func names(no *client.Error, won answer) error {
	switch no.Reason {
	case fsm.OperatorExists.String():
		if no.Number("operator") == won.given.GetOpId() {
			return nil
		}
	case fsm.AlreadyOwned.String(), fsm.NotOwner.String():
		if no.Facts["node"] == won.to && no.Number("epoch") == won.given.GetEpoch() {
			return nil
		}
	}
	return fmt.Errorf("the refusal %s %v does not name the winner %v", no.Reason, no.Facts, won)
}

// same: a request that is sent again gets its first verdict.
func same(first, again answer) error {
	switch {
	case (first.given == nil) != (again.given == nil):
	case first.given != nil:
		if f, a := first.given, again.given; a.GetReplayed() && f.GetOpId() == a.GetOpId() && f.GetEpoch() == a.GetEpoch() &&
			f.GetIndex() == a.GetIndex() {
			return nil
		}
	case first.no.Reason == again.no.Reason && first.index() == again.index() && again.no.Facts["replayed"] == "true" &&
		first.no.Facts["operator"] == again.no.Facts["operator"] && first.no.Facts["epoch"] == again.no.Facts["epoch"]:
		return nil
	}
	return fmt.Errorf("the request was answered with %v, and with %v when it was sent again", first, again)
}
