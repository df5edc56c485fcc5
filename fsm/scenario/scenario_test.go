package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm"
)

func run(t *testing.T, script string) (Result, error) {
	t.Helper()
	return Run(strings.NewReader(script), "test.txt", Options{})
}

const opening = "register n1\ncreate-changefeed f table=s.t split=m\n"

func TestAScriptWithoutExpectationsJustPrints(t *testing.T) {
	r, err := run(t, "# hello\n\n$a = add d1 n1\n\n")
	require.NoError(t, err)
	require.Empty(t, r.Mismatches)
	require.Equal(t, "# hello\n\n$a = add d1 n1\n----\n2 add: UNKNOWN_DISPATCHER dispatcher=d1\n\n", r.Script)
	require.EqualValues(t, 2, r.Entries)
}

func TestWhatARunPrintsIsAScriptThatExpectsIt(t *testing.T) {
	first, err := run(t, "# why\n"+opening+"# in between\nadd d1 n1\n\n\n# next\nbatch\n  tick *\n  remove d1\nstate\n")
	require.NoError(t, err)
	again, err := run(t, first.Script)
	require.NoError(t, err)
	require.Empty(t, again.Mismatches)
	require.Equal(t, first.Script, again.Script)
}

func TestADifferenceIsShownLineByLine(t *testing.T) {
	r, err := run(t, "register n1\nregister n2\n----\n2 register: ACCEPTED node=n1#1 lease=2000 have=2\nnonsense\n  n1#1: live lease=2000\n\nstate n1\n----\nwrong\n")
	require.NoError(t, err)
	require.Len(t, r.Mismatches, 2)
	require.Equal(t, `test.txt:1: the output is not the expected one (- expected, + came)
  2 register: ACCEPTED node=n1#1 lease=2000 have=2
- nonsense
    n1#1: live lease=2000
+ 3 register: ACCEPTED node=n2#2 lease=2000 have=3
+   n2#2: live lease=2000
`, r.Mismatches[0].String())
	require.Equal(t, 8, r.Mismatches[1].Line)
	require.Equal(t, []string{"wrong"}, r.Mismatches[1].Want)
	require.NotContains(t, r.Script, "wrong")
}

func TestAMissingOutputIsADifference(t *testing.T) {
	r, err := run(t, "register n1\n----\n")
	require.NoError(t, err)
	require.Len(t, r.Mismatches, 1)
	r, err = run(t, "----\nout of nowhere\n")
	require.NoError(t, err)
	require.Len(t, r.Mismatches, 1)
	require.Equal(t, 1, r.Mismatches[0].Line)
}

