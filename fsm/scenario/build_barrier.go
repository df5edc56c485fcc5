package scenario

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// keyWord prints where an event stands: ddl@100, sync@100.
func keyWord(at fsm.Position) string { return at.Stage.String() + "@" + strconv.FormatUint(at.TS, 10) }

// key takes a changefeed and ddl@TS or sync@TS; run= is the changefeed's present run, if it is not said.
func (a *args) key() fsm.BarrierKey {
	feed, _ := a.world.state.Changefeed(a.word("a changefeed"))
	word := a.word("an event, ddl@TS or sync@TS")
	stage, ts, _ := strings.Cut(word, "@")
	at, err := fsm.ParsePosition(ts + "/" + stage)
	if err != nil {
		a.fail("%s: want an event, ddl@TS or sync@TS", word)
	}
	return fsm.BarrierKey{Changefeed: feed.ID, Run: a.number("run", feed.Run, 64), At: at}
}

// buildSay fills in what a node that is right would say: the current epoch, the spec of the open event, the last
// permission, the set hash of the state, and, for the trigger, where it stands.
func buildSay(a *args) fsm.Command {
	l := a.node()
	r := fsm.BarrierReport{What: a.barrierWord()}
	r.Key = a.key()
	if a.more() && a.plain[0] == "all" {
		a.word("all")
		r.All = true
		a.sayAll(l, &r)
	}
	for a.more() && !r.All {
		p := a.placement()
		r.Pairs = append(r.Pairs, fsm.Pair{Dispatcher: p.Dispatcher, Epoch: p.Epoch})
	}
	b, open := a.world.state.Barrier(r.Key)
	if r.What != fsm.SaidWaiting && r.What != fsm.SaidPassed {
		r.Permission = a.number("perm", b.Permission, 64)
	}
	if r.What == fsm.SaidWaiting {
		r.Spec = a.spec(r.Key, b, open)
		r.Earlier = a.position("earlier", a.earlier(r))
	}
	return &fsm.ReportBarrier{Node: l.node, Incarnation: l.inc, Reports: []fsm.BarrierReport{r}}
}

func (a *args) barrierWord() fsm.BarrierSaid {
	w := a.word("waiting, written, passed, not-begun or unknown")
	for said := fsm.SaidWaiting; said <= fsm.SaidUnknown; said++ {
		if w == said.String() {
			return said
		}
	}
	a.fail("%s: want waiting, written, passed, not-begun or unknown", w)
	return 0
}

func (a *args) sayAll(l life, r *fsm.BarrierReport) {
	_, r.SetHash = a.world.state.Crew(r.Key.Changefeed, l.inc)
	if w, ok := a.value("hash"); ok {
		if w != "wrong" {
			a.fail("hash=%s: want hash=wrong, or nothing for the right one", w)
		}
		r.SetHash++
	}
	except, _ := a.list("except")
	for _, w := range except {
		r.Except = append(r.Except, a.asDispatcher(w))
	}
}

// earlier is where the trigger stands, if the report is the trigger's.
func (a *args) earlier(r fsm.BarrierReport) fsm.Position {
	feed, _ := a.world.state.ChangefeedByID(r.Key.Changefeed)
	for _, p := range r.Pairs {
		if row, ok := a.world.state.Dispatcher(p.Dispatcher); ok && p.Dispatcher == feed.Trigger {
			return row.Position
		}
	}
	return fsm.Position{}
}

// spec reads what an event concerns and changes. Without a word about it, it is that of the open event; of a sync point
// it is always the same.
func (a *args) spec(key fsm.BarrierKey, b fsm.Barrier, open bool) fsm.BarrierSpec {
	s := fsm.BarrierSpec{Schema: a.text("schema", ""), Trigger: a.truth("trigger", false), Statement: a.text("sql", "")}
	s.Tables, s.Drop = a.refs("tables"), a.refs("drop")
	renames, _ := a.list("rename")
	for _, w := range renames {
		from, to, ok := strings.Cut(w, ">")
		if !ok {
			a.fail("rename=%s: want FROM>TO", w)
		}
		s.Rename = append(s.Rename, fsm.TableRename{From: a.asRef(from), To: a.asRef(to)})
	}
	s.Add = a.tablesAs("add")
	influence := a.text("influence", "")
	if s.Equal(&fsm.BarrierSpec{}) && influence == "" {
		if open {
			return b.Spec
		}
		if key.At.Stage == fsm.StageSyncPoint {
			return fsm.SyncPointSpec()
		}
	}
	s.Influence = a.influence(influence, s)
	return s
}

// influence follows from what is listed, unless it is said.
func (a *args) influence(w string, s fsm.BarrierSpec) fsm.Influence {
	switch {
	case w == "" && s.Schema != "":
		return fsm.InfluenceSchema
	case w == "":
		return fsm.InfluenceTables
	}
	for i := fsm.InfluenceTables; i <= fsm.InfluenceAll; i++ {
		if w == i.String() {
			return i
		}
	}
	n, err := strconv.ParseUint(w, 10, 8)
	if err != nil {
		a.fail("influence=%s: want tables, schema, all or a number", w)
	}
	return fsm.Influence(n)
}

func (a *args) refs(key string) []fsm.TableRef {
	words, _ := a.list(key)
	var refs []fsm.TableRef
	for _, w := range words {
		refs = append(refs, a.asRef(w))
	}
	return refs
}

func (a *args) asRef(w string) fsm.TableRef {
	schema, name, ok := strings.Cut(w, ".")
	if !ok {
		a.fail("%s: want SCHEMA.NAME", w)
	}
	return fsm.TableRef{Schema: schema, Name: name}
}

func buildDecide(a *args) fsm.Command {
	m := &fsm.DecideBarrier{Key: a.key()}
	b, _ := a.world.state.Barrier(m.Key)
	m.Permission = a.number("perm", b.Permission, 64)
	w := a.word("written, write-again, skip or a number")
	for d := fsm.DecideWritten; d <= fsm.DecideSkip; d++ {
		if w == d.String() {
			m.Decision = d
			return m
		}
	}
	n, err := strconv.ParseUint(w, 10, 8)
	if err != nil {
		a.fail("%s: want written, write-again, skip or a number", w)
	}
	m.Decision = fsm.BarrierDecision(n)
	return m
}

// buildCheckpoint takes the sets of nodes from the state, right ones or, with wrong=, others.
func buildCheckpoint(a *args) fsm.Command {
	feed, _ := a.world.state.Changefeed(a.word("a changefeed"))
	m := &fsm.AdvanceCheckpoint{
		Changefeed: feed.ID, Run: a.number("run", feed.Run, 64), To: a.position("to", fsm.Position{}),
	}
	wrong, _ := a.list("wrong")
	minimum := func(inc fsm.Incarnation, w string) {
		_, hash := a.world.state.Crew(feed.ID, inc)
		n, _ := a.world.state.NodeOf(inc)
		if slices.Contains(wrong, string(n.Name)) {
			hash++
		}
		m.Nodes = append(m.Nodes, fsm.NodeMinimum{Incarnation: inc, SetHash: hash, Minimum: a.asPosition(w)})
	}
	if w, ok := a.value("*"); ok {
		for inc := range a.world.state.Crews(feed.ID) {
			minimum(inc, w)
		}
	}
	for _, p := range a.keys {
		minimum(a.asNode(p.key).inc, p.value)
	}
	a.keys = nil
	slices.SortFunc(m.Nodes, func(x, y fsm.NodeMinimum) int { return cmp.Compare(x.Incarnation, y.Incarnation) })
	return m
}
