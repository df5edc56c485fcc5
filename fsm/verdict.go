package fsm

import "github.com/weir-project/weir/fsm/internal/wire"

// Verdict is what Apply answers to one command. A refusal is a normal answer, the same on every server; it has changed
// nothing.
type Verdict struct {
	Reason Reason
	Facts  Facts
	// Index is the entry in which the command took effect or was refused; for a replayed verdict the first one.
	Index uint64
	// Replayed says that the request had been answered before: this is that answer.
	Replayed bool
	// RefusedNames lists the incarnations that a tick named and that were not accepted. Not remembered.
	RefusedNames []Incarnation
	// Reports answers each placement report: ReportCounted, ReportInert, or ReportStale (the pair is not current; what
	// runs must be stopped). Not remembered.
	Reports []Reason
}

// OK says whether the command took effect.
func (v Verdict) OK() bool { return v.Reason == Accepted }

// Facts are what a verdict is about: on acceptance what was made, on refusal who or what stands in the way. Fields that
// do not matter are zero.
type Facts struct {
	Operator     OpID
	OperatorKind OperatorKind
	Result       OpResult
	Dispatcher   DispatcherID
	Epoch        Epoch
	Node         NodeName
	Incarnation  Incarnation
	LeaseMS      uint32
	Changefeed   string
	ChangefeedID ChangefeedID
	Table        string
	TableID      TableID
	// Term and Server name the leader whose term counts.
	Term   uint64
	Server ServerID
	// Limit names a limit or level, Have and Want its numbers; Want is also a floor of times in milliseconds.
	Limit      string
	Have, Want uint64
	// Detail says what is malformed.
	Detail string
}

func (v *Verdict) code(c *wire.Coder) {
	wire.Uint8(c, &v.Reason)
	c.Uint64(&v.Index)
	f := &v.Facts
	wire.Uint(c, &f.Operator)
	wire.Uint8(c, &f.OperatorKind)
	wire.Uint8(c, &f.Result)
	wire.Uint(c, &f.Dispatcher)
	wire.Uint(c, &f.Epoch)
	wire.Str(c, &f.Node)
	wire.Uint(c, &f.Incarnation)
	wire.Uint32(c, &f.LeaseMS)
	wire.Str(c, &f.Changefeed)
	wire.Uint(c, &f.ChangefeedID)
	wire.Str(c, &f.Table)
	wire.Int(c, &f.TableID)
	c.Uint64(&f.Term)
	wire.Str(c, &f.Server)
	wire.Str(c, &f.Limit)
	c.Uint64(&f.Have)
	c.Uint64(&f.Want)
	wire.Str(c, &f.Detail)
}