func TestMistakesNameFileLineAndWhatWasExpected(t *testing.T) {
	for script, want := range map[string]string{
		"register n1\nregistr n2\n": `test.txt:2: registr is not a verb: want one of begin-term, `,
		"\n\nadd\n":                 `test.txt:3: want a dispatcher, d1 or $NAME here; usage: add DISPATCHER NODE [epoch=EPOCH]`,
		"add d1\n":                  `test.txt:1: want the destination here`,
		"add n1 d1\n":               `test.txt:1: n1: want a dispatcher, d1 or $NAME`,
		"add d1 n1 n2\n":            `test.txt:1: n2 is one word too many`,
		"add d1 n1 to=n2\n":         `test.txt:1: to= is not a parameter of this verb`,
		"add $x n1\n":               `test.txt:1: $x is not known: write $x = VERB ... above it`,
		opening + "$a = add d1 n1\nadd $a.2 n1\n":      `test.txt:4: $a.2: the command made 0 dispatchers`,
		"add d1 n1 epoch=x\n":                          `test.txt:1: x: want SEQUENCE or GENERATION.SEQUENCE`,
		"move d1 from=n1\n":                            `test.txt:1: want to=NODE here`,
		"admit fly d1\n":                               `test.txt:1: fly: want add, move, remove, stop, split, merge or a number`,
		"split d1\n":                                   `test.txt:1: want at=KEY,... or spans=START..END,... here`,
		"split d1 spans=a-b\n":                         `test.txt:1: spans=a-b: want START..END`,
		"merge d1,n2\n":                                `test.txt:1: n2: want a dispatcher, d1 or $NAME`,
		"say n1 shouts\n":                              `test.txt:1: shouts: want waiting, written, passed, not-begun or unknown`,
		"say n1 waiting f rows@x\n":                    `test.txt:1: rows@x: want an event, ddl@TS or sync@TS`,
		"say n1 waiting f ddl@1 all hash=1\n":          `test.txt:1: hash=1: want hash=wrong`,
		"say n1 waiting f ddl@1 d1 rename=s.a\n":       `test.txt:1: rename=s.a: want FROM>TO`,
		"say n1 waiting f ddl@1 d1 tables=a\n":         `test.txt:1: a: want SCHEMA.NAME`,
		"say n1 waiting f ddl@1 d1 influence=some\n":   `test.txt:1: influence=some: want tables, schema, all or a number`,
		"decide f ddl@1 perhaps\n":                     `test.txt:1: perhaps: want written, write-again, skip or a number`,
		"admit-many some\n":                            `test.txt:1: some: want all, or nothing`,
		"admit-many\n  tick\n":                         `test.txt:1: tick is no operator`,
		"admit-many\n  req=a add d1 n1\n":              `test.txt:1: add: want add, move, remove, split, merge or admit, with nothing before it`,
		"admit-many\n  add d1\n":                       `test.txt:1: want the destination here`,
		"admit-many\n  add \"\n":                       `test.txt:2: a quote is not closed`,
		"dry-run state\n":                              `test.txt:1: state is no command of the log`,
		"dry-run add d1\n":                             `test.txt:1: want the destination here`,
		"tick n9\n":                                    `test.txt:1: n9 has no incarnation: register it, or name one as #INCARNATION`,
		"tick base=1 bits=12\n":                        `test.txt:1: bits=12: want digits 0 and 1`,
		"register n1 lease=long\n":                     `test.txt:1: lease=long: want a whole number of at most 32 bits`,
		"register n1 lease=5000000000\n":               `test.txt:1: lease=5000000000: want a whole number of at most 32 bits`,
		"create-changefeed f fenced=maybe table=a.b\n": `test.txt:1: fenced=maybe: want true or false`,
		"create-changefeed f table=orders\n":           `test.txt:1: table=orders: want SCHEMA.NAME`,
		"create-changefeed f split=a table=s.t\n":      `test.txt:1: split= follows the table= that it splits`,
		"create-changefeed f start=1/x table=s.t\n":    `test.txt:1: parse position "1/x": unknown stage "x"`,
		"drop-tables f table=s.t split=a\n":            `test.txt:1: split= is not a parameter of this verb`,
		"report n1\n":                                  `test.txt:1: want running, stopped or start-failed here`,
		"report n1 d1\n":                               `test.txt:1: want running, stopped or start-failed after the node`,
		"report n1 running d1:x\n":                     `test.txt:1: parse position "x"`,
		"expire n1 expect=soon\n":                      `test.txt:1: expect=soon: want a log index or $NAME`,
		"level many\n":                                 `test.txt:1: want a feature level: a whole number`,
		"begin-generation now\n":                       `test.txt:1: want a generation: a whole number`,
		"policy max-dogs=3\n":                          `test.txt:1: max-dogs= is not a parameter of this verb`,
		"fence n1 why=\"open\n":                        `test.txt:1: a quote is not closed`,
		"fence n1 why=\"\\q\"\n":                       `test.txt:1: "\q" is not a quoted string`,
		"$ = tick\n":                                   `test.txt:1: $ cannot be a name`,
		"x = tick\n":                                   `test.txt:1: x cannot be a name`,
		"$a = state\n":                                 `test.txt:1: state takes nothing before it`,
		"req=a state\n":                                `test.txt:1: state takes nothing before it`,
		"explain\n":                                    `test.txt:1: there is no verdict to explain`,
		"req=a\n":                                      `test.txt:1: nothing to do here: write a verb`,
		"when=now tick\n":                              `test.txt:1: when= is not known before a verb`,
		"times=0 tick\n":                               `test.txt:1: times=0: want at least one`,
		"  tick\n":                                     `test.txt:1: an indented line belongs to a batch above it, and there is none`,
		"tick\n  tick\n":                               `test.txt:2: an indented line belongs to a batch or to admit-many, and the line above is none`,
		"batch\n":                                      `test.txt:1: write batch alone on its line`,
		"$b = batch\n  tick\n":                         `test.txt:1: write batch alone on its line`,
		"batch\n  tick\n  state\n":                     `test.txt:3: state is no command of the log: a batch holds only those`,
		"batch\n  tick\n  entry-term=3 tick\n":         `test.txt:3: entry-term= is not known before a verb`,
		"tick\nbare\n":                                 `test.txt:2: bare stands first in a script`,
	} {
		_, err := run(t, script)
		require.ErrorContains(t, err, want, "%s", script)
	}
}

func TestOutputBeforeAMistakeIsKept(t *testing.T) {
	r, err := run(t, "register n1\nnonsense\n\nregister n2\n")
	require.Error(t, err)
	require.Equal(t, "register n1\nnonsense\n----\n2 register: ACCEPTED node=n1#1 lease=2000 have=2\n  n1#1: live lease=2000\n", r.Script)
}

