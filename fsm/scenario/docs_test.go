package scenario

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docs = "../../docs/scenarios.md"

var update = flag.Bool("update", false, "rewrite the examples of docs/scenarios.md with the output that they really give")

// fences cuts a document at the fences of its examples: every second part is one.
func fences(t *testing.T, text string) []string {
	t.Helper()
	var parts []string
	for {
		before, rest, found := strings.Cut(text, "```scenario\n")
		if !found {
			return append(parts, text)
		}
		example, after, closed := strings.Cut(rest, "```")
		require.True(t, closed, "an example is not closed")
		parts = append(parts, before, example)
		text = after
	}
}

// TestTheExamplesOfTheDocumentRun keeps docs/scenarios.md true.
func TestTheExamplesOfTheDocumentRun(t *testing.T) {
	data, err := os.ReadFile(docs)
	require.NoError(t, err)
	parts := fences(t, string(data))
	require.GreaterOrEqual(t, len(parts), 5, "two complete examples at least")
	for i := 1; i < len(parts); i += 2 {
		r, err := Run(strings.NewReader(parts[i]), "example", Options{})
		require.NoError(t, err, "%s", r.Script)
		if !*update {
			require.Empty(t, r.Mismatches)
			require.Equal(t, parts[i], r.Script, "an example without its output; rewrite it: go test ./fsm/scenario -run Document -update")
		}
		parts[i] = "```scenario\n" + r.Script + "```"
	}
	if *update {
		require.NoError(t, os.WriteFile(docs, []byte(strings.Join(parts, "")), 0o600))
	}
}

// TestTheDocumentNamesEveryVerb compares the usage of each verb letter by letter.
func TestTheDocumentNamesEveryVerb(t *testing.T) {
	data, err := os.ReadFile(docs)
	require.NoError(t, err)
	text := string(data)
	for _, v := range verbs() {
		require.Contains(t, text, "\n- `"+strings.TrimSpace(v.name+" "+v.usage)+"`: ", v.name)
	}
	require.Contains(t, text, "`"+batchVerb+"`")
	require.Contains(t, text, "`"+bareVerb+"`")
	for _, word := range []string{"req=", "time=", "term=", "level=", "by=", "wall=", "entry-term=", "times="} {
		require.Contains(t, text, "| `"+word, word)
	}
	require.Equal(t, len(verbs()), strings.Count(text, "\n- `"), "the document has a verb that is not there")
	for limit := range strings.FieldsSeq(policyLine(newWorld(nil).state.Meta().Policy)) {
		name, _, _ := strings.Cut(limit, "=")
		require.Contains(t, text, "`"+name+"`")
	}
}
