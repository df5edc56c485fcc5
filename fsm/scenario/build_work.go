package scenario

import (
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
		SyncPointEvery: a.number("sync-points", 0, 64),
		Tables:         a.tables(),
	}
}

func buildPause(a *args) fsm.Command { return &fsm.PauseChangefeed{Name: a.word("a changefeed")} }

func buildResume(a *args) fsm.Command {
	m := &fsm.ResumeChangefeed{Name: a.word("a changefeed"), Force: a.truth("force", false)}
	if from, ok := a.value("from"); ok {
		m.HasFrom, m.From = true, a.asPosition(from)
	}
	return m
}

func buildUpdateChangefeed(a *args) fsm.Command {
	m := &fsm.UpdateChangefeed{Name: a.word("a changefeed"), Source: a.text("source", "")}
	if _, there := a.peek("sync-points"); there {
		m.HasSyncPoints, m.SyncPointEvery = true, a.number("sync-points", 0, 64)
	}
	return m
}

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
func (a *args) tables() []fsm.TableSpec { return a.tablesAs("table") }

// tablesAs takes tables under another key than table=.
func (a *args) tablesAs(as string) []fsm.TableSpec {
	var tables []fsm.TableSpec
	var rest []parameter
	for _, p := range a.keys {
		switch {
		case p.key == as:
			schema, name, ok := strings.Cut(a.unquoted(p.value), ".")
			if !ok {
				a.fail("%s=%s: want SCHEMA.NAME", as, p.value)
			}
			tables = append(tables, fsm.TableSpec{Schema: schema, Name: name})
		case p.key == "split" && len(tables) == 0:
			a.fail("split= follows the %s= that it splits", as)
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
