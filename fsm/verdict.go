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
	// runs must be stopped). Of barrier reports it answers each pair in order (one answer for a report about all):
	// those, or BarrierPass (the event is over: pass), BarrierRetry (not running yet: say it again soon), BarrierForget
	// (there is no such event), BarrierUnwritten, EarlierEventOpen, SpecMismatch, SetMismatch, Malformed. Not remembered.
	Reports []Reason
	// Items answer an AdmitMany's items, in order.
	Items []Item
}

// Item answers one operator of an AdmitMany.
type Item struct {
	Reason Reason
	Facts  Facts
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
	// Run, At and Permission name a barrier of the changefeed, or a position that stands in the way.
	Run        uint64
	At         Position
	Permission uint64
}

func (v *Verdict) code(c *wire.Coder) {
	wire.Uint8(c, &v.Reason)
	c.Uint64(&v.Index)
	v.Facts.code(c)
	wire.Slice(c, &v.Items, func(c *wire.Coder, item *Item) {
		wire.Uint8(c, &item.Reason)
		item.Facts.code(c)
	})
}

func (f *Facts) code(c *wire.Coder) {
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
	c.Uint64(&f.Run)
	f.At.code(c)
	c.Uint64(&f.Permission)
}
