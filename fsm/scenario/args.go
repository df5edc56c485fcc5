package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// args hands the parameters of a call out, resolving names against the state. The first mistake sticks, and everything
// after it is zero.
type args struct {
	world *world
	plain []string
	keys  []parameter
	inner []call
	all   []parameter // in the order of the line
	err   error
}

func newArgs(w *world, c call) *args {
	a := &args{world: w, inner: c.inner, all: c.params}
	for _, p := range c.params {
		if p.key == "" {
			a.plain = append(a.plain, p.value)
		} else {
			a.keys = append(a.keys, p)
		}
	}
	return a
}

func (a *args) fail(format string, values ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, values...)
	}
}

// more says whether a plain word is left.
func (a *args) more() bool { return a.err == nil && len(a.plain) > 0 }

// word takes the next plain word, which must be there; what says what is missing if not.
func (a *args) word(what string) string {
	if len(a.plain) == 0 {
		a.fail("want %s here", what)
		return ""
	}
	w := a.plain[0]
	a.plain = a.plain[1:]
	return a.unquoted(w)
}

func (a *args) unquoted(w string) string {
	v, err := unquote(w)
	if err != nil {
		a.fail("%w", err)
	}
	return v
}

// value takes key=...; it is still quoted.
func (a *args) value(key string) (string, bool) {
	i := slices.IndexFunc(a.keys, func(p parameter) bool { return p.key == key })
	if i < 0 {
		return "", false
	}
	v := a.keys[i].value
	a.keys = slices.Delete(a.keys, i, i+1)
	return v, true
}

// peek looks at key=... and leaves it.
func (a *args) peek(key string) (string, bool) {
	i := slices.IndexFunc(a.keys, func(p parameter) bool { return p.key == key })
	if i < 0 {
		return "", false
	}
	return a.keys[i].value, true
}

// list takes key=A,B,... as strings.
func (a *args) list(key string) ([]string, bool) {
	v, ok := a.value(key)
	if !ok {
		return nil, false
	}
	words, err := splitList(v)
	if err != nil {
		a.fail("%w", err)
	}
	return words, true
}

// text takes key=... as a string.
func (a *args) text(key, standard string) string {
	if v, ok := a.value(key); ok {
		return a.unquoted(v)
	}
	return standard
}

// number takes key=... as a number of up to so many bits.
func (a *args) number(key string, standard uint64, bits int) uint64 {
	v, ok := a.value(key)
	if !ok {
		return standard
	}
	n, err := strconv.ParseUint(v, 10, bits)
	if err != nil {
		a.fail("%s=%s: want a whole number of at most %d bits", key, v, bits)
	}
	return n
}

// truth takes key=true or key=false.
func (a *args) truth(key string, standard bool) bool {
	v, ok := a.value(key)
	if ok && v != "true" && v != "false" {
		a.fail("%s=%s: want true or false", key, v)
	}
	if ok {
		return v == "true"
	}
	return standard
}

// position takes key=... as a position.
func (a *args) position(key string, standard fsm.Position) fsm.Position {
	v, ok := a.value(key)
	if !ok {
		return standard
	}
	return a.asPosition(v)
}

func (a *args) asPosition(w string) fsm.Position {
	p, err := fsm.ParsePosition(w)
	if err != nil {
		a.fail("%w", err)
	}
	return p
}

// finish says whether everything was understood and used.
func (a *args) finish() error {
	switch {
	case a.err != nil:
	case len(a.plain) > 0:
		a.fail("%s is one word too many", a.plain[0])
	case len(a.keys) > 0:
		a.fail("%s= is not a parameter of this verb", a.keys[0].key)
	}
	return a.err
}

// named resolves $NAME, if w is one.
func (a *args) named(w string) (memory, bool) {
	if !strings.HasPrefix(w, "$") {
		return memory{}, false
	}
	name, _, _ := strings.Cut(w, ".")
	m, ok := a.world.names[name]
	if !ok {
		a.fail("%s is not known: write %s = VERB ... above it", name, name)
	}
	return m, ok
}

