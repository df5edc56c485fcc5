package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Grid is a text table: aligned columns, two spaces apart, no colours, no lines.
type Grid struct {
	head []string
	rows [][]string
}

// NewGrid starts a table with the given column heads.
func NewGrid(head ...string) *Grid { return &Grid{head: head} }

// Add adds a row; an empty cell shows as -.
func (g *Grid) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Dash(strings.Map(printable, c))
	}
	g.rows = append(g.rows, row)
}

// Print writes the table; without a row it writes the sentence instead.
func (g *Grid) Print(w io.Writer, none string) error {
	if len(g.rows) == 0 {
		_, err := fmt.Fprintln(w, none)
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{g.head}, g.rows...) {
		// The last column needs no padding: no line ends in spaces.
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// printable keeps what a name or a sentence from elsewhere cannot break the table with.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}
