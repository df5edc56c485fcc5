package scenario

import "github.com/weir-project/weir/fsm"

// What a node registers with, unless the script says otherwise.
const (
	leaseMS    = 2000
	clockClass = 1
	protocol   = 1
)

func buildRegister(a *args) fsm.Command {
	node := a.word("a node")
	return &fsm.RegisterNode{
		Node:       fsm.NodeName(node),
		Address:    a.text("address", ""),
		LeaseMS:    uint32(a.number("lease", leaseMS, 32)),
		ClockClass: uint8(a.number("class", clockClass, 8)),
		Protocol:   uint32(a.number("protocol", protocol, 32)),
		BootID:     a.text("boot", "boot-of-"+node),
		LockDevice: a.number("device", 1, 64),
		LockInode:  a.number("inode", 1, 64),
	}
}

func buildGoodbye(a *args) fsm.Command {
	l := a.node()
	m := &fsm.Goodbye{Node: l.node, Incarnation: l.inc}
	for a.more() {
		m.Stopped = append(m.Stopped, a.placement())
	}
	return m
}

// buildFence leaves it to the state machine which incarnation is the live one, unless the script names one.
func buildFence(a *args) fsm.Command {
	l := a.node()
	m := &fsm.FenceNode{Node: l.node, Why: a.text("why", "")}
	if l.named {
		m.Incarnation = l.inc
	}
	return m
}

func buildExpire(a *args) fsm.Command {
	l := a.node()
	var last uint64
	if n, ok := a.world.state.Node(l.node); ok {
		last = n.LastTick
	}
	return &fsm.ExpireNode{Node: l.node, Incarnation: l.inc, ExpectTick: a.index("expect", last)}
}

func buildStartDrain(a *args) fsm.Command { return &fsm.StartDrain{Node: a.node().node} }
func buildClearDrain(a *args) fsm.Command { return &fsm.ClearDrain{Node: a.node().node} }

func buildConfirmDrain(a *args) fsm.Command {
	l := a.node()
	return &fsm.ConfirmDrain{Node: l.node, Incarnation: l.inc}
}

func reportKind(w string) (fsm.ReportKind, bool) {
	for _, k := range []fsm.ReportKind{fsm.ReportRunning, fsm.ReportStopped, fsm.ReportStartFailed} {
		if w == k.String() {
			return k, true
		}
	}
	return 0, false
}

func buildReport(a *args) fsm.Command {
	l := a.node()
	m := &fsm.ReportPlacements{Node: l.node, Incarnation: l.inc}
	reason, detail, fatal := a.text("reason", ""), a.text("detail", ""), a.truth("fatal", false)
	what, known := reportKind(a.word("running, stopped or start-failed"))
	if !known {
		a.fail("want running, stopped or start-failed after the node")
	}
	for a.more() {
		if next, ok := reportKind(a.plain[0]); ok {
			what, a.plain = next, a.plain[1:]
			continue
		}
		r := fsm.PlacementReport{PlacementPosition: a.placement(), What: what}
		if what != fsm.ReportRunning {
			r.Reason, r.Detail, r.Fatal = reason, detail, fatal
		}
		m.Reports = append(m.Reports, r)
	}
	return m
}
