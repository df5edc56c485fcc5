package explore

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

var (
	auditSeed  = flag.Uint64("explore.seed", 0, "seed of the audit, 0 for a new one")
	auditWalks = flag.Int("explore.walks", 30, "random walks of the audit in each world")
)

// The explorer applies each command once to each state that it can tell apart, and takes what came of it for every state
// that looks the same. Long random walks through real states, in their real numbers and through the log's bytes, must come
// to the same verdict and the same look at every step.
func TestAuditRememberedSteps(t *testing.T) {
	seed := *auditSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("rerun: go test ./fsm/explore -run '^TestAuditRememberedSteps$' -explore.seed=%d -explore.walks=%d", seed, *auditWalks)
	for _, w := range Worlds() {
		t.Run(w.Name, func(t *testing.T) {
			require.NoError(t, w.prepare())
			m := newMachine(w)
			r := rand.New(rand.NewPCG(seed, 0))
			steps := 0
			for range *auditWalks {
				steps += audit(t, m, r)
			}
			require.Greater(t, steps, *auditWalks*10)
		})
	}
}

// auditLength bounds a walk.
const auditLength = 150

// audit takes one walk beside the remembered steps, and returns how many commands it compared.
func audit(t *testing.T, m *machine, r *rand.Rand) int {
	t.Helper()
	w := m.world
	walker := stepper{world: w, machine: m}
	now, _, err := m.first()
	require.NoError(t, err)
	real, _, err := w.begin()
	require.NoError(t, err)
	compared := 0
	for range auditLength {
		choices := walker.actions(&now, nil)
		if len(choices) == 0 {
			return compared
		}
		a := choices[r.IntN(len(choices))]
		next := now
		var v fsm.Verdict
		var e *edge
		if a.kind <= lastCommand {
			e = m.step(now.at, a)
		}
		moved, err := walker.take(&next, a)
		require.NoError(t, err)
		if e != nil {
			v = through(t, real, w.ask(w.shapeOf(real), a))
			compared++
			require.Equal(t, e.verdict, v.Reason)
			require.Len(t, v.Reports, len(e.reports))
			for i := range e.reports {
				require.Equal(t, e.reports[i], v.Reports[i])
			}
			require.Equal(t, canonOf(e.to.shape), canonOf(w.shapeOf(real)), "after %+v", a)
		}
		switch {
		case moved:
			now = next
		case e != nil && !e.still:
			return compared // the real state has left the world
		}
	}
	return compared
}

// through applies a command as a server does, by way of the bytes of the log.
func through(t *testing.T, s *fsm.State, request ask) fsm.Verdict {
	t.Helper()
	meta := s.Meta()
	data, err := logcodec.AppendEntry(nil, []fsm.Proposal{{Term: meta.Term, Command: request.command, Request: request.request}})
	require.NoError(t, err)
	entry, err := logcodec.DecodeEntry(meta.Index+1, meta.Term, data)
	require.NoError(t, err)
	return s.Apply(entry)[0]
}
