package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// mutants are all of them, by subject.
func mutants() []mutant {
	all := slices.Concat(
		admissionMutants(), nodeMutants(), requestMutants(), placementMutants(), spanMutants(), eventMutants(), workMutants(),
	)
	for i := range all {
		all[i].number = i + 1
	}
	return all
}

// leastMutants is how many rules must be broken at the very least.
const leastMutants = 40

// invariants are those that the state machine keeps alone, by their numbers in docs/verification.md. Writes in real time
// are a matter of histories, not of the state machine.
func invariants() []string {
	var all []string
	for n := range 16 {
		all = append(all, fmt.Sprintf("invariant %d", n+1))
	}
	return all
}

// sequences are the review sequences that are the state machine's matter.
func sequences() []string {
	return strings.Fields("R01 R02 R03 R06 R08 R11 R12 R13 R14 R15 R16 R17 R21 R22 R24 R25 R26 R27 R28 R29 R30 R33 R34 R35 R38 R39 R41 R42 R43 R44 R46 R47")
}

func TestThereAreEnoughMutants(t *testing.T) {
	ids := map[string]bool{}
	for _, m := range mutants() {
		require.False(t, ids[m.id], "two mutants are called %s", m.id)
		ids[m.id] = true
		require.Regexp(t, `^[a-z0-9-]+$`, m.id)
		require.NotEmpty(t, m.rules, m.id)
		require.NotEmpty(t, m.breaks, m.id)
		require.NotEmpty(t, m.tells, m.id)
	}
	require.GreaterOrEqual(t, len(ids), leastMutants)
}

// TestEveryRuleIsBroken fails on a row of the admission table, an invariant or a review sequence that no mutant breaks.
func TestEveryRuleIsBroken(t *testing.T) {
	broken := map[string]int{}
	for _, m := range mutants() {
		for _, rule := range m.rules {
			broken[rule]++
		}
	}
	var rules []string
	for _, cell := range fsm.AdmissionCells() {
		rules = append(rules, "row "+cell.Slot.String())
	}
	rules = append(append(rules, invariants()...), sequences()...)
	for _, rule := range slices.Compact(rules) {
		if broken[rule] == 0 {
			t.Errorf("no mutant breaks %s", rule)
		}
	}
}

// TestMutantsFitTheSource fails when a rule was rewritten and its mutant was not.
func TestMutantsFitTheSource(t *testing.T) {
	for _, m := range mutants() {
		_, err := m.mutated(root)
		if err != nil {
			t.Error(err)
		}
	}
	_, err := variants(root, mutants())
	require.NoError(t, err)
}

// refused are tests that notice nearly anything, and name no rule.
var refused = []string{"TestGolden", "TestEightReplicas", "TestReplay", "TestEqualSeeds", "TestTheExamples", "TestScenarios"}

// TestCatchersExist fails when a mutant names a catcher that is not there, or one that names no rule.
func TestCatchersExist(t *testing.T) {
	functions := testFunctions(t)
	checks := invariantNames(t)
	for _, m := range mutants() {
		for _, c := range m.tells {
			switch c.kind {
			case byScript:
				data, err := os.ReadFile(filepath.Join(root, "fsm", "testdata", c.name+".txt"))
				require.NoError(t, err, m.id)
				require.True(t, strings.HasPrefix(string(data), "# "), "%s names no rule: it has no comment at its head", c)
			case byTest:
				require.False(t, slices.ContainsFunc(refused, func(p string) bool { return strings.HasPrefix(c.name, p) }), "%s: %s", m.id, c)
				require.True(t, slices.ContainsFunc(functions, func(f string) bool { return strings.HasPrefix(f, c.name) }), "%s: there is no %s", m.id, c)
			case byInvariant:
				require.NotContains(t, c.name, "state hash", m.id)
				require.Contains(t, checks, c.name, m.id)
			default:
				t.Errorf("%s has a catcher of no kind", m.id)
			}
		}
	}
}

// testFunctions are the tests of the stages' packages.
func testFunctions(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, s := range stages() {
		paths, err := filepath.Glob(filepath.Join(root, s.pkg, "*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, paths, s.pkg)
		for _, path := range paths {
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
					found = append(found, fn.Name.Name)
				}
			}
		}
	}
	return found
}

// invariantNames are the strings of the files that check invariants: the names of rules are among them.
func invariantNames(t *testing.T) []string {
	t.Helper()
	var found []string
	paths, err := filepath.Glob(filepath.Join(root, "fsm", "invariant*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				found = append(found, strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	return found
}
