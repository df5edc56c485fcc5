package scenario

import (
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// drainLine says how far a node's drain is.
func drainLine(n fsm.Node) string {
	switch {
	case !n.Draining:
		return "not draining"
	case n.DrainedAt != 0:
		return "drained"
	default:
		return "draining from=" + strconv.FormatUint(uint64(n.DrainFrom), 10)
	}
}

// barrierName names an event: changefeed, kind and ts, and the run if it is not the first.
func barrierName(v *fsm.View, b fsm.Barrier) string {
	feed, known := v.ChangefeedByID(b.Key.Changefeed)
	line := facts{"barrier"}
	if known {
		line = append(line, quote(feed.Name))
	} else {
		line.add("%d", b.Key.Changefeed)
	}
	line = append(line, keyWord(b.Key.At))
	line.addIf(b.Key.Run != 1, "run=%d", b.Key.Run)
	return line.String()
}

// specLine says what an event concerns and changes.
func specLine(s fsm.BarrierSpec) string {
	line := facts{}
	switch s.Influence {
	case fsm.InfluenceAll:
		line.add("influence=all")
	case fsm.InfluenceSchema:
		line.add("schema=%s", quote(s.Schema))
	case fsm.InfluenceTables:
		line.add("tables=%s", refList(s.Tables))
	default:
		line.add("influence=%s", s.Influence)
	}
	line.addIf(s.Trigger, "trigger=true")
	line.addIf(len(s.Drop) > 0, "drop=%s", refList(s.Drop))
	for _, t := range s.Add {
		line.add("add=%s", quote(fsm.TableRef{Schema: t.Schema, Name: t.Name}.String()))
		line.addIf(len(t.SplitKeys) > 0, "split=%s", strings.Join(quoted(t.SplitKeys), ","))
	}
	for _, r := range s.Rename {
		line.add("rename=%s>%s", quote(r.From.String()), quote(r.To.String()))
	}
	line.addIf(s.Statement != "", "sql=%s", quote(s.Statement))
	return line.String()
}

func refList(refs []fsm.TableRef) string {
	words := make([]string, len(refs))
	for i, r := range refs {
		words[i] = quote(r.String())
	}
	return strings.Join(words, ",")
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = quote(w)
	}
	return all
}

// barrierLine says how far an event is: how many of those it concerns are behind it, or have not passed it, and who
// holds the permission.
func barrierLine(v *fsm.View, b fsm.Barrier) string {
	word := wordsOf(v)
	line := facts{b.Status.String()}
	members, behind, unpassed := v.BarrierProgress(b.Key)
	node, _ := v.NodeOf(b.WriterIncarnation)
	holder := dispatcherWord(b.Writer) + " " + word.life(node.Name, b.WriterIncarnation) + " epoch=" + word.epoch(b.WriterEpoch)
	switch b.Status {
	case fsm.BarrierCollecting:
		line.add("behind=%d/%d", behind, members)
		line.addIf(b.Spec.TriggerTakesPart() && !b.TriggerSaid, "trigger-silent")
		line.addIf(b.Permission != 0, "perm=%d-ended", b.Permission)
	case fsm.BarrierInWriting:
		line.add("perm=%d by %s", b.Permission, holder)
	case fsm.BarrierUndecided:
		line.add("perm=%d was %s", b.Permission, holder)
	case fsm.BarrierPassing:
		line.add("%s unpassed=%d/%d", b.Result, unpassed, members)
	case fsm.BarrierEnded:
		line.add("%s", b.Result)
	}
	line.addIf(b.NotBegun, "not-begun")
	line.addIf(b.Unknown, "unknown")
	line.addIf(b.StuckAt != 0, "stuck")
	line.addIf(b.Notes != "", "notes=%s", quote(b.Notes))
	return line.String()
}

// barrierOrderLine prints what a node has to do about an event.
func barrierOrderLine(v *fsm.View, o fsm.BarrierOrder) string {
	word := wordsOf(v)
	line := facts{o.Action.String(), barrierName(v, fsm.Barrier{Key: o.Key})}
	line.addIf(o.Permission != 0, "perm=%d", o.Permission)
	line.addIf(o.All, "all")
	for _, pair := range o.Pairs {
		line.add("%s@%s", dispatcherWord(pair.Dispatcher), word.epoch(pair.Epoch))
	}
	line.addIf(len(o.Tables) > 0, "tables=%s", refList(o.Tables))
	return line.String()
}
