package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
)

// watchPeriod is how often the agents are looked after.
const watchPeriod = 500 * time.Millisecond

// expiredPatience is how long the newest incarnation of an agent whose process runs may be expired. A process that runs
// registers anew at once.
const expiredPatience = 1500 * time.Millisecond

// startPatience is how long a process that was just started may take to be heard.
const startPatience = 10 * time.Second

// watch looks after the agents until the context ends. SQLite cannot end the transaction of another process, so an agent
// that stands still would keep the sink's file locked for as long as it stands: it is killed. What ends by itself is
// only said.
func (f *fleet) watch(ctx context.Context, p plane, say func(format string, args ...any)) {
	w := watcher{seen: map[string]sighting{}}
	told := map[string]int{}
	for sleep(ctx, watchPeriod) == nil {
		for _, c := range f.children {
			if pid := c.pid(); pid != 0 && !c.running() && !c.wanted() && told[c.name] != pid {
				told[c.name] = pid
				say("%s %s (pid %d) has ended by itself: %s; see %s", c.role, c.name, pid, c.how(), c.log)
			}
		}
		asked, cancel := context.WithTimeout(ctx, time.Second)
		nodes, err := p.Nodes(asked, nil)
		cancel()
		if err != nil {
			w.forget() // without a leader nobody knows who is heard
			continue
		}
		for _, n := range nodes {
			c := f.byName(n.GetName())
			if c == nil || c.role != roleAgent || !c.running() {
				continue
			}
			if why := w.standsStill(n, c.pid(), time.Now()); why != "" && c.kill() {
				say("agent %s (pid %d) %s: killed, since SQLite cannot end the transaction of a process that stands still; start it again with: %s",
					c.name, c.pid(), why, commandLine(f.program, c))
			}
		}
	}
}

// watcher remembers since when an agent has looked wrong.
type watcher struct {
	seen map[string]sighting
}

type sighting struct {
	pid          int
	first, wrong time.Time // when this process was first seen, and since when it is expired
}

func (w *watcher) forget() { clear(w.seen) }

// standsStill says why a process that runs must be killed; nothing if it need not be.
func (w *watcher) standsStill(n *weirv1.Node, pid int, now time.Time) string {
	s := w.seen[n.GetName()]
	if s.pid != pid {
		s = sighting{pid: pid, first: now}
	}
	defer func() { w.seen[n.GetName()] = s }()
	if now.Sub(s.first) < startPatience && n.GetStatus() != weirv1.NodeStatus_NODE_STATUS_LIVE {
		return "" // this is the row of the process before
	}
	lease, heard := time.Duration(n.GetLeaseMs())*time.Millisecond, n.GetLease()
	if silent := time.Duration(heard.GetHeardAgeMs()) * time.Millisecond; heard != nil && silent > lease+lease/4 {
		s.wrong = time.Time{}
		return fmt.Sprintf("has not been heard for %s, its lease is %s", silent.Round(time.Millisecond), lease)
	}
	if n.GetStatus() != weirv1.NodeStatus_NODE_STATUS_EXPIRED {
		s.wrong = time.Time{}
		return ""
	}
	if s.wrong.IsZero() {
		s.wrong = now
	}
	if now.Sub(s.wrong) < expiredPatience {
		return ""
	}
	return fmt.Sprintf("was expired and has not registered anew for %s", now.Sub(s.wrong).Round(time.Millisecond))
}

func commandLine(program string, c *child) string {
	words := slices.DeleteFunc(slices.Clone(c.args), func(a string) bool { return a == "--stop-on-stdin-eof" })
	return program + " " + strings.Join(words, " ")
}
