package main

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/fsm"
)

const (
	// waveSize dispatchers, drawn at random without repetition, change side by side: no command finds what it needs in
	// the cache because the command before touched the same dispatcher.
	waveSize = 256
	// tickEvery commands comes a tick that names every node: at 500 commands a second one each 100 ms.
	tickEvery = 50
	tickMS    = 100
	// How many stories of a wave are of other kinds than plain moves.
	inVain  = 48
	crashes = 32
)

// step builds the next commands of a story from the state as it is then.
type step func(w *world) []fsm.Proposal

// story is what happens to one dispatcher, or to one table.
type story []step

// wave draws the stories that happen side by side. Most dispatchers move; some begin to move, are cancelled and are added
// again; some stop by themselves and are added again; one table is dropped and another one of its shape comes.
func (w *world) wave() []story {
	dropped := w.rng.IntN(len(w.tables))
	stories := []story{w.replaceTable(&w.tables[dropped])}
	taken := map[place]bool{}
	for range waveSize {
		p := w.places[w.rng.IntN(len(w.places))]
		if p.table == dropped || taken[p] {
			continue
		}
		taken[p] = true
		id := w.tables[p.table].dispatchers[p.span]
		switch n := len(taken); {
		case n <= inVain:
			stories = append(stories, moveInVain(id))
		case n <= inVain+crashes:
			stories = append(stories, crash(id))
		default:
			stories = append(stories, move(id))
		}
	}
	return stories
}

func move(id fsm.DispatcherID) story {
	return story{
		one(func(w *world) fsm.Proposal { return w.policy(w.move(id)) }),
		stopped(id), running(id),
	}
}

func moveInVain(id fsm.DispatcherID) story {
	return story{
		one(func(w *world) fsm.Proposal { return w.request(w.move(id)) }),
		one(func(w *world) fsm.Proposal {
			row, _ := w.state.Dispatcher(id)
			return w.request(&fsm.CancelOperator{Op: row.Slot})
		}),
		stopped(id), added(id), running(id),
	}
}

func crash(id fsm.DispatcherID) story { return story{stopped(id), added(id), running(id)} }

func (w *world) replaceTable(t *table) story {
	return story{
		one(func(w *world) fsm.Proposal {
			return w.request(&fsm.DropTables{Changefeed: feedName, Tables: []fsm.TableRef{{Schema: schemaName, Name: t.name}}})
		}),
		each(t, stopped),
		one(func(w *world) fsm.Proposal {
			t.name, t.keys = w.newName(), w.newKeys(len(t.keys))
			return w.request(&fsm.AddTables{Changefeed: feedName, Start: fsm.At(1), Tables: []fsm.TableSpec{t.spec()}})
		}),
		func(w *world) []fsm.Proposal {
			w.learn(t)
			return each(t, added)(w)
		},
		each(t, running),
	}
}

func one(f func(*world) fsm.Proposal) step {
	return func(w *world) []fsm.Proposal { return []fsm.Proposal{f(w)} }
}

func each(t *table, f func(fsm.DispatcherID) step) step {
	return func(w *world) []fsm.Proposal {
		var all []fsm.Proposal
		for _, id := range t.dispatchers {
			all = append(all, f(id)(w)...)
		}
		return all
	}
}

func stopped(id fsm.DispatcherID) step {
	return one(func(w *world) fsm.Proposal { return w.policy(w.report(id, fsm.ReportStopped)) })
}

func running(id fsm.DispatcherID) step {
	return one(func(w *world) fsm.Proposal { return w.policy(w.report(id, fsm.ReportRunning)) })
}

func added(id fsm.DispatcherID) step {
	return one(func(w *world) fsm.Proposal { return w.policy(w.add(id)) })
}

// move goes from the present node to a random other one.
func (w *world) move(id fsm.DispatcherID) fsm.Command {
	row, _ := w.state.Dispatcher(id)
	from := slices.Index(w.incs, row.Incarnation)
	to := (from + 1 + w.rng.IntN(nodeCount-1)) % nodeCount
	return &fsm.AdmitOperator{Op: fsm.OpMove, Dispatcher: id, From: w.nodes[from], To: w.nodes[to]}
}

// policy is a proposal of the leader itself, request one of a user, whose answer is remembered.
func (w *world) policy(c fsm.Command) fsm.Proposal {
	return fsm.Proposal{Term: term, WallMS: int64(w.index), By: "scheduler", Command: c}
}

func (w *world) request(c fsm.Command) fsm.Proposal {
	p := w.policy(c)
	p.By, p.RequestTimeMS = "alice", w.state.Meta().TimeMS
	p.Request = fsm.RequestID(fmt.Sprintf("%016x%016x", w.rng.Uint64(), w.rng.Uint64()))
	return p
}

func (w *world) tick() fsm.Proposal {
	bits := make([]byte, (nodeCount+7)/8)
	for i := range nodeCount {
		bits[i/8] |= 1 << (i % 8)
	}
	return w.policy(&fsm.Tick{ElapsedMS: tickMS, Base: w.incs[0], Bits: bits})
}

// round is one step of all stories of a wave, as entries. The order of the commands is random, so that neighbours in a
// table are not neighbours in the log.
func (w *world) round(stories []story, at, batch int) []fsm.Entry {
	var all []fsm.Proposal
	for _, s := range stories {
		if at < len(s) {
			all = append(all, s[at](w)...)
		}
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := tickEvery / 2; i < len(all); i += tickEvery {
		all = slices.Insert(all, i, w.tick())
	}
	var entries []fsm.Entry
	for proposals := range slices.Chunk(all, batch) {
		w.index++
		entries = append(entries, throughBytes(w.index, proposals))
	}
	return entries
}

// longestStory is the number of steps after which every story has ended.
const longestStory = 5
