package mutants

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// root is the project's folder, seen from this package.
const root = "../.."

// mutant is one rule of the state machine, broken.
type mutant struct {
	// id names it for ever; number is its place in the list, from 1.
	id     string
	number int
	// rules are what it breaks: "row held", "invariant 5", "R06", "B22"; see the lists of rules.
	rules []string
	// breaks says in a few words what goes wrong.
	breaks string
	// file holds old exactly once; new stands there instead.
	file, old, new string
	// tells are the catchers that name the rule. One of them must fail.
	tells []catcher
}

// catcherKind says what kind of thing caught a mutant.
type catcherKind uint8

const (
	byScript catcherKind = iota + 1
	byTest
	byInvariant
)

// catcher is something that names a rule and fails when it is broken.
type catcher struct {
	kind catcherKind
	name string
}

// script is a scenario of fsm/testdata, without its suffix.
func script(name string) catcher { return catcher{byScript, name} }

// test is a test function, or all those with the prefix.
func test(name string) catcher { return catcher{byTest, name} }

// invariant is the name under which CheckInvariants reports a violation.
func invariant(name string) catcher { return catcher{byInvariant, name} }

// String is how the table names it.
func (c catcher) String() string {
	switch c.kind {
	case byScript:
		return "script `" + c.name + ".txt`"
	case byTest:
		return "`" + c.name + "`"
	case byInvariant:
		return "invariant \"" + c.name + "\""
	default:
		return "nothing"
	}
}

// mutated is the text of the mutant's file with the rule broken.
func (m *mutant) mutated(projectRoot string) (string, error) {
	data, err := os.ReadFile(filepath.Join(projectRoot, m.file))
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.id, err)
	}
	text := string(data)
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: its old text stands in %s %d times, should be once: the rule has been rewritten, so rewrite the mutant\n%s", m.id, m.file, n, m.old)
	}
	if m.old == m.new {
		return "", fmt.Errorf("mutant %s changes nothing", m.id)
	}
	text = strings.Replace(text, m.old, m.new, 1)
	if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, parser.SkipObjectResolution); err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.id, err)
	}
	return text, nil
}
