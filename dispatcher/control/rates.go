package control

import (
	"cmp"
	"slices"

	"github.com/weir-project/weir/dispatcher/scheduler"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fence/clock"
	"github.com/weir-project/weir/fsm"
)

// rates are how many rows a second the placements of one node write, as far as the node has said so lately.
type rates struct {
	since  clock.Reading // first heartbeat of the term
	meters map[fsm.DispatcherID]meter
	survey survey
}

// meter measures one placement.
type meter struct {
	epoch fsm.Epoch
	rows  uint64        // when the window began
	began clock.Reading // of the window
	at    clock.Reading // of the newest word
	rate  uint64
	// measured: a window has ended.
	measured bool
}

// survey is what the scheduler is told of a node; made anew once a window.
type survey struct {
	made    bool
	at      clock.Reading
	total   uint64
	busiest []scheduler.Busy
}

func newRates() rates { return rates{meters: make(map[fsm.DispatcherID]meter)} }

// note takes a word about a placement. A rate is the mean of the newest window's and the one before.
func (r *rates) note(p *session.Progress, at clock.Reading) {
	m, known := r.meters[p.Dispatcher]
	if !known || m.epoch != p.Epoch || p.Rows < m.rows {
		r.meters[p.Dispatcher] = meter{epoch: p.Epoch, rows: p.Rows, began: at, at: at}
		return
	}
	m.at = at
	if span := clock.MinElapsed(m.began, at); span >= rateWindow {
		now := (p.Rows - m.rows) * 1_000 / uint64(span.Milliseconds())
		if m.measured {
			now = (m.rate + now) / 2
		}
		m.rate, m.rows, m.began, m.measured = now, p.Rows, at, true
	}
	r.meters[p.Dispatcher] = m
}

// look returns the survey of a node, and makes one if the last is too old.
func (r *rates) look(view *fsm.View, inc fsm.Incarnation, now clock.Reading) survey {
	if r.survey.made && clock.MinElapsed(r.survey.at, now) < rateWindow {
		return r.survey
	}
	s := survey{made: true, at: now}
	for id, m := range r.meters {
		p := session.Pair{Dispatcher: id, Epoch: m.epoch}
		if clock.MinElapsed(m.at, now) > rateStale || !isCurrent(view, inc, p) {
			delete(r.meters, id)
			continue
		}
		if m.rate > 0 {
			s.total += m.rate
			s.busiest = append(s.busiest, scheduler.Busy{Pair: p, Rate: m.rate})
		}
	}
	slices.SortFunc(s.busiest, func(a, b scheduler.Busy) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Dispatcher, b.Dispatcher))
	})
	s.busiest = slices.Clone(s.busiest[:min(len(s.busiest), busiestKept)])
	r.survey = s
	return s
}

// loads is what the scheduler is told of rates for one plan.
type loads struct {
	r       *reign
	view    *fsm.View
	now     clock.Reading
	surveys map[fsm.Incarnation]survey
	known   map[fsm.Incarnation]bool
}

func (r *reign) loads(view *fsm.View, now clock.Reading) *loads {
	return &loads{r: r, view: view, now: now, surveys: make(map[fsm.Incarnation]survey), known: make(map[fsm.Incarnation]bool)}
}

func (l *loads) survey(inc fsm.Incarnation) (survey, bool) {
	if s, asked := l.surveys[inc]; asked {
		return s, l.known[inc]
	}
	c := l.r.contact(inc)
	if c == nil {
		return survey{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.surveys[inc] = c.rates.look(l.view, inc, l.now)
	l.known[inc] = c.heard && clock.MinElapsed(c.rates.since, l.now) >= rateKnown
	return l.surveys[inc], l.known[inc]
}

// Node implements scheduler.Loads.
func (l *loads) Node(inc fsm.Incarnation) (uint64, bool) {
	s, known := l.survey(inc)
	return s.total, known
}

// Busiest implements scheduler.Loads.
func (l *loads) Busiest(inc fsm.Incarnation) []scheduler.Busy {
	s, _ := l.survey(inc)
	return s.busiest
}

// Rate implements scheduler.Loads. Nodes say nothing of what does not move: silence is idleness.
func (l *loads) Rate(row fsm.Dispatcher) (uint64, bool) {
	if _, known := l.survey(row.Incarnation); !known || row.Phase != fsm.Running {
		return 0, false
	}
	c := l.r.contact(row.Incarnation)
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, moves := c.rates.meters[row.ID]
	if !moves || m.epoch != row.Epoch || clock.MinElapsed(m.at, l.now) > rateStale {
		return 0, true
	}
	return m.rate, m.measured
}
