package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// separator stands between the commands of a block and its expected output.
const separator = "----"

// line is one line of a script with its number.
type line struct {
	number int
	text   string
}

// block is a run of lines without a blank one: commands, and what they are expected to print.
type block struct {
	commands []line // comments included
	expected []line
	expects  bool // a separator was there
}

// piece is a block, or a line between blocks that is kept as it is.
type piece struct {
	between line
	block   *block
}

// maxLine is the longest line of a script, in bytes.
const maxLine = 1 << 20

// readScript splits a script into blocks.
func readScript(r io.Reader) ([]piece, error) {
	var pieces []piece
	var open *block
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	n := 0
	for scan.Scan() {
		n++
		l := line{number: n, text: strings.TrimRight(scan.Text(), " \t\r")}
		switch {
		case l.text == "":
			open = nil
			pieces = append(pieces, piece{between: l})
		case open == nil:
			open = &block{}
			pieces = append(pieces, piece{block: open})
			open.add(l)
		default:
			open.add(l)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read line %d: %w", n+1, err)
	}
	return pieces, nil
}

func (b *block) add(l line) {
	switch {
	case b.expects:
		b.expected = append(b.expected, l)
	case l.text == separator:
		b.expects = true
	default:
		b.commands = append(b.commands, l)
	}
}

// statement is a command line; a batch has more of them inside.
type statement struct {
	line
	inner []line
}

// statements groups the lines of a block: an indented line belongs to the line above that is not indented.
func (b *block) statements() ([]statement, error) {
	var all []statement
	for _, l := range b.commands {
		switch {
		case strings.HasPrefix(strings.TrimLeft(l.text, " \t"), "#"):
		case l.text[0] != ' ' && l.text[0] != '\t':
			all = append(all, statement{line: l})
		case len(all) == 0:
			return nil, lineError{l.number, errNoBatch}
		default:
			last := &all[len(all)-1]
			last.inner = append(last.inner, l)
		}
	}
	return all, nil
}

// lineError is a mistake in a line of a script, or what came of the line.
type lineError struct {
	number int
	err    error
}

func (e lineError) Error() string { return fmt.Sprintf("line %d: %s", e.number, e.err) }

// Unwrap gives the mistake without the line.
func (e lineError) Unwrap() error { return e.err }

var (
	errNoBatch  = errors.New("an indented line belongs to a batch above it, and there is none")
	errNotBatch = errors.New("an indented line belongs to a batch or to admit-many, and the line above is none")
)
