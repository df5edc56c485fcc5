package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-project/weir/jepsen/cluster"
	"github.com/weir-project/weir/jepsen/evidence"
)

// owner is a placement as its node noted it.
type owner struct {
	node, incarnation string
	dispatcher        uint64
	epoch             evidence.Epoch
	span              evidence.Span
}

// tenure is the time in which an owner could write: from its first call to a sink to the last instant at which it may
// have had leave to write.
type tenure struct {
	owner
	from, to int64
	killed   bool // it ended with its process inside a call
}

func (t *tenure) String() string {
	return fmt.Sprintf("dispatcher %d under epoch %d on %s/%s", t.dispatcher, t.epoch, t.node, t.incarnation)
}

type place struct{ sink, table string }

// Gates checks that no two owners could write one range at one instant, and that nobody was let write outside the time of
// its gate. A killed process could write until it was gone.
func Gates(agents *evidence.Agents, lives []cluster.Life) *Report {
	r := &Report{Check: "one open gate a range"}
	var margins []int64
	for at, tenures := range tenuresOf(agents, lives) {
		slices.SortFunc(tenures, func(a, b *tenure) int { return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.from, b.from)) })
		for i, next := range tenures {
			nearest := int64(-1)
			for _, before := range tenures[:i] {
				if !before.span.Overlaps(next.span) {
					continue
				}
				r.Looked++
				switch gap := next.from - before.to; {
				case before.epoch == next.epoch && before.owner != next.owner:
					r.violate("%s at %s: epoch %d was used by %s and by %s", at.table, at.sink, next.epoch, before, next)
				case gap <= 0:
					r.violate("%s at %s: %s could still write %v after %s had begun", at.table, at.sink, before, time.Duration(-gap), next)
				case nearest < 0 || gap < nearest:
					nearest = gap
				}
			}
			if nearest >= 0 {
				margins = append(margins, nearest)
			}
		}
	}
	spread(r, "margin ns", margins)
	insideGates(r, agents)
	return r
}

// tenuresOf collects the tenures of each table at each sink.
func tenuresOf(agents *evidence.Agents, lives []cluster.Life) map[place][]*tenure {
	all := map[place]map[owner]*tenure{}
	for i := range agents.Calls {
		c := &agents.Calls[i]
		at, who := place{c.Sink, c.Table}, owner{c.Node, c.Incarnation, c.Dispatcher, c.Epoch, c.Span}
		if all[at] == nil {
			all[at] = map[owner]*tenure{}
		}
		t := all[at][who]
		if t == nil {
			t = &tenure{owner: who, from: c.Begun, to: c.Begun}
			all[at][who] = t
		}
		t.from = min(t.from, c.Begun)
		switch {
		case c.Unfinished():
			t.to, t.killed = max(t.to, goneAfter(lives, c.Node, c.Begun)), true
		default:
			t.to = max(t.to, c.Allowed)
		}
	}
	out := map[place][]*tenure{}
	for at, tenures := range all {
		out[at] = slices.Collect(maps.Values(tenures))
	}
	return out
}

// goneAfter is when the life that was running at an instant was known to be gone; the instant itself if it never ended.
func goneAfter(lives []cluster.Life, node string, at int64) int64 {
	for _, life := range lives {
		if life.Process == node && life.Started <= at && life.Gone >= at {
			return life.Gone
		}
	}
	return at
}

type opening struct {
	node, incarnation string
	number            uint64
}

// insideGates checks each grant against the edges of its gate.
func insideGates(r *Report, agents *evidence.Agents) {
	opened, closed := map[opening]evidence.Edge{}, map[opening]evidence.Edge{}
	for _, e := range agents.Edges {
		at := opening{e.Node, e.Incarnation, e.Opening}
		if e.Kind == "opened" {
			opened[at] = e
		} else if _, before := closed[at]; !before {
			closed[at] = e
		}
	}
	grants := int64(0)
	for i := range agents.Calls {
		c := &agents.Calls[i]
		if c.Allowed == 0 {
			continue
		}
		grants++
		at := opening{c.Node, c.Incarnation, c.Opening}
		open, known := opened[at]
		if !known || c.Allowed < open.NoticedAt {
			r.violate("dispatcher %d under epoch %d on %s/%s was let write at %d, before opening %d of the gate",
				c.Dispatcher, c.Epoch, c.Node, c.Incarnation, c.Allowed, c.Opening)
		}
		if shut, ended := closed[at]; ended && (c.Allowed >= shut.Deadline || c.Allowed > shut.NoticedAt) {
			r.violate("dispatcher %d under epoch %d on %s/%s was let write at %d, after the gate was %s, noticed at %d with deadline %d",
				c.Dispatcher, c.Epoch, c.Node, c.Incarnation, c.Allowed, shut.Kind, shut.NoticedAt, shut.Deadline)
		}
	}
	r.Looked += int(grants)
	r.figure("writes and claims that were let through", grants)
	r.figure("edges of gates", int64(len(agents.Edges)))
}

// spread notes the least, the median and the number of values.
func spread(r *Report, name string, values []int64) {
	r.figure("pairs with a "+name, int64(len(values)))
	if len(values) == 0 {
		return
	}
	slices.Sort(values)
	r.figure("least "+name, values[0])
	r.figure("median "+name, values[len(values)/2])
}

// Starts checks that each start was obeyed at most once, and only starts that were ordered: known maps the epochs that the
// cluster gave a dispatcher to their nodes.
func Starts(agents *evidence.Agents, dispatchers []uint64, known map[uint64]map[evidence.Epoch]string) *Report {
	r := &Report{Check: "a start is obeyed at most once"}
	type start struct {
		dispatcher uint64
		epoch      evidence.Epoch
	}
	obeyed := map[start][]string{}
	for i := range agents.Calls {
		if c := &agents.Calls[i]; c.Kind == "claim" && c.Claim == 1 {
			s := start{c.Dispatcher, c.Epoch}
			obeyed[s] = append(obeyed[s], c.Node)
		}
	}
	for s, nodes := range obeyed {
		r.Looked++
		if len(nodes) > 1 {
			r.violate("the start of dispatcher %d under epoch %d was obeyed %d times, on %v", s.dispatcher, s.epoch, len(nodes), nodes)
		}
		placed, listed := known[s.dispatcher]
		if !listed {
			continue
		}
		if node, ordered := placed[s.epoch]; !ordered || node != nodes[0] {
			r.violate("dispatcher %d was started under epoch %d on %s; the cluster placed it so: %v", s.dispatcher, s.epoch, nodes[0], placed)
		}
	}
	for _, d := range dispatchers {
		r.Looked++
		if !slices.ContainsFunc(slices.Collect(maps.Keys(obeyed)), func(s start) bool { return s.dispatcher == d }) {
			r.violate("no start of dispatcher %d was obeyed", d)
		}
	}
	return r
}
