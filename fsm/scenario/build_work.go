package scenario

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

func buildCreateChangefeed(a *args) fsm.Command {
	return &fsm.CreateChangefeed{
		Name:           a.word("the changefeed's name"),
		Source:         a.text("source", "wal2json:/source"),
		Sink:           a.text("sink", "sqlite:/sink"),
		SinkFenced:     a.truth("fenced", true),
		SinkMaxWriteMS: uint32(a.number("max-write", 0, 32)),
		Start:          a.position("start", fsm.Position{}),
		Tables:         a.tables(),
	}
}

func buildPause(a *args) fsm.Command  { return &fsm.PauseChangefeed{Name: a.word("a changefeed")} }
func buildResume(a *args) fsm.Command { return &fsm.ResumeChangefeed{Name: a.word("a changefeed")} }
func buildRemoveChangefeed(a *args) fsm.Command {
	return &fsm.RemoveChangefeed{Name: a.word("a changefeed")}
}

func buildAddTables(a *args) fsm.Command {
	return &fsm.AddTables{
		Changefeed: a.word("a changefeed"),
		Start:      a.position("start", fsm.Position{}),
		Tables:     a.tables(),
	}
}

func buildDropTables(a *args) fsm.Command {
	m := &fsm.DropTables{Changefeed: a.word("a changefeed")}
	for _, t := range a.tables() {
		if t.SplitKeys != nil {
			a.fail("split= is not a parameter of this verb")
		}
		m.Tables = append(m.Tables, fsm.TableRef{Schema: t.Schema, Name: t.Name})
	}
	return m
}

// tables takes every table=SCHEMA.NAME, each with the split=KEY,... that follows it.
func (a *args) tables() []fsm.TableSpec {
	var tables []fsm.TableSpec
	var rest []parameter
	for _, p := range a.keys {
		switch {
		case p.key == "table":
			schema, name, ok := strings.Cut(a.unquoted(p.value), ".")
			if !ok {
				a.fail("table=%s: want SCHEMA.NAME", p.value)
			}
			tables = append(tables, fsm.TableSpec{Schema: schema, Name: name})
		case p.key == "split" && len(tables) == 0:
			a.fail("split= follows the table= that it splits")
		case p.key == "split":
			keys, err := splitList(p.value)
			if err != nil {
				a.fail("%w", err)
			}
			tables[len(tables)-1].SplitKeys = keys
		default:
			rest = append(rest, p)
		}
	}
	a.keys = rest
	return tables
}

func buildAdd(a *args) fsm.Command {
	return &fsm.AdmitOperator{
		Op: fsm.OpAdd, Dispatcher: a.dispatcher(), To: fsm.NodeName(a.word("the destination")), ExpectEpoch: a.epoch("epoch"),
	}
}

func buildMove(a *args) fsm.Command {
	m := a.admission(fsm.OpMove)
	if m.To == "" {
		a.fail("want to=NODE here")
	}
	return m
}

func buildRemove(a *args) fsm.Command {
	return &fsm.AdmitOperator{Op: fsm.OpRemove, Dispatcher: a.dispatcher(), ExpectEpoch: a.epoch("epoch")}
}

// buildAdmit can also ask for what the other verbs would not: kinds that do not exist, parameters that do not fit.
func buildAdmit(a *args) fsm.Command {
	w := a.word("add, move, remove, stop or a number")
	for _, k := range []fsm.OperatorKind{fsm.OpAdd, fsm.OpMove, fsm.OpRemove, fsm.OpStop} {
		if w == k.String() {
			return a.admission(k)
		}
	}
	n, err := strconv.ParseUint(w, 10, 8)
	if err != nil {
		a.fail("%s: want add, move, remove, stop or a number", w)
	}
	return a.admission(fsm.OperatorKind(n))
}

func (a *args) admission(kind fsm.OperatorKind) *fsm.AdmitOperator {
	m := &fsm.AdmitOperator{Op: kind, Dispatcher: a.dispatcher(), ExpectEpoch: a.epoch("epoch")}
	m.To = fsm.NodeName(a.text("to", ""))
	if from := a.text("from", ""); from == "*" {
		m.FromAny = true
	} else {
		m.From = fsm.NodeName(from)
	}
	return m
}

func buildCancel(a *args) fsm.Command {
	return &fsm.CancelOperator{Op: a.asOperator(a.word("an operator, its id or $NAME"))}
}
