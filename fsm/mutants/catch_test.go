package mutants

import (
	"regexp"
	"slices"
	"strings"
)

// caught is who caught a mutant and what was said first.
type caught struct {
	by      catcher
	test    string
	message string
}

// hashDiffers is how a comparison of state hashes fails.
var hashDiffers = regexp.MustCompile(`expected: (fsm\.)?Digest\{`)

// invariantLine is how a violation is printed, wherever it is found.
var invariantLine = regexp.MustCompile(`invariant violated: ([^:\n]+): ([^\n]*)`)

// countsFor finds the first failure that counts for the mutant: one of a catcher that names its rule.
func countsFor(m *mutant, run testRun) (caught, bool) {
	if run.panicked {
		return caught{}, false
	}
	for _, f := range run.failures {
		for _, c := range whatFailed(f) {
			if i := slices.IndexFunc(m.tells, func(t catcher) bool { return t.matches(c.by) }); i >= 0 {
				return c, true
			}
		}
	}
	return caught{}, false
}

// matches: a test may be named by a prefix, all else in full.
func (c catcher) matches(other catcher) bool {
	if c.kind == byTest && other.kind == byTest {
		return strings.HasPrefix(other.name, c.name)
	}
	return c == other
}

// whatFailed lists what a failing test is evidence of: the invariant that it found broken, then the script or the test
// itself. A difference in a state hash is evidence of nothing.
func whatFailed(f failure) []caught {
	var all []caught
	if m := invariantLine.FindStringSubmatch(f.output); m != nil && !strings.Contains(m[1], "state hash") {
		all = append(all, caught{by: invariant(m[1]), test: f.test, message: m[2]})
	}
	name, below, _ := strings.Cut(f.test, "/")
	if name == "TestScenarios" {
		if line, ok := tellingLine(f.output); ok {
			return append(all, caught{by: script(strings.TrimSuffix(below, ".txt")), test: f.test, message: line})
		}
		return all
	}
	if hashDiffers.MatchString(f.output) {
		return all
	}
	return append(all, caught{by: test(name), test: f.test, message: firstMessage(f.output)})
}

// tellingLine finds the first line of a script's output that differs in something that a rule decides: a verdict, a
// phase, a position, an order, a placement. State hashes, sentences for people and details are only how it is told; a
// script whose differences are of these alone has noticed nothing.
func tellingLine(output string) (string, bool) {
	if m := invariantLine.FindString(output); m != "" {
		return m, true
	}
	at := ""
	var want, got []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if m := mismatchAt.FindStringSubmatch(line); m != nil {
			if said, ok := difference(at, want, got); ok {
				return said, true
			}
			at, want, got = m[1], nil, nil
			continue
		}
		switch line = strings.TrimPrefix(line, "    "); {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "- "):
			want = appendTelling(want, strings.TrimLeft(line, " ")[2:])
		case strings.HasPrefix(strings.TrimLeft(line, " "), "+ "):
			got = appendTelling(got, strings.TrimLeft(line, " ")[2:])
		}
	}
	return difference(at, want, got)
}

var (
	mismatchAt = regexp.MustCompile(`([a-z0-9_]+\.txt:\d+): the output is not the expected one`)
	// detail is text for people inside a line.
	detail = regexp.MustCompile(` detail=("(\\.|[^"\\])*"|\S+)`)
	// structured is a line that the state machine decides: facts, a reason or a phase. What is left over are sentences.
	structured = regexp.MustCompile(`(^|[ (])[a-z-]+=\S|: [A-Z][A-Z_]{3,}\b| -> |^\s*(start|stop|changefeed|table|node|op|barrier|write|pass|forget|running|orders|d\d+)\b`)
)

// appendTelling keeps the part of a line that a rule decides.
func appendTelling(lines []string, line string) []string {
	line = detail.ReplaceAllString(line, "")
	if strings.HasPrefix(line, "hash ") || !structured.MatchString(line) {
		return lines
	}
	return append(lines, strings.TrimSpace(line))
}

// difference says how two outputs differ first, if they do.
func difference(at string, want, got []string) (string, bool) {
	missing := func(in, from []string) string {
		for _, line := range in {
			if !slices.Contains(from, line) {
				return line
			}
		}
		return ""
	}
	w, g := missing(want, got), missing(got, want)
	switch {
	case w == "" && g == "":
		return "", false
	case w == "":
		return at + ": came " + g, true
	case g == "":
		return at + ": missing " + w, true
	default:
		return at + ": " + w + " came as " + g, true
	}
}

var (
	failedAt = regexp.MustCompile(`([a-z0-9_]+_test\.go:\d+)`)
	said     = regexp.MustCompile(`Messages:\s+(.*)`)
	went     = regexp.MustCompile(`Error:\s+(.*)`)
	// unexpected is the text of an error that came where none should.
	unexpected = regexp.MustCompile(`Received unexpected error:\n\s*(.*)`)
	expected   = regexp.MustCompile(`expected: (.*)\n\s*actual\s*: (.*)`)
)

// firstMessage is where a test failed and what it said, in one line.
func firstMessage(output string) string {
	text := failedAt.FindString(output)
	if m := went.FindStringSubmatch(output); m != nil {
		text += ": " + strings.TrimSpace(m[1])
	}
	if m := unexpected.FindStringSubmatch(output); m != nil {
		text += " " + strings.TrimSpace(m[1])
	}
	if m := expected.FindStringSubmatch(output); m != nil {
		text += " expected " + m[1] + ", actual " + m[2]
	}
	if m := said.FindStringSubmatch(output); m != nil {
		text += " (" + strings.TrimSpace(m[1]) + ")"
	}
	return strings.Trim(text, ": ")
}
