package scheduler

import (
	"fmt"

	"github.com/weir-project/weir/fsm"
)

// cancelsAtOnce bounds the cancellations of one plan.
const cancelsAtOnce = 16

// repair sees to operators past their deadline, if the replicated policy asks for it: it cancels each once, and after a
// second deadline fences the node that the operator still waits for. One node a plan, and none while another one is on
// its way out: what makes one node hang may make all of them hang.
func (p *planner) repair() {
	cancels, fenced := 0, p.someoneFenced()
	for _, op := range p.ops.stuck {
		if p.left == 0 || (p.in.SkipOperator != nil && p.in.SkipOperator(op)) {
			continue
		}
		switch {
		case p.meta.Policy.CancelStuck && cancellable(op):
			if cancels < cancelsAtOnce {
				p.propose(&fsm.CancelOperator{Op: op.ID})
				cancels++
			}
		case !fenced && p.meta.Policy.FenceStuck && p.nowMS >= op.DeadlineMS+p.meta.Policy.FenceStuckMS:
			fenced = p.fence(op)
		}
	}
}

// cancellable says whether CancelOperator would still change something.
func cancellable(op fsm.Operator) bool {
	return !op.Aborting && op.Kind != fsm.OpRemove && op.Kind != fsm.OpStop
}

func (p *planner) someoneFenced() bool {
	if len(p.ops.stuck) == 0 {
		return false
	}
	for n := range p.in.View.Nodes() {
		if n.Status == fsm.NodeStatusFenced {
			return true
		}
	}
	return false
}

// fence proposes to fence the node that the operator waits for.
func (p *planner) fence(op fsm.Operator) bool {
	row, waits := p.in.View.WaitsFor(op)
	n, known := p.in.View.NodeOf(row.Incarnation)
	if !waits || row.Phase == fsm.Absent || !known || n.Status != fsm.NodeStatusLive {
		return false
	}
	p.propose(&fsm.FenceNode{Node: n.Name, Incarnation: n.Incarnation, Why: fmt.Sprintf(
		"STUCK: %v %v waits for dispatcher %d, which has been %v here for %d ms", op.Kind, op.ID, row.ID, row.Phase, p.nowMS-row.PhaseMS)})
	return true
}
