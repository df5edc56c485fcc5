package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/scenario"
)

func TestTheModelAgreesOnLargerWorlds(t *testing.T) {
	for seed := range uint64(40) {
		l, s, m := scenario.NewRandomLog(scenario.Seeded(seed)), fsm.New(), newModel()
		for range 500 {
			e := l.Next()
			verdicts, answers := s.Apply(e), m.apply(e)
			for i := range verdicts {
				require.NoError(t, sameAnswer(verdicts[i], answers[i]), "seed %d, entry %d, command %d: %s %+v", seed, e.Index, i, e.Proposals[i].Command.Kind(), e.Proposals[i].Command)
			}
			require.NoError(t, m.compare(s), "seed %d, entry %d", seed, e.Index)
		}
	}
}