// token reads an epoch, op id or incarnation: SEQUENCE in the present generation, or GENERATION.SEQUENCE.
func (a *args) token(w string) uint64 {
	if w == "" || a.err != nil {
		return 0
	}
	full := w
	if !strings.Contains(w, ".") && w != "0" {
		full = strconv.FormatUint(uint64(a.world.state.Meta().Generation), 10) + "." + w
	}
	v, err := fsm.ParseToken(full)
	if err != nil {
		a.fail("%s: want SEQUENCE or GENERATION.SEQUENCE", w)
	}
	return v
}

func (a *args) asEpoch(w string) fsm.Epoch {
	if strings.HasPrefix(w, "$") {
		m, _ := a.named(w)
		return m.verdict.Facts.Epoch
	}
	return fsm.Epoch(a.token(w))
}

func (a *args) asOperator(w string) fsm.OpID {
	if strings.HasPrefix(w, "$") {
		m, _ := a.named(w)
		return m.verdict.Facts.Operator
	}
	return fsm.OpID(a.token(w))
}

// epoch takes epoch=EPOCH or epoch=$NAME.
func (a *args) epoch() fsm.Epoch {
	v, ok := a.value("epoch")
	if !ok {
		return 0
	}
	return a.asEpoch(v)
}

// index takes key=INDEX or key=$NAME.
func (a *args) index(key string, standard uint64) uint64 {
	v, ok := a.value(key)
	if !ok {
		return standard
	}
	if strings.HasPrefix(v, "$") {
		m, _ := a.named(v)
		return m.verdict.Index
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		a.fail("%s=%s: want a log index or $NAME", key, v)
	}
	return n
}

// dispatcher takes a dispatcher: d7, $NAME (the first one that the named command made) or $NAME.3 (its third one).
func (a *args) dispatcher() fsm.DispatcherID {
	return a.asDispatcher(a.word("a dispatcher, d1 or $NAME"))
}

func (a *args) asDispatcher(w string) fsm.DispatcherID {
	if a.err != nil {
		return 0
	}
	if m, ok := a.named(w); ok {
		return a.bornIn(w, m)
	}
	digits, ok := strings.CutPrefix(w, "d")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		a.fail("%s: want a dispatcher, d1 or $NAME", w)
	}
	return fsm.DispatcherID(n)
}

func (a *args) bornIn(w string, m memory) fsm.DispatcherID {
	_, nth, numbered := strings.Cut(w, ".")
	if !numbered && m.verdict.Facts.Dispatcher != 0 {
		return m.verdict.Facts.Dispatcher
	}
	i := 1
	if numbered {
		i, _ = strconv.Atoi(nth)
	}
	if i < 1 || i > len(m.born) {
		a.fail("%s: the command made %d dispatchers", w, len(m.born))
		return 0
	}
	return m.born[i-1]
}

// life is a node and one of its incarnations.
type life struct {
	node  fsm.NodeName
	inc   fsm.Incarnation
	named bool // the script said which incarnation
}

// node takes a node: n1 (its newest incarnation), n1#3 (that incarnation), or $NAME (whom the named verdict tells of).
func (a *args) node() life { return a.asNode(a.word("a node, n1 or n1#INCARNATION")) }

func (a *args) asNode(w string) life {
	if m, ok := a.named(w); ok {
		return life{node: m.verdict.Facts.Node, inc: m.verdict.Facts.Incarnation, named: true}
	}
	name, inc, named := strings.Cut(w, "#")
	l := life{node: fsm.NodeName(name), named: named}
	if named {
		l.inc = fsm.Incarnation(a.token(inc))
		return l
	}
	if n, ok := a.world.state.Node(l.node); ok {
		l.inc = n.Incarnation
	}
	return l
}

// placement takes D, D@EPOCH, D:POSITION or D@EPOCH:POSITION; without an epoch it is the current one.
func (a *args) placement() fsm.PlacementPosition {
	w := a.word("a placement, d1[@EPOCH][:POSITION]")
	head, pos, hasPos := strings.Cut(w, ":")
	d, epoch, hasEpoch := strings.Cut(head, "@")
	p := fsm.PlacementPosition{Dispatcher: a.asDispatcher(d), HasPosition: hasPos}
	if hasPos {
		p.Position = a.asPosition(pos)
	}
	if hasEpoch {
		p.Epoch = a.asEpoch(epoch)
	} else if row, ok := a.world.state.Dispatcher(p.Dispatcher); ok {
		p.Epoch = row.Epoch
	}
	return p
}
