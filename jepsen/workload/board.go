package workload

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// Group says what may be done to a dispatcher.
type Group string

// The groups.
const (
	// Busy dispatchers replicate the busy log: they are moved now and then.
	Busy Group = "busy"
	// Small ones are raced for all the time.
	Small Group = "small"
	// Churn ones are removed, and their tables added again.
	Churn Group = "churn"
)

// Known is a dispatcher as it was last seen.
type Known struct {
	ID    uint64
	Group Group
	Table string
	// Owner is its node, "" while it runs nowhere.
	Owner string
}

// Board is what all clients know of the cluster. It is safe for concurrent use.
type Board struct {
	mu          sync.Mutex
	dispatchers []Known
	operators   []uint64
	nodes       []string
}

// NewBoard starts with the nodes' names.
func NewBoard(nodes []string) *Board { return &Board{nodes: nodes} }

// See replaces what is known of the dispatchers.
func (b *Board) See(list []Known) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dispatchers = slices.Clone(list)
}

// Admitted notes an operator that somebody may want to cancel.
func (b *Board) Admitted(operator uint64) {
	const keep = 16
	b.mu.Lock()
	defer b.mu.Unlock()
	b.operators = append(b.operators, operator)
	if len(b.operators) > keep {
		b.operators = b.operators[len(b.operators)-keep:]
	}
}

// Any picks a dispatcher of a group.
func (b *Board) Any(r *rand.Rand, g Group) (Known, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Known
	for _, d := range b.dispatchers {
		if d.Group == g {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return Known{}, false
	}
	return list[r.IntN(len(list))], true
}

// Of finds the dispatcher of a table.
func (b *Board) Of(g Group, table string) (Known, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.dispatchers, func(d Known) bool { return d.Group == g && d.Table == table })
	if i < 0 {
		return Known{}, false
	}
	return b.dispatchers[i], true
}

// Operator picks an operator that was admitted lately; newer ones more often.
func (b *Board) Operator(r *rand.Rand) (uint64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.operators) == 0 {
		return 0, false
	}
	return b.operators[len(b.operators)-1-min(r.IntN(len(b.operators)), r.IntN(len(b.operators)))], true
}

// Node picks a node.
func (b *Board) Node(r *rand.Rand) string { return b.nodes[r.IntN(len(b.nodes))] }
