package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// printer collects lines.
type printer struct{ lines []string }

func (p *printer) line(format string, values ...any) {
	p.lines = append(p.lines, strings.TrimRight(fmt.Sprintf(format, values...), " \t")) // as lines of scripts are read
}

// text is all lines, each with its end.
func (p *printer) text() string {
	if len(p.lines) == 0 {
		return ""
	}
	return strings.Join(p.lines, "\n") + "\n"
}

// facts collects words of a line.
type facts []string

func (f *facts) add(format string, values ...any) { *f = append(*f, fmt.Sprintf(format, values...)) }

// addIf adds only what is there.
func (f *facts) addIf(there bool, format string, values ...any) {
	if there {
		f.add(format, values...)
	}
}

func (f *facts) String() string { return strings.Join(*f, " ") }

// words prints what has to do with a generation: tokens of the present one are printed without it.
type words struct{ generation fsm.Generation }

func wordsOf(v *fsm.View) words { return words{v.Meta().Generation} }

func (w words) token(v uint64) string {
	generation, sequence := v>>fsm.SequenceBits, v&(1<<fsm.SequenceBits-1)
	if fsm.Generation(generation) == w.generation || v == 0 {
		return strconv.FormatUint(sequence, 10)
	}
	return strconv.FormatUint(generation, 10) + "." + strconv.FormatUint(sequence, 10)
}

func (w words) epoch(e fsm.Epoch) string     { return w.token(uint64(e)) }
func (w words) operator(o fsm.OpID) string   { return w.token(uint64(o)) }
func (w words) inc(i fsm.Incarnation) string { return "#" + w.token(uint64(i)) }

// life prints a node and an incarnation, or the one that there is.
func (w words) life(n fsm.NodeName, i fsm.Incarnation) string {
	if i == 0 {
		return quote(string(n))
	}
	if n == "" {
		return w.inc(i)
	}
	return quote(string(n)) + w.inc(i)
}

func dispatcherWord(id fsm.DispatcherID) string { return "d" + strconv.FormatUint(uint64(id), 10) }