func TestNamesMeanWhatTheirUseNeeds(t *testing.T) {
	r, err := run(t, opening+`register n2
$t = add-tables f table=s.u split=k
$add = add $t.2 n1
$n = register n3
report n1 running $t.2@$add
$move = move $add from=n1 to=n2 epoch=$add
cancel $move
expire $n expect=$n
tick $n
state $t.2
state $t
`)
	require.NoError(t, err)
	for _, want := range []string{
		"add: ACCEPTED op=1 kind=add dispatcher=d5 epoch=2 node=n1#1",
		"reports=REPORT_COUNTED",
		"move: ACCEPTED op=3 kind=move dispatcher=d5",
		"cancel: ACCEPTED op=3 kind=move result=canceled dispatcher=d5",
		"expire: ACCEPTED node=n3#3",
		"tick: ACCEPTED refused=#3",
		`d5 s.u ["k",+inf): stopping n1#1 epoch=2 op=3`,
		`d4 s.u ["","k"): absent`,
	} {
		require.Contains(t, r.Script, want)
	}
}

func TestKeysAndNamesMayHoldAnyBytes(t *testing.T) {
	r, err := run(t, `register "n 1"
create-changefeed "a, b" table="s p.t,1" split="a,b","c\x00\xff",d
add d3 "n 1"
orders "n 1"
`)
	require.NoError(t, err)
	require.Contains(t, r.Script, `d2: new "s p.t,1" ["a,b","c\x00\xff"), absent`)
	require.Contains(t, r.Script, `3 create-changefeed: ACCEPTED changefeed="a, b"`)
	require.Contains(t, r.Script, `orders for "n 1"#1`)
}

func TestTimesRepeatsACommand(t *testing.T) {
	r, err := run(t, "register n1\ntick\ntimes=30 tick 1000 n1\nstate n1\n")
	require.NoError(t, err)
	require.Contains(t, r.Script, "\n4-33 tick: ACCEPTED time=30000\nnode n1#1 live lease=2000 tick=33 placements=0\n")
}

func TestASnapshotGoesOnWithTheRestoredState(t *testing.T) {
	cells := 0
	r, err := Run(strings.NewReader(opening+"add d1 n1\nsnapshot\nadd d1 n1\ncheck\nhash\n"), "test.txt", Options{Cell: func(fsm.Cell) { cells++ }})
	require.NoError(t, err)
	require.Contains(t, r.Script, "snapshot: restored, same hash\n5 add: OPERATOR_EXISTS op=1")
	require.Contains(t, r.Script, "all invariants hold\nhash ")
	require.Equal(t, 2, cells, "the restored state is traced too")
}

// TestABrokenInvariantEndsTheScript plants a checker that finds fault with the fifth entry.
func TestABrokenInvariantEndsTheScript(t *testing.T) {
	broken := fmt.Errorf("%w: planted", fsm.ErrInvariant)
	for _, fifth := range []string{"tick", "batch\n  tick\n  tick"} {
		pieces, err := readScript(strings.NewReader(opening + "tick\n" + fifth + "\n----\n\nregister n2\n"))
		require.NoError(t, err)
		r := runner{name: "test.txt", world: newWorld(nil)}
		r.world.holds = func(v *fsm.View) error {
			if v.Meta().Index == 5 {
				return broken
			}
			return nil
		}
		result, err := r.all(pieces)
		require.ErrorIs(t, err, fsm.ErrInvariant)
		require.ErrorContains(t, err, "test.txt:4: an invariant is broken: ")
		require.Contains(t, result.Script, "\nan invariant is broken: "+broken.Error()+"\n")
		require.Contains(t, result.Script, "5 "+strings.Fields(fifth)[0])
		require.NotContains(t, result.Script, "register n2")
	}
}

func TestALongLineIsRefused(t *testing.T) {
	_, err := run(t, "tick\n"+strings.Repeat("x", maxLine+1))
	require.ErrorContains(t, err, "test.txt: read line 2: ")
	_, err = Run(failing{}, "test.txt", Options{})
	require.ErrorIs(t, err, errRead)
}

var errRead = errors.New("cable cut")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errRead }

func TestOutputDependsOnTheScriptAlone(t *testing.T) {
	script := opening + "add d1 n1\nreport n1 running d1\nmove d1 from=n1 to=n1\nstate\noperators\nhash\n"
	first, err := run(t, script)
	require.NoError(t, err)
	for range 20 {
		again, err := run(t, script)
		require.NoError(t, err)
		require.Equal(t, first.Script, again.Script)
	}
}
