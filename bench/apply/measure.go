package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// heap is what the dispatchers take, and what the bounded memory of the past takes beside them.
type heap struct {
	Built    float64 // bytes a dispatcher after n adds in the log
	Restored float64 // the same after reading a snapshot
	Past     uint64  // bytes of history, finished operators and answers at their limits, whatever the number of dispatchers
}

// cost is what a number of commands took.
type cost struct {
	Commands    uint64
	Nanoseconds int64
	Allocations uint64
	Bytes       uint64
}

// per divides a total by the number of commands.
func (c cost) per(total float64) float64 { return total / float64(max(c.Commands, 1)) }

// liveHeap is the heap in use after collection.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers and sweeping left of the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// measureHeap builds a world of n dispatchers and says what each takes. The harness's own books do not count: they share
// nothing with the state, whose commands went through bytes.
func measureHeap(n int, seed uint64) (*world, heap, error) {
	var h heap
	w := newWorld(n, seed)
	var snapshot bytes.Buffer
	if err := logcodec.WriteSnapshot(&snapshot, w.state.View()); err != nil {
		return nil, h, fmt.Errorf("write snapshot: %w", err)
	}
	with := liveHeap()
	w.state = nil
	without := liveHeap()
	h.Built = float64(with-without) / float64(n)
	var err error
	if w.state, err = logcodec.ReadSnapshot(bytes.NewReader(snapshot.Bytes())); err != nil {
		return nil, h, fmt.Errorf("read snapshot: %w", err)
	}
	h.Restored = float64(liveHeap()-without) / float64(n)
	runtime.KeepAlive(&snapshot) // or the last number would be too small by it
	return w, h, nil
}

// warm fills the bounded memory of the past to its limits, those of the default policy but for the history's, so that
// each further command forgets as much as it adds.
func (w *world) warm(history int) {
	w.setPolicy(func(p *fsm.Policy) { p.KeepHistory = uint32(history) })
	p := w.state.Meta().Policy
	ended := min(int(p.KeepHistory), len(w.places)*int(p.KeepHistoryEach)/2)
	for done := 0; done < max(ended, int(p.KeepOperators)); done += waveSize {
		w.play(buildBatch, func(e fsm.Entry) []fsm.Verdict { return w.state.Apply(e) })
	}
}

// play lets one wave happen, through apply.
func (w *world) play(batch int, apply func(fsm.Entry) []fsm.Verdict) {
	stories := w.wave()
	for at := range longestStory {
		for _, e := range w.round(stories, at, batch) {
			mustTake(e, apply(e))
		}
	}
}

// playTimed is play with a measurement around each step of all stories: nothing but Apply, and View if asked for, runs inside.
func (w *world) playTimed(p pace, c *cost, before, after func()) {
	stories := w.wave()
	for at := range longestStory {
		entries := w.round(stories, at, p.Batch)
		verdicts := make([][]fsm.Verdict, len(entries))
		before()
		for i := range entries {
			verdicts[i] = w.state.Apply(entries[i])
			if p.Views > 0 && i%p.Views == 0 {
				_ = w.state.View()
			}
		}
		after()
		for i, e := range entries {
			mustTake(e, verdicts[i])
			c.Commands += uint64(len(e.Proposals))
		}
	}
}

// timeRound plays waves and measures their time, with the collector running as it does in a server.
func (w *world) timeRound(waves int, p pace) cost {
	var c cost
	var start time.Time
	runtime.GC()
	for range waves {
		w.playTimed(p, &c,
			func() { start = time.Now() },                               //nolint:forbidigo // measuring real time is the job
			func() { c.Nanoseconds += time.Since(start).Nanoseconds() }) //nolint:forbidigo // as above
	}
	return c
}

// allocRound plays waves and counts their allocations.
func (w *world) allocRound(waves int, p pace) cost {
	var c cost
	var before, after runtime.MemStats
	for range waves {
		w.playTimed(p, &c, func() { runtime.ReadMemStats(&before) }, func() {
			runtime.ReadMemStats(&after)
			c.Allocations += after.Mallocs - before.Mallocs
			c.Bytes += after.TotalAlloc - before.TotalAlloc
		})
	}
	return c
}

// instructionRound plays waves with callgrind counting Apply on this thread alone, without a collector.
func (w *world) instructionRound(waves int, p pace) cost {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	debug.SetGCPercent(-1)
	var tool callgrind
	var c cost
	tool.start()
	defer tool.stop()
	for range waves {
		w.playTimed(p, &c, tool.toggle, tool.toggle)
	}
	return c
}

// child is a process that has built one size. It answers each line of its input with a line.
type child struct {
	in  *json.Decoder
	out *json.Encoder
	w   *world
}

// What can be asked of a child.
const (
	askTime         = "time"
	askAllocations  = "allocations"
	askInstructions = "instructions"
)

// pace is how a round runs.
type pace struct {
	Batch int // commands an entry
	Views int // entries after which a reader takes a view; 0: never
}

// order is what the parent asks of a child.
type order struct {
	What  string // one of the constants above
	Waves int
	Pace  pace
}

// serve builds, answers with the heap, then carries out orders until its input ends.
func serve(n int, seed uint64, history int, in io.Reader, out io.Writer) error {
	c := child{in: json.NewDecoder(in), out: json.NewEncoder(out)}
	var h heap
	var err error
	if (callgrind{}).present() {
		c.w = newWorld(n, seed)
	} else if c.w, h, err = measureHeap(n, seed); err != nil {
		return err
	}
	before := liveHeap()
	c.w.warm(history)
	after := liveHeap()
	h.Past = after - min(before, after)
	if err := c.out.Encode(h); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	for {
		var o order
		if err := c.in.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		if err := c.out.Encode(c.obey(o)); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

func (c *child) obey(o order) cost {
	switch o.What {
	case askTime:
		return c.w.timeRound(o.Waves, o.Pace)
	case askAllocations:
		return c.w.allocRound(o.Waves, o.Pace)
	default:
		return c.w.instructionRound(o.Waves, o.Pace)
	}
}
