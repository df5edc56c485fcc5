package scheduler

import "github.com/weir-project/weir/fsm"

// drain moves work off draining nodes, a bounded number at a time for each. When no node can take work nothing is moved:
// what runs on the last nodes goes on running there.
func (p *planner) drain() {
	for n := range p.in.View.Nodes() {
		if !n.Draining || n.Status != fsm.NodeStatusLive {
			continue
		}
		together := int(p.meta.Policy.DrainAtOnce) - p.ops.off[n.Name]
		looks := p.in.Limits.Scan
		for row := range p.in.View.DispatchersOn(n.Incarnation) {
			if together <= 0 || looks == 0 || p.room() == 0 {
				break
			}
			looks--
			if !p.movable(row) {
				continue
			}
			to := p.choose(p.kinOf(row))
			if to == nil {
				return
			}
			p.move(row, n.Name, to)
			together--
		}
	}
}
