package checker

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weir-project/weir/jepsen/evidence"
)

// position is a point of a log as sinks note it.
type position struct {
	ts    uint64
	stage int64
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.ts, q.ts), cmp.Compare(p.stage, q.stage))
}

// Events checks the events of one changefeed by what its sink accepted and by what the agents noted: each takes effect
// once and in the order of the log, with every row before it in the sink and none behind it, and whoever goes on beyond
// it does so after it was written. Every is the distance of its sync points between two positions of its log, the end
// excluded: none of them is missing.
func Events(feed string, entries []evidence.Entry, steps []evidence.Step, every, from, to uint64) *Report {
	r := &Report{Check: "an event is written once, between what is before it and what is after it"}
	written := effects(r, feed, entries)
	r.Looked += len(written)
	for ts := (from/every + 1) * every; ts < to; ts += every {
		if !slices.ContainsFunc(written, func(p position) bool { return p.ts == ts }) {
			r.violate("%s: the sync point at %d was never written", feed, ts)
		}
	}
	r.figure("events written", int64(len(written)))
	r.figure("events asked for again after they had been written", known(entries))
	passes(r, feed, steps)
	return r
}

// effects returns the events that took effect, in that order. Entries are in the order of their commits.
func effects(r *Report, feed string, entries []evidence.Entry) []position {
	var written []position
	furthest := position{} // of what has been written
	for _, e := range entries {
		at := position{e.TS, e.Stage}
		newest := position{}
		if n := len(written); n > 0 {
			newest = written[n-1]
		}
		switch {
		case e.Op == "ddl" && at.compare(newest) <= 0:
			r.violate("%s: entry %d is the event at %d, written after that at %d", feed, e.ID, at.ts, newest.ts)
		case e.Op == "ddl":
			if furthest.compare(at) > 0 {
				r.violate("%s: entry %d is the event at %d, written when something at %d had been", feed, e.ID, at.ts, furthest.ts)
			}
			written = append(written, at)
		case e.Op == "write":
			r.Looked++
			if e.Rows > 0 && at.compare(newest) <= 0 {
				r.violate("%s, %s: entry %d has rows up to %d, behind the event at %d", feed, e.Table, e.ID, at.ts, newest.ts)
			}
			if at.compare(furthest) > 0 {
				furthest = at
			}
		}
	}
	return written
}

func known(entries []evidence.Entry) (n int64) {
	for i := range entries {
		if entries[i].Op == "ddl-known" {
			n++
		}
	}
	return n
}

// passes checks that nobody went on beyond an event before an agent had noted that it was written.
func passes(r *Report, feed string, steps []evidence.Step) {
	type event struct {
		run uint64
		key string
	}
	first := map[event]int64{}
	for i := range steps {
		s := &steps[i]
		at := event{s.Run, s.Key}
		if before, seen := first[at]; s.Changefeed == feed && s.Kind == "written" && (!seen || s.At < before) {
			first[at] = s.At
		}
	}
	words := map[string]int64{}
	for i := range steps {
		s := &steps[i]
		if s.Changefeed != feed {
			continue
		}
		words[s.Kind]++
		if s.Kind != "passed" {
			continue
		}
		r.Looked++
		switch at, written := first[event{s.Run, s.Key}]; {
		case !written:
			r.violate("%s: dispatcher %d under epoch %d on %s went on beyond the event at %s, which nobody has written",
				feed, s.Dispatcher, s.Epoch, s.Node, s.Key)
		case s.At <= at:
			r.violate("%s: dispatcher %d under epoch %d on %s went on beyond the event at %s before it was written",
				feed, s.Dispatcher, s.Epoch, s.Node, s.Key)
		}
	}
	for _, word := range slices.Sorted(maps.Keys(words)) {
		r.figure("steps noted as "+word, words[word])
	}
}
