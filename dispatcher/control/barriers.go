package control

import (
	"context"
	"slices"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// barrierInbox holds what one node says of events until it is dealt with. What does not fit is dropped: nodes repeat what
// has not been answered.
type barrierInbox struct {
	queue []session.BarrierReport
	pairs int // in the queue
}

func (b *barrierInbox) put(m session.BarrierReport) {
	n := pairsIn(&m)
	if len(b.queue) >= barrierMessagesWaiting || b.pairs+n > reportsWaiting {
		return
	}
	b.queue = append(b.queue, m)
	b.pairs += n
}

// take returns the oldest messages, as many as fit into one entry, but one at least.
func (b *barrierInbox) take() []session.BarrierReport {
	n, size := 0, 0
	for n < len(b.queue) {
		for i := range b.queue[n].Reports {
			rep := &b.queue[n].Reports[i]
			size += sizeOf(rep) + len(rep.Pairs)*pairSize
		}
		if n > 0 && size > reportBytes {
			break
		}
		b.pairs -= pairsIn(&b.queue[n])
		n++
	}
	out := b.queue[:n:n]
	b.queue = b.queue[n:]
	return out
}

func pairsIn(m *session.BarrierReport) (n int) {
	for i := range m.Reports {
		n += len(m.Reports[i].Pairs) + len(m.Reports[i].Except)
	}
	return n
}

// pairSize bounds a pair in the log, in bytes.
const pairSize = 20

// sizeOf bounds a report without its pairs, in bytes.
func sizeOf(rep *fsm.BarrierReport) int {
	n := 2*reportOverhead + len(rep.Spec.Schema) + len(rep.Spec.Statement) + len(rep.Except)*pairSize/2
	for _, refs := range [][]fsm.TableRef{rep.Spec.Tables, rep.Spec.Drop} {
		for _, t := range refs {
			n += len(t.Schema) + len(t.Name) + 4
		}
	}
	for _, t := range rep.Spec.Add {
		n += len(t.Schema) + len(t.Name) + 8
		for _, key := range t.SplitKeys {
			n += len(key) + 4
		}
	}
	for _, t := range rep.Spec.Rename {
		n += len(t.From.Schema) + len(t.From.Name) + len(t.To.Schema) + len(t.To.Name) + 8
	}
	return n
}

// hearing is a message in the course of being answered.
type hearing struct {
	seq     uint64
	answers []fsm.Reason // zero: not known yet
	index   uint64
}

// settleBarriers answers from the view what would change nothing, and proposes the rest: in one entry a node, unless it
// is too large for one.
func (r *reign) settleBarriers(ctx context.Context, k *link, batch []session.BarrierReport) {
	view := r.fresh()
	if !r.owns(view) {
		return
	}
	hearings := make([]*hearing, len(batch))
	ask := &barrierAsk{node: k.hello.Node, inc: k.inc}
	var strays []fsm.Pair
	known := 0
	for i := range batch {
		if epoch := highestEpoch(&batch[i]); epoch > view.Meta().LastEpoch {
			k.close(staleServer("epoch", epoch, view.Meta().LastEpoch))
			return
		}
		h := hear(view, k.inc, &batch[i], ask)
		known += len(h.answers)
		hearings[i] = h
	}
	known -= len(ask.waits)
	r.counters.barrierReportsDeduplicated.Add(uint64(known))
	if len(ask.commands) > 0 {
		r.proposeBarriers(ctx, k, ask)
	}
	for i, h := range hearings {
		strays = append(strays, h.stale(&batch[i])...)
		if h.settled() {
			k.answerBarrier(session.BarrierAnswer{Term: r.term, Index: h.index, Seq: h.seq, Answers: h.answers})
		}
	}
	r.stray(k, strays...)
}

func highestEpoch(m *session.BarrierReport) (highest fsm.Epoch) {
	for i := range m.Reports {
		for _, p := range m.Reports[i].Pairs {
			highest = max(highest, p.Epoch)
		}
	}
	return highest
}

// hear answers what the view can tell and adds the rest to what is asked of the log.
func hear(view *fsm.View, inc fsm.Incarnation, m *session.BarrierReport, ask *barrierAsk) *hearing {
	h := &hearing{seq: m.Seq, index: view.Meta().Index}
	for i := range m.Reports {
		rep := &m.Reports[i]
		if rep.All {
			answer, decided := findBarrierAll(view, inc, rep)
			h.answers = append(h.answers, answer)
			if !decided {
				ask.addAll(rep, h, len(h.answers)-1)
			}
			continue
		}
		for _, p := range rep.Pairs {
			answer, decided := findBarrier(view, inc, rep, p)
			h.answers = append(h.answers, answer)
			if !decided {
				ask.addPair(rep, p, h, len(h.answers)-1)
			}
		}
	}
	return h
}

// settled says whether every answer is known.
func (h *hearing) settled() bool {
	return !slices.Contains(h.answers, 0)
}

// stale lists the pairs that the node has and the state does not.
func (h *hearing) stale(m *session.BarrierReport) (pairs []fsm.Pair) {
	at := 0
	for i := range m.Reports {
		if m.Reports[i].All {
			at++
			continue
		}
		for _, p := range m.Reports[i].Pairs {
			if h.answers[at] == fsm.ReportStale {
				pairs = append(pairs, p)
			}
			at++
		}
	}
	return pairs
}

// barrierAsk is what goes into the log, and where its answers belong.
type barrierAsk struct {
	node     fsm.NodeName
	inc      fsm.Incarnation
	commands []*fsm.ReportBarrier
	waits    []waiting          // in the order of the commands' answers
	last     *fsm.BarrierReport // whose pairs are being added
	size     int                // of the last command
}

type waiting struct {
	of      *hearing
	at      int
	command int
}

func (a *barrierAsk) addAll(rep *fsm.BarrierReport, h *hearing, at int) {
	a.begin(rep)
	a.last = nil
	a.waits = append(a.waits, waiting{h, at, len(a.commands) - 1})
}

func (a *barrierAsk) addPair(rep *fsm.BarrierReport, p fsm.Pair, h *hearing, at int) {
	if a.last != rep || a.size+pairSize > reportBytes {
		a.begin(rep)
	}
	c := a.commands[len(a.commands)-1]
	mine := &c.Reports[len(c.Reports)-1]
	mine.Pairs = append(mine.Pairs, p)
	a.size += pairSize
	a.waits = append(a.waits, waiting{h, at, len(a.commands) - 1})
}

// begin adds a report without pairs, to a new command if the last one has no room.
func (a *barrierAsk) begin(rep *fsm.BarrierReport) {
	size := sizeOf(rep)
	if len(a.commands) == 0 || a.size+size+pairSize > reportBytes {
		a.commands = append(a.commands, &fsm.ReportBarrier{Node: a.node, Incarnation: a.inc})
		a.size = 0
	}
	c := a.commands[len(a.commands)-1]
	part := *rep
	part.Pairs = nil
	c.Reports = append(c.Reports, part)
	a.last, a.size = rep, a.size+size
}

// proposeBarriers fills in the answers of what was applied. The others stay unknown: the node repeats them.
func (r *reign) proposeBarriers(ctx context.Context, k *link, ask *barrierAsk) {
	commands := make([]fsm.Command, len(ask.commands))
	for i, c := range ask.commands {
		commands[i] = c
	}
	verdicts, err := r.propose(ctx, byNode(k.hello.Node), commands...)
	if err != nil || len(verdicts) != len(commands) {
		r.log.Debug("barrier reports not applied, the node repeats them", "node", k.hello.Node, "error", err)
		return
	}
	next := make([]int, len(commands))
	for _, w := range ask.waits {
		v := &verdicts[w.command]
		i := next[w.command]
		next[w.command]++
		if !v.OK() || i >= len(v.Reports) {
			continue
		}
		w.of.answers[w.at] = v.Reports[i]
		w.of.index = max(w.of.index, v.Index)
		r.counters.barrierReports.Add(1)
	}
	for i := range verdicts {
		if !verdicts[i].OK() {
			r.log.Debug("barrier reports refused", "node", k.hello.Node, "reason", verdicts[i].Reason)
		}
	}
	r.kick()
}
