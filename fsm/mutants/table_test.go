package mutants

import (
	"fmt"
	"os"
	"strings"
)

// document holds the table, between the markers.
const (
	document    = "docs/verification.md"
	tableBegins = "<!-- mutants: written by make mutants -->"
	tableEnds   = "<!-- mutants: end -->"
)

// table is the report, one line a mutant.
func table(outcomes []outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Caught %d of %d.\n\n", len(outcomes), len(outcomes))
	b.WriteString("| mutant | rules | what it breaks | file | caught by | what was said first | s |\n|---|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		m := o.mutant
		by := o.caught.by.String()
		if o.caught.by.kind == byInvariant {
			by += " in `" + o.caught.test + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.0f |\n",
			m.id, strings.Join(m.rules, ", "), cell(m.breaks), strings.TrimPrefix(m.file, "fsm/"), by, quoted(o.caught.message), o.seconds)
	}
	return b.String()
}

// cell keeps text inside its column.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// longest is how much of a message the table shows.
const longest = 160

func quoted(message string) string {
	message = strings.Join(strings.Fields(strings.ReplaceAll(message, "`", "'")), " ")
	if len(message) > longest {
		message = message[:longest] + "..."
	}
	return "`" + cell(message) + "`"
}

// writeTable puts the table between the markers of the document.
func writeTable(path, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document of the mutants: %w", err)
	}
	before, rest, begins := strings.Cut(string(data), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no markers %q and %q", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, []byte(before+tableBegins+"\n\n"+text+"\n"+tableEnds+after), 0o600)
}
