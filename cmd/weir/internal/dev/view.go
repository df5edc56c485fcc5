package dev

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// How often the view is drawn anew, or a plain line is said.
const (
	drawPeriod = 500 * time.Millisecond
	linePeriod = 2 * time.Second
)

// scene is what is shown at one instant.
type scene struct {
	elapsed     time.Duration
	feed        float64
	leader      string
	term        uint64
	dispatchers []row
	operators   []show.Operator
	nodes       []show.Node
	barriers    []show.Barrier // open ones
	// trouble says why the control plane could not be asked; the rest is then as it was before.
	trouble string
}

// row is a dispatcher as shown.
type row struct {
	show.Dispatcher

	known   bool    // its progress
	reached float64 // share of the log
	lag     time.Duration
}

// look asks the control plane.
func (d *demo) look(ctx context.Context, before scene) scene {
	ctx, cancel := context.WithTimeout(ctx, drawPeriod)
	defer cancel()
	s, err := d.ask(ctx)
	if err != nil {
		s = before
		s.trouble = err.Error()
	}
	s.elapsed, s.feed = time.Since(d.began), d.feed.share()
	return s
}

func (d *demo) ask(ctx context.Context) (s scene, err error) {
	status, err := d.plane.Status(ctx, false, nil)
	if err != nil {
		return s, err
	}
	s.leader, s.term = status.GetLeader(), status.GetTerm()
	all, err := d.dispatchers(ctx)
	if err != nil {
		return s, err
	}
	for _, one := range all {
		s.dispatchers = append(s.dispatchers, d.row(one))
	}
	for o, err := range d.plane.Operators(ctx, &weirv1.ListOperatorsRequest{State: weirv1.OperatorState_OPERATOR_STATE_RUNNING}) {
		if err != nil {
			return s, err
		}
		s.operators = append(s.operators, show.OperatorRow(o))
	}
	for b, err := range d.plane.Barriers(ctx, &weirv1.ListBarriersRequest{Changefeed: feedName}) {
		if err != nil {
			return s, err
		}
		s.barriers = append(s.barriers, show.BarrierRow(b))
	}
	nodes, err := d.plane.Nodes(ctx, nil)
	for _, n := range nodes {
		s.nodes = append(s.nodes, show.NodeRow(n))
	}
	return s, err
}

func (d *demo) row(one *weirv1.Dispatcher) row {
	r := row{Dispatcher: show.DispatcherRow(one)}
	if p := one.GetProgress(); p != nil {
		position := show.ToPosition(p.GetPosition())
		r.known, r.reached, r.lag = true, d.feed.reached(position), d.feed.lag(position, time.Now())
	}
	return r
}

// show draws until the context ends.
func (d *demo) show(ctx context.Context) {
	period := linePeriod
	if d.out.terminal {
		period = drawPeriod
	}
	s := scene{}
	for sleep(ctx, period) == nil {
		s = d.look(ctx, s)
		if ctx.Err() != nil {
			break
		}
		if d.out.terminal {
			d.out.draw(s.lines())
		} else {
			d.out.line("%s", s.line())
		}
	}
	d.out.settle()
}

// lines is the view on a terminal.
func (s *scene) lines() []string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%5.1f s  feed %3.0f%%  leader %s, term %d\n", s.elapsed.Seconds(), 100*s.feed, show.Dash(s.leader), s.term)
	g := show.NewGrid("DISPATCHER", "TABLE", "KEYS", "PHASE", "NODE", "EPOCH", "DONE", "LAG", "OPERATOR")
	for i := range s.dispatchers {
		r := &s.dispatchers[i]
		done, lag := r.words()
		g.Add(fmt.Sprint(r.ID), r.Table, r.Keys, r.Phase, r.Node, r.Epoch, done, lag, r.Operator)
	}
	_ = g.Print(&b, "no dispatchers yet") // a buffer takes everything
	b.WriteString("\n")
	g = show.NewGrid("NODE", "STATUS", "LEASE", "HEARD", "DISPATCHERS")
	for i := range s.nodes {
		n := &s.nodes[i]
		heard := ""
		if n.Lease != nil {
			heard = show.Ago(int64(n.Lease.HeardAgeMS)) + " ago"
		}
		g.Add(n.Name, n.Status, n.Words(), heard, fmt.Sprint(n.Placements))
	}
	_ = g.Print(&b, "no nodes yet") // a buffer takes everything
	fmt.Fprintf(&b, "operators: %s\nevents: %s\n", s.operatorWords(), s.barrierWords())
	if s.trouble != "" {
		fmt.Fprintf(&b, "the control plane does not answer right now: %s\n", s.trouble)
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

func (r *row) words() (done, lag string) {
	if !r.known {
		return "", ""
	}
	return fmt.Sprintf("%.0f%%", 100*r.reached), show.Ago(r.lag.Milliseconds())
}

func (s *scene) operatorWords() string {
	words := make([]string, 0, len(s.operators))
	for i := range s.operators {
		o := &s.operators[i]
		words = append(words, fmt.Sprintf("%s %s of %d (%s -> %s)", o.Kind, o.ID, o.Dispatcher, show.Dash(o.From), show.Dash(o.To)))
	}
	return show.Dash(strings.Join(words, ", "))
}

func (s *scene) barrierWords() string {
	words := make([]string, 0, len(s.barriers))
	for i := range s.barriers {
		b := &s.barriers[i]
		text := b.Statement
		if text == "" {
			text = "sync point"
		}
		switch b.Status {
		case "collecting":
			text += fmt.Sprintf(": %d of %d have reached it", b.Members-b.Behind, b.Members)
		case "writing":
			text += ": " + b.WriterNode + " writes it"
		case "passing":
			text += fmt.Sprintf(": written, %d of %d have passed", b.Members-b.Unpassed, b.Members)
		default:
			text += ": " + b.State()
		}
		words = append(words, b.At+" "+text)
	}
	return show.Dash(strings.Join(words, ", "))
}

// line is the view without a terminal.
func (s *scene) line() string {
	parts := []string{fmt.Sprintf("%.0fs feed %.0f%% leader %s", s.elapsed.Seconds(), 100*s.feed, show.Dash(s.leader))}
	for i := range s.dispatchers {
		r := &s.dispatchers[i]
		done, lag := r.words()
		parts = append(parts, fmt.Sprintf("d%d %s %s e%s %s lag %s", r.ID, r.Phase, show.Dash(r.Node), sequence(r.Epoch), show.Dash(done), show.Dash(lag)))
	}
	leases := make([]string, 0, len(s.nodes))
	for i := range s.nodes {
		n := &s.nodes[i]
		word := n.Words()
		if n.Status != "live" {
			word = n.Status
		}
		leases = append(leases, n.Name+" "+word)
	}
	parts = append(parts, "operators "+s.operatorWords(), "events "+s.barrierWords(), "leases "+show.Dash(strings.Join(leases, ", ")))
	if s.trouble != "" {
		parts = append(parts, "no answer: "+s.trouble)
	}
	return strings.Join(parts, " | ")
}

// sequence is the short form of a token within one generation.
func sequence(token string) string {
	if _, s, ok := strings.Cut(token, "."); ok {
		return s
	}
	return show.Dash(token)
}
