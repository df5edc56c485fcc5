package oracle

import "github.com/weir-project/weir/fsm"

// Positions and spans, by the words of the design.

func before(p, q fsm.Position) bool {
	return p.TS < q.TS || (p.TS == q.TS && p.Stage < q.Stage)
}

func later(p, q fsm.Position) fsm.Position {
	if before(p, q) {
		return q
	}
	return p
}

func known(p fsm.Position) bool { return p.Stage <= fsm.StageSyncPoint }

// reached is where a span stands that has reached an event and not passed it.
func reached(k fsm.BarrierKey) fsm.Position { return fsm.Position{TS: k.At.TS, Stage: k.At.Stage - 1} }

// endOfTime is above everything.
func endOfTime() fsm.Position { return fsm.Position{TS: 1<<64 - 1, Stage: fsm.StageSyncPoint} }

// overlap says whether two ranges share a key.
func overlap(a, b fsm.Span) bool {
	aFirst := a.End != "" && a.End <= b.Start
	bFirst := b.End != "" && b.End <= a.Start
	return !aFirst && !bFirst
}

// tiles says whether the spans, one after the other, are exactly the range.
func tiles(whole fsm.Span, spans []fsm.Span) bool {
	at, open := whole.Start, false // up to which key, or the end, they reach
	for _, s := range spans {
		if open || s.Start != at || (s.End != "" && s.End <= s.Start) {
			return false
		}
		at, open = s.End, s.End == ""
	}
	return len(spans) > 0 && at == whole.End && open == (whole.End == "")
}

// nextSync is the first sync point after a position.
func (f *feed) nextSync(at fsm.Position) (fsm.Position, bool) {
	if f.every == 0 {
		return fsm.Position{}, false
	}
	at = later(at, f.after)
	for ts := at.TS - at.TS%f.every; ; ts += f.every {
		if p := (fsm.Position{TS: ts, Stage: fsm.StageSyncPoint}); ts != 0 && before(at, p) {
			return p, true
		}
	}
}
