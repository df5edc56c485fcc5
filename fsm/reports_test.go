package fsm_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const reportsPage = "../docs/field-reports.md"

var carriesID = regexp.MustCompile(`^Test(Field|Review)_[BR]\d\d`)

// reportTests lists every test of the project that is named after a field report or a review sequence, with its folder.
func reportTests(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "tmp") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && carriesID.MatchString(fn.Name.Name) {
				found[fn.Name.Name] = append(found[fn.Name.Name], filepath.Dir(path))
			}
		}
		return nil
	}))
	return found
}

// TestTheReportsPageIsTrue fails when docs/field-reports.md names a test that is not there, or does not name one that
// carries an id; and when a report of its first table has no test of the state machine alone.
func TestTheReportsPageIsTrue(t *testing.T) {
	data, err := os.ReadFile(reportsPage)
	require.NoError(t, err)
	alone, _, found := strings.Cut(string(data), "\n## Shown with nodes")
	require.True(t, found, "the page has lost its second table")
	tests := reportTests(t)
	row := regexp.MustCompile(`(?m)^\| ([BR]\d\d) \|.*$`)
	name := regexp.MustCompile(`\x60(Test(?:Field|Review)_([BR]\d\d)[a-z]?_[A-Za-z0-9_]*)(\*?)\x60`)
	named := map[string]bool{}
	ids := map[string]bool{}
	for _, line := range row.FindAllStringSubmatch(string(data), -1) {
		require.False(t, ids[line[1]], "%s has two lines", line[1])
		ids[line[1]] = true
		patterns := name.FindAllStringSubmatch(line[0], -1)
		require.NotEmpty(t, patterns, "%s names no test", line[1])
		for _, p := range patterns {
			require.Equal(t, line[1], p[2], "%s is a test of another id", p[1])
			hits := 0
			for test, folders := range tests {
				if test == p[1] || (p[3] == "*" && strings.HasPrefix(test, p[1])) {
					named[test] = true
					if !strings.Contains(alone, line[0]) || slices.Contains(folders, "../fsm") {
						hits++
					}
				}
			}
			require.NotZero(t, hits, "%s: there is no test %s%s", line[1], p[1], p[3])
		}
	}
	require.GreaterOrEqual(t, len(row.FindAllString(alone, -1)), 29, "reports that the state machine alone can show")
	for test, folders := range tests {
		require.True(t, named[test], "%s of %v is not on the page: add a line to %s", test, folders, reportsPage)
	}
}
