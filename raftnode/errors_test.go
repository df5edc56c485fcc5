package raftnode

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

// sentinels are all errors that the library exports, and what we make of them.
func sentinels() map[string]struct {
	err   error
	class Class
} {
	type row = struct {
		err   error
		class Class
	}
	return map[string]row{
		"ErrNotLeader":                       {raft.ErrNotLeader, ClassNotLeader},
		"ErrNotVoter":                        {raft.ErrNotVoter, ClassNotLeader},
		"ErrEnqueueTimeout":                  {raft.ErrEnqueueTimeout, ClassOverloaded},
		"ErrLeadershipTransferInProgress":    {raft.ErrLeadershipTransferInProgress, ClassTransferring},
		"ErrLeadershipLost":                  {raft.ErrLeadershipLost, ClassUnknownOutcome},
		"ErrRaftShutdown":                    {raft.ErrRaftShutdown, ClassUnknownOutcome},
		"ErrAbortedByRestore":                {raft.ErrAbortedByRestore, ClassUnknownOutcome},
		"ErrLeader":                          {raft.ErrLeader, ClassUnknownOutcome},
		"ErrNothingNewToSnapshot":            {raft.ErrNothingNewToSnapshot, ClassUnknownOutcome},
		"ErrUnsupportedProtocol":             {raft.ErrUnsupportedProtocol, ClassUnknownOutcome},
		"ErrCantBootstrap":                   {raft.ErrCantBootstrap, ClassUnknownOutcome},
		"ErrIncompatibleLogStore":            {raft.ErrIncompatibleLogStore, ClassUnknownOutcome},
		"ErrTransportShutdown":               {raft.ErrTransportShutdown, ClassUnknownOutcome},
		"ErrPipelineShutdown":                {raft.ErrPipelineShutdown, ClassUnknownOutcome},
		"ErrLogNotFound":                     {raft.ErrLogNotFound, ClassUnknownOutcome},
		"ErrPipelineReplicationNotSupported": {raft.ErrPipelineReplicationNotSupported, ClassUnknownOutcome},
	}
}

func TestTranslate_every_sentinel_of_the_library(t *testing.T) {
	table := sentinels()
	for _, name := range librarySentinels(t) {
		row, known := table[name]
		require.True(t, known, "the library has a sentinel %s that the table does not name", name)
		for _, err := range []error{row.err, fmt.Errorf("wrapped: %w", row.err)} {
			got := translate(err)
			require.Equal(t, row.class, got.Class, name)
			require.NotErrorIs(t, got, row.err, "%s leaves the package", name)
			require.ErrorIs(t, got, row.class.sentinel(), name)
			require.NotEmpty(t, got.Error())
		}
	}
	require.Nil(t, translate(nil))
	require.Equal(t, ClassUnknownOutcome, translate(errors.New("disk full")).Class)
}

// librarySentinels reads the names of all exported errors out of the library's source.
func librarySentinels(t *testing.T) []string {
	t.Helper()
	pkg, err := build.Import("github.com/hashicorp/raft", ".", 0)
	require.NoError(t, err)
	var names []string
	for _, file := range pkg.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, file), nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	require.GreaterOrEqual(t, len(names), 12, "the source of the library was not found")
	return names
}

func TestClass_each_has_a_code_a_sentinel_and_an_answer_to_was_it_proposed(t *testing.T) {
	seen := map[string]bool{}
	for c := ClassNotLeader; c <= ClassTooLarge; c++ {
		require.NotContains(t, c.String(), "CLASS_")
		require.False(t, seen[c.String()])
		seen[c.String()] = true
		require.Error(t, c.sentinel())
		require.Equal(t, c == ClassUnknownOutcome, c.MaybeProposed(), c.String())
		for o := ClassNotLeader; o <= ClassTooLarge; o++ {
			require.Equal(t, o == c, errors.Is(classError(c, "x"), o.sentinel()))
		}
	}
	require.True(t, Class(99).MaybeProposed())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, contextError(ctx, ClassOverloaded, ""), context.Canceled)
}

// The library hands the verdict over beside a nil error, so that one place alone may look at it.
func TestField_B77_only_unwrap_looks_at_what_the_state_machine_answered(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Response" {
					require.Equal(t, "unwrap", fn.Name.Name, "%s looks at Response", name)
					found++
				}
				return true
			})
		}
	}
	require.Equal(t, 1, found)
}

type fakeFuture struct {
	err      error
	response any
}

func (f fakeFuture) Error() error  { return f.err }
func (f fakeFuture) Response() any { return f.response }
func (fakeFuture) Index() uint64   { return 1 }

func TestField_B77_a_verdict_can_not_be_dropped(t *testing.T) {
	refused := fsm.Verdict{Reason: fsm.OperatorExists}
	accepted := fsm.Verdict{Reason: fsm.Accepted}

	for name, f := range map[string]fakeFuture{
		"no answer at all":          {},
		"an answer of another type": {response: []fsm.Verdict{accepted}},
		"too few verdicts":          {response: answer{verdicts: []fsm.Verdict{accepted}}},
		"a fault":                   {response: answer{fault: &FaultError{Cause: FaultEntry}}},
		"the library's error":       {err: raft.ErrLeadershipLost, response: answer{verdicts: []fsm.Verdict{accepted, accepted}}},
	} {
		verdicts, err := unwrap(f, 2)
		require.NotNil(t, err, name)
		require.Equal(t, ClassUnknownOutcome, err.Class, name)
		require.Nil(t, verdicts, name)
	}
	verdicts, err := unwrap(fakeFuture{response: answer{verdicts: []fsm.Verdict{accepted, refused}}}, 2)
	require.Nil(t, err)

	var rejected *RejectedError
	require.ErrorAs(t, Outcome(verdicts, nil), &rejected)
	require.Equal(t, 1, rejected.Position)
	require.Equal(t, fsm.OperatorExists, rejected.Verdict.Reason)
	require.ErrorIs(t, Outcome([]fsm.Verdict{accepted}, ErrNotLeader), ErrNotLeader)
	require.Error(t, Outcome(nil, nil), "no verdict is no success")
	require.Error(t, Outcome([]fsm.Verdict{{}}, nil), "a zero verdict is no success")
	require.NoError(t, Outcome([]fsm.Verdict{accepted}, nil))
}
