package control

import (
	"context"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// inbox holds reports of one node that wait to be dealt with. A report that waits already is dropped: nodes repeat what
// has not been acknowledged.
type inbox struct {
	queue  []fsm.PlacementReport
	queued map[session.ReportedPair]struct{}
}

func reported(rep *fsm.PlacementReport) session.ReportedPair {
	return session.ReportedPair{Pair: session.Pair{Dispatcher: rep.Dispatcher, Epoch: rep.Epoch}, What: rep.What}
}

func (b *inbox) put(reports []fsm.PlacementReport) {
	for i := range reports {
		key := reported(&reports[i])
		if _, waits := b.queued[key]; waits || len(b.queue) >= reportsWaiting {
			continue
		}
		b.queued[key] = struct{}{}
		b.queue = append(b.queue, reports[i])
	}
}

// reportOverhead is the size of a report without its texts, in bytes.
const reportOverhead = 64

// take returns the oldest reports, as many as fit into one entry.
func (b *inbox) take() []fsm.PlacementReport {
	n, size := 0, 0
	for n < len(b.queue) && n < reportsPerEntry {
		size += reportOverhead + len(b.queue[n].Reason) + len(b.queue[n].Detail)
		if n > 0 && size > reportBytes {
			break
		}
		delete(b.queued, reported(&b.queue[n]))
		n++
	}
	out := b.queue[:n:n]
	b.queue = b.queue[n:]
	return out
}

// finding is what the view says of a report before it enters the log.
type finding uint8

const (
	findCounts      finding = iota + 1 // it would change the state
	findInert                          // it would not: an ack is all it needs
	findStray                          // it runs and is not current: it must stop
	findServerStale                    // it is above what this server has issued
)

// find tells what Apply would make of a report in the view.
func find(view *fsm.View, inc fsm.Incarnation, rep *fsm.PlacementReport) finding {
	if rep.Epoch > view.Meta().LastEpoch {
		return findServerStale
	}
	running := rep.What == fsm.ReportRunning
	row, _ := view.Dispatcher(rep.Dispatcher)
	if !isCurrent(view, inc, reported(rep).Pair) {
		if running {
			return findStray
		}
		return findInert
	}
	switch row.Phase {
	case fsm.Starting:
		return findCounts
	case fsm.Running:
		if rep.What == fsm.ReportStopped {
			return findCounts
		}
		return findInert
	case fsm.Stopping:
		if running {
			return findInert
		}
		return findCounts
	case fsm.Absent:
		return findInert
	default:
		return findCounts
	}
}

// reports deals with what a node reports until its session ends.
func (r *reign) reports(ctx context.Context, k *link) {
	for ctx.Err() == nil {
		// What runs comes first: words about events count only of what is known to run.
		batch, words := k.collect(), k.collectBarriers()
		if len(batch) > 0 {
			r.settle(ctx, k, batch)
		}
		if len(words) > 0 {
			r.settleBarriers(ctx, k, words)
		}
		if len(batch)+len(words) > 0 {
			continue
		}
		select {
		case <-k.told:
		case <-ctx.Done():
		}
	}
}

// settle answers reports that change nothing from the view, and proposes the others in one entry.
func (r *reign) settle(ctx context.Context, k *link, batch []fsm.PlacementReport) {
	view := r.fresh()
	if !r.owns(view) {
		return
	}
	var counts []fsm.PlacementReport
	var inert []session.ReportedPair
	for i := range batch {
		switch find(view, k.inc, &batch[i]) {
		case findServerStale:
			k.close(staleServer("epoch", batch[i].Epoch, view.Meta().LastEpoch))
			return
		case findStray:
			r.stray(k, reported(&batch[i]).Pair)
			inert = append(inert, reported(&batch[i]))
		case findInert:
			k.contact.sets.seen(&batch[i], view.Meta().Index)
			inert = append(inert, reported(&batch[i]))
		case findCounts:
			counts = append(counts, batch[i])
		}
	}
	r.counters.reportsDeduplicated.Add(uint64(len(inert)))
	r.answer(k, inert, view.Meta().Index)
	if len(counts) > 0 {
		r.proposeReports(ctx, k, view, counts)
	}
}

func (r *reign) proposeReports(ctx context.Context, k *link, view *fsm.View, reports []fsm.PlacementReport) {
	k.contact.sets.proposing(view, reports)
	verdicts, err := r.propose(ctx, byNode(k.hello.Node), &fsm.ReportPlacements{
		Node: k.hello.Node, Incarnation: k.inc, Reports: reports,
	})
	if err != nil || len(verdicts) != 1 {
		r.log.Debug("reports not applied, the node repeats them", "node", k.hello.Node, "error", err)
		return
	}
	v := verdicts[0]
	if !v.OK() {
		// A refusal that lasts is of an ended incarnation, whose session the next look closes.
		r.log.Debug("reports refused", "node", k.hello.Node, "reason", v.Reason)
		r.kick()
		return
	}
	r.counters.reports.Add(uint64(len(reports)))
	k.contact.sets.proposed(view, r.fresh(), k.inc, reports, v.Index)
	done := make([]session.ReportedPair, len(reports))
	for i := range reports {
		done[i] = reported(&reports[i])
		if i < len(v.Reports) && v.Reports[i] == fsm.ReportStale {
			r.stray(k, done[i].Pair)
		}
	}
	r.answer(k, done, v.Index)
	r.kick()
}

func byNode(n fsm.NodeName) string { return "node " + string(n) }

// answer acknowledges reports as of index.
func (r *reign) answer(k *link, pairs []session.ReportedPair, index uint64) {
	for _, p := range pairs {
		if p.What != fsm.ReportRunning {
			k.stopped(p.Pair)
		}
	}
	k.acknowledgeReports(session.ReportAck{Term: r.term, Index: index, Pairs: pairs})
}

// stray orders a node to stop exactly this pair.
func (r *reign) stray(k *link, pairs ...session.Pair) {
	if n := k.stop(pairs...); n > 0 {
		r.counters.strays.Add(uint64(n))
		r.log.Info("node must stop what the state does not have there", "node", k.hello.Node, "pairs", n)
		r.kick()
	}
}
