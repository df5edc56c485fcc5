package mutants

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of go tool test2json.
type event struct {
	Action string
	Test   string
	Output string
}

// failure is a test that failed, with what it printed.
type failure struct {
	test   string
	output string
}

// testRun is what one process of tests said.
type testRun struct {
	failures []failure
	passed   int
	// panicked: the process of a test ended by itself, so what its tests would have said is not known.
	panicked bool
}

// readEvents takes the output of go tool test2json apart. A test with failing subtests is left out: they say what failed.
func readEvents(r io.Reader) (testRun, error) {
	var run testRun
	var order []string
	failed, output := map[string]bool{}, map[string]*strings.Builder{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return run, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		if output[e.Test] == nil {
			output[e.Test] = &strings.Builder{}
		}
		output[e.Test].WriteString(e.Output)
		switch {
		case e.Action == "output" && (strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")):
			run.panicked = true
		case e.Action == "pass" && e.Test != "":
			run.passed++
		case e.Action == "fail" && e.Test != "":
			failed[e.Test] = true
			order = append(order, e.Test)
		}
	}
	for _, name := range order {
		if !anyBelow(name, order) {
			run.failures = append(run.failures, failure{test: name, output: output[name].String()})
		}
	}
	return run, lines.Err()
}

func anyBelow(name string, failed []string) bool {
	for _, other := range failed {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}
