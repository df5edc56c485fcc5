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
)

// All mutants are compiled into one test binary, so that a rule costs the time of its tests and not that of a compiler.
// Each function that a mutant changes is there several times: as it is, and once for each mutant that changes it. Under
// its own name stands a function that calls one of them:
//
//	func (s *State) heard(a0 Incarnation, a1 uint64) bool {
//		switch chosenMutant {
//		case 17:
//			return s.heard__17(a0, a1)
//		}
//		return s.heard__0(a0, a1)
//	}
//
// A process runs with one mutant or with none, as its environment says when it starts.

// chosenBy is the variable of the environment that holds the mutant's number, counted from 1.
const chosenBy = "WEIR_MUTANT"

// chooser is the file that each changed package gets.
const chooser = `package %s

import (
	"os"
	"strconv"
)

var chosenMutant = func() int {
	n, _ := strconv.Atoi(os.Getenv("` + chosenBy + `"))
	return n
}()
`

// edit is one text in place of another.
type edit struct {
	from, to int
	text     string
}

// variants are the files of the project with all mutants in them, and new ones, by their paths from the root.
func variants(projectRoot string, all []mutant) (map[string]string, error) {
	byFile := map[string][]int{}
	for i := range all {
		byFile[all[i].file] = append(byFile[all[i].file], i)
	}
	files := map[string]string{}
	for path, numbers := range byFile {
		data, err := os.ReadFile(filepath.Join(projectRoot, path))
		if err != nil {
			return nil, fmt.Errorf("read a file with rules: %w", err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse a file with rules: %w", err)
		}
		text, err := withVariants(f, string(data), all, numbers)
		if err != nil {
			return nil, err
		}
		files[path] = text
		files[filepath.Join(filepath.Dir(path), "zz_mutants.go")] = fmt.Sprintf(chooser, f.Name.Name)
	}
	return files, nil
}

// withVariants puts the mutants of one file into its text.
func withVariants(f *ast.File, src string, all []mutant, numbers []int) (string, error) {
	changed := map[*ast.FuncDecl][]int{}
	for _, i := range numbers {
		m := &all[i]
		at := strings.Index(src, m.old)
		fn := enclosing(f, at, at+len(m.old))
		if at < 0 || fn == nil {
			return "", fmt.Errorf("mutant %s: its text does not lie in the body of one function without type parameters", m.id)
		}
		changed[fn] = append(changed[fn], i)
	}
	var edits []edit
	for fn, numbers := range changed {
		edits = append(edits, edit{int(fn.Pos()) - 1, int(fn.End()) - 1, manyOf(fn, src, all, numbers)})
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		src = src[:e.from] + e.text + src[e.to:]
	}
	return src, nil
}

// enclosing finds the function whose body holds the text; offsets count from 0, positions from 1.
func enclosing(f *ast.File, from, to int) *ast.FuncDecl {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || from < int(fn.Body.Pos())-1 || to > int(fn.Body.End())-1 {
			continue
		}
		if fn.Type.TypeParams != nil || (fn.Recv != nil && generic(fn.Recv.List[0].Type)) {
			return nil
		}
		return fn
	}
	return nil
}

func generic(receiver ast.Expr) bool {
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	_, plain := receiver.(*ast.Ident)
	return !plain
}

// manyOf writes a function as it is, as each mutant has it, and one that chooses.
func manyOf(fn *ast.FuncDecl, src string, all []mutant, numbers []int) string {
	text := func(n ast.Node) string { return src[n.Pos()-1 : n.End()-1] }
	whole, nameAt := text(fn), int(fn.Name.Pos()-fn.Pos())
	named := func(body string, number int) string {
		return fmt.Sprintf("%s%s__%d%s", body[:nameAt], fn.Name.Name, number, body[nameAt+len(fn.Name.Name):])
	}
	receiver, callee := "", ""
	if fn.Recv != nil {
		receiver, callee = "(r0 "+text(fn.Recv.List[0].Type)+") ", "r0."
	}
	params, args := parameters(fn, text)
	results, back := "", ""
	if fn.Type.Results != nil {
		results, back = text(fn.Type.Results), "return "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s(%s) %s {\n\tswitch chosenMutant {\n", receiver, fn.Name.Name, params, results)
	for _, i := range numbers {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t%s%s%s__%d(%s)\n", i+1, back, callee, fn.Name.Name, i+1, args)
		if back == "" {
			b.WriteString("\t\treturn\n")
		}
	}
	fmt.Fprintf(&b, "\t}\n\t%s%s%s__0(%s)\n}\n\n%s\n", back, callee, fn.Name.Name, args, named(whole, 0))
	for _, i := range numbers {
		fmt.Fprintf(&b, "\n%s\n", named(strings.Replace(whole, all[i].old, all[i].new, 1), i+1))
	}
	return b.String()
}

// parameters are the function's with names of our own, and the arguments that pass them on.
func parameters(fn *ast.FuncDecl, text func(ast.Node) string) (params, args string) {
	var p, a []string
	for _, field := range fn.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := fmt.Sprintf("a%d", len(p))
			p = append(p, name+" "+text(field.Type))
			if _, more := field.Type.(*ast.Ellipsis); more {
				name += "..."
			}
			a = append(a, name)
		}
	}
	return strings.Join(p, ", "), strings.Join(a, ", ")
}
