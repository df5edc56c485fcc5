package explore

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// Counterexample is a violation and how to reach it.
type Counterexample struct {
	// Err is the rule that is broken.
	Err error
	// Script is played by `weir scenario run`: commands of the log, and as comments what nodes do between them.
	Script string
	// Steps counts what happens in it after the world's beginning.
	Steps int
}

// explain replays the way to a violation in real states and writes the script.
func (s *search) explain(f finding) (*Counterexample, error) {
	path := s.origins.path(f.number)
	if f.action.kind != 0 {
		path = append(path, f.action)
	}
	p, err := s.player()
	if err != nil {
		return nil, err
	}
	p.say("# " + s.world.Name + ": " + s.world.Bounds)
	p.say("# " + strings.ReplaceAll(f.err.Error(), "\n", "\n# "))
	p.say("")
	p.lines = append(p.lines, p.first...)
	for _, a := range path {
		p.play(a)
	}
	if f.action.kind == 0 {
		p.say("# nothing leads on: " + p.waitsFor(&p.now))
	}
	p.say("state")
	p.say("check")
	return &Counterexample{Err: f.err, Script: strings.Join(p.lines, "\n") + "\n", Steps: len(path)}, nil
}

// player walks a path through real states, beside the whole states that stand for them.
type player struct {
	stepper
	now   state
	real  *fsm.State
	first []string
	lines []string
}

func (s *search) player() (*player, error) {
	p := &player{stepper: s.stepper}
	var err error
	if p.now, p.first, err = s.machine.first(); err != nil {
		return nil, err
	}
	p.real, _, err = s.world.begin()
	return p, err
}

func (p *player) say(line string) { p.lines = append(p.lines, line) }

// play takes one step and writes it down.
func (p *player) play(a action) {
	shape := p.world.shapeOf(p.real)
	if a.kind <= lastCommand {
		request := p.world.ask(shape, a)
		p.say(request.line)
		concrete{state: p.real}.apply(fsm.Proposal{Command: request.command, Request: request.request})
	} else {
		p.say("# " + p.words(shape, a))
	}
	if a.stale() {
		return
	}
	// The last step breaks a rule; what it leads to is not walked on from.
	_, _ = p.take(&p.now, a)
}

// words tells what a node does.
func (p *player) words(sh *shape, a action) string {
	name := nodeName(int(a.a))
	//exhaustive:ignore
	switch a.kind {
	case nodeFenced:
		return fmt.Sprintf("%s loses its lease and runs nothing any more", name)
	case nodeLate:
		return fmt.Sprintf("%s pauses: its lease is over", name)
	case askExpire:
		return fmt.Sprintf("the leader has waited for %s, and proposes to expire it", name)
	case nodeRevived:
		return fmt.Sprintf("an earlier process of %s gets an ack, and writes on", name)
	}
	r := &p.now.nodes[a.a].records[a.b]
	what := "a placement that has ended, of " + p.world.cellWords(r.cells)
	if r.row >= 0 {
		row := &sh.rows[r.row]
		what = fmt.Sprintf("%s@%s", dispatcherWord(row.ID), row.Epoch)
	}
	//exhaustive:ignore
	switch a.kind {
	case nodeStarts:
		return fmt.Sprintf("%s obeys an order to start %s", name, what)
	case nodeToldStop:
		return fmt.Sprintf("%s is ordered to stop %s, does not hold it, and remembers it as stopped", name, what)
	case nodeBuilt:
		return fmt.Sprintf("%s runs %s", name, what)
	case nodeFails:
		return fmt.Sprintf("%s fails to start %s", name, what)
	case nodeStops:
		return fmt.Sprintf("%s has stopped %s", name, what)
	case nodeMoves:
		return fmt.Sprintf("%s writes on in %s, up to %s", name, what, p.world.Track[r.at+1])
	case nodeBegins:
		return fmt.Sprintf("%s begins to write the event before %s", name, what)
	case nodeWrites:
		return fmt.Sprintf("%s has written the event before %s", name, what)
	case nodeUnsure:
		return fmt.Sprintf("%s cannot know whether it wrote the event before %s", name, what)
	case nodePasses:
		return fmt.Sprintf("%s passes the event before %s", name, what)
	case nodeGoesOn:
		return fmt.Sprintf("%s leaves the event before %s behind", name, what)
	default:
		return fmt.Sprintf("%s forgets %s", name, what)
	}
}
