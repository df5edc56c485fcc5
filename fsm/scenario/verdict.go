package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// entryPrint is an entry that was applied, or several equal ones in a row.
type entryPrint struct {
	calls    []call
	verdicts []fsm.Verdict
	before   *fsm.View
	times    uint64
	batch    bool
}

// printEntry prints the verdicts of an entry, remembers them under their names, and prints what has changed.
func (w *world) printEntry(p *printer, e entryPrint) {
	after := w.state.View()
	born := bornBetween(e.before, after)
	indent := ""
	switch {
	case e.batch:
		p.line("%d batch", w.index)
		indent = "  "
	case e.times > 1:
		indent = fmt.Sprintf("%d-%d ", w.index-e.times+1, w.index)
	default:
		indent = strconv.FormatUint(w.index, 10) + " "
	}
	for i, c := range e.calls {
		w.last = memory{verdict: e.verdicts[i], born: born}
		if c.name != "" {
			w.names[c.name] = w.last
		}
		p.line("%s%s: %s", indent, c.verb, verdictLine(c, after, e.verdicts[i]))
		printItems(p, after, e.verdicts[i])
	}
	printChanges(p, e.before, after)
}

func printItems(p *printer, after *fsm.View, v fsm.Verdict) {
	for i, item := range v.Items {
		line := facts{item.Reason.String()}
		line = append(line, factWords(wordsOf(after), item.Facts)...)
		p.line("  item %d: %s", i+1, line.String())
	}
}

func verdictLine(c call, after *fsm.View, v fsm.Verdict) string {
	line := facts{v.Reason.String()}
	line = append(line, factWords(wordsOf(after), v.Facts)...)
	line.addIf(v.Replayed, "replayed=%d", v.Index)
	word := wordsOf(after)
	if len(v.RefusedNames) > 0 {
		var refused []string
		for _, inc := range v.RefusedNames {
			refused = append(refused, word.inc(inc))
		}
		line.add("refused=%s", strings.Join(refused, ","))
	}
	if len(v.Reports) > 0 {
		var reports []string
		for _, r := range v.Reports {
			reports = append(reports, r.String())
		}
		line.add("reports=%s", strings.Join(reports, ","))
	}
	line.addIf(c.verb == "tick" && v.OK(), "time=%d", after.Meta().TimeMS)
	return line.String()
}

// factWords prints the facts that are set, in one order for all verdicts.
func factWords(word words, f fsm.Facts) facts {
	var line facts
	line.addIf(f.Operator != 0, "op=%s", word.operator(f.Operator))
	line.addIf(f.OperatorKind != 0, "kind=%s", f.OperatorKind)
	line.addIf(f.Result != 0, "result=%s", f.Result)
	line.addIf(f.Dispatcher != 0, "dispatcher=%s", dispatcherWord(f.Dispatcher))
	line.addIf(f.Epoch != 0, "epoch=%s", word.epoch(f.Epoch))
	line.addIf(f.Node != "" || f.Incarnation != 0, "node=%s", word.life(f.Node, f.Incarnation))
	line.addIf(f.LeaseMS != 0, "lease=%d", f.LeaseMS)
	line.addIf(f.Changefeed != "", "changefeed=%s", quote(f.Changefeed))
	line.addIf(f.ChangefeedID != 0, "changefeed-id=%d", f.ChangefeedID)
	line.addIf(f.Table != "", "table=%s", quote(f.Table))
	line.addIf(f.TableID != 0, "table-id=%d", f.TableID)
	line.addIf(f.Term != 0, "term=%d", f.Term)
	line.addIf(f.Server != "", "server=%s", quote(string(f.Server)))
	line.addIf(f.Limit != "", "limit=%s", quote(f.Limit))
	line.addIf(f.Have != 0, "have=%d", f.Have)
	line.addIf(f.Want != 0, "want=%d", f.Want)
	line.addIf(f.Run != 0, "run=%d", f.Run)
	line.addIf(f.At != fsm.Position{}, "at=%s", f.At)
	line.addIf(f.Permission != 0, "perm=%d", f.Permission)
	line.addIf(f.Detail != "", "detail=%s", quote(f.Detail))
	return line
}
