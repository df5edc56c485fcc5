package fsm_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pureImports is all that the state machine may know of the world.
var pureImports = []string{
	"bufio", "bytes", "cmp", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "hash/crc64", "io", "iter", "maps", "math",
	"math/bits", "slices", "strconv", "strings", "text/tabwriter", "unicode", "unicode/utf8",
}

// TestTheStateMachineIsPure looks for what linters cannot see (goroutines, channels, select, maps that are walked) and
// for imports of anything that has a clock, I/O, randomness, a lock or a log.
func TestTheStateMachineIsPure(t *testing.T) {
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "source", nil)
	for _, dir := range []string{".", "internal/wire", "internal/trie", "logcodec", "scenario"} {
		for _, complaint := range impurities(t, fset, imp, dir) {
			t.Error(complaint)
		}
	}
}

// TestThePurityTestBites plants one of each.
func TestThePurityTestBites(t *testing.T) {
	dir := t.TempDir()
	planted := `package planted

import ("math/rand"; "sync"; "time")

var mu sync.Mutex

func bad(m map[string]int) (sum int) {
	go func() {}()
	c := make(chan int)
	select { case c <- rand.Int(): default: }
	for _, v := range m { sum += v }
	_ = time.Now()
	return sum
}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "planted.go"), []byte(planted), 0o600))
	fset := token.NewFileSet()
	found := strings.Join(impurities(t, fset, importer.ForCompiler(fset, "source", nil), dir), "\n")
	for _, want := range []string{`imports "math/rand"`, `imports "sync"`, `imports "time"`, "goroutine", "channel", "select", "walks a map"} {
		require.Contains(t, found, want)
	}
}

func impurities(t *testing.T, fset *token.FileSet, imp types.Importer, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	require.NotEmpty(t, files, dir)
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	_, err = (&types.Config{Importer: imp}).Check(dir, fset, files, info)
	require.NoError(t, err)
	var found []string
	for _, f := range files {
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if !slices.Contains(pureImports, path) && !strings.HasPrefix(path, "github.com/weir-project/weir/fsm") {
				found = append(found, fmt.Sprintf("%s: imports %q", fset.Position(i.Pos()), path))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if what := impure(n, info); what != "" {
				found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
			}
			return true
		})
	}
	return found
}

func impure(n ast.Node, info *types.Info) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.ChanType:
		return "has a channel"
	case *ast.SelectStmt:
		return "has a select"
	case *ast.RangeStmt:
		if _, isMap := info.Types[n.X].Type.Underlying().(*types.Map); isMap {
			return "walks a map, whose order differs from run to run"
		}
	}
	return ""
}
