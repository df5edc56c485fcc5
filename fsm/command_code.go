package fsm

import "github.com/weir-project/weir/fsm/internal/wire"

// The field order below is the log format; the golden files of fsm/logcodec hold it. A field is added at the end of a
// new format version, never in between.

// Kind of the command.
func (*BeginTerm) Kind() CommandKind { return KindBeginTerm }

// Kind of the command.
func (*BeginGeneration) Kind() CommandKind { return KindBeginGeneration }

// Kind of the command.
func (*AnnounceServer) Kind() CommandKind { return KindAnnounceServer }

// Kind of the command.
func (*SetFeatureLevel) Kind() CommandKind { return KindSetFeatureLevel }

// Kind of the command.
func (*SetPolicy) Kind() CommandKind { return KindSetPolicy }

// Kind of the command.
func (*Tick) Kind() CommandKind { return KindTick }

// Kind of the command.
func (*RegisterNode) Kind() CommandKind { return KindRegisterNode }

// Kind of the command.
func (*Goodbye) Kind() CommandKind { return KindGoodbye }

// Kind of the command.
func (*FenceNode) Kind() CommandKind { return KindFenceNode }

// Kind of the command.
func (*ExpireNode) Kind() CommandKind { return KindExpireNode }

// Kind of the command.
func (*CreateChangefeed) Kind() CommandKind { return KindCreateChangefeed }

// Kind of the command.
func (*PauseChangefeed) Kind() CommandKind { return KindPauseChangefeed }

// Kind of the command.
func (*ResumeChangefeed) Kind() CommandKind { return KindResumeChangefeed }

// Kind of the command.
func (*RemoveChangefeed) Kind() CommandKind { return KindRemoveChangefeed }

// Kind of the command.
func (*AddTables) Kind() CommandKind { return KindAddTables }

// Kind of the command.
func (*DropTables) Kind() CommandKind { return KindDropTables }

// Kind of the command.
func (*AdmitOperator) Kind() CommandKind { return KindAdmitOperator }

// Kind of the command.
func (*CancelOperator) Kind() CommandKind { return KindCancelOperator }

// Kind of the command.
func (*ReportPlacements) Kind() CommandKind { return KindReportPlacements }

// Code names the fields in log order.
func (m *BeginTerm) Code(c *wire.Coder) { wire.Str(c, &m.Server) }

// Code names the fields in log order.
func (m *BeginGeneration) Code(c *wire.Coder) {
	wire.Uint(c, &m.Generation)
	wire.Str(c, &m.Cluster)
	wire.Uint8(c, &m.Why)
}

// Code names the fields in log order.
func (m *AnnounceServer) Code(c *wire.Coder) {
	wire.Str(c, &m.Server)
	wire.Str(c, &m.Address)
	wire.Uint32(c, &m.HighestLevel)
}

// Code names the fields in log order.
func (m *SetFeatureLevel) Code(c *wire.Coder) { wire.Uint32(c, &m.Level) }

// Code names the fields in log order.
func (m *SetPolicy) Code(c *wire.Coder) { m.Policy.code(c) }

// Code names the fields in log order.
func (m *Tick) Code(c *wire.Coder) {
	wire.Uint32(c, &m.ElapsedMS)
	wire.Uint(c, &m.Base)
	c.Blob(&m.Bits)
}

// Code names the fields in log order.
func (m *RegisterNode) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Str(c, &m.Address)
	wire.Uint32(c, &m.LeaseMS)
	wire.Uint8(c, &m.ClockClass)
	wire.Uint32(c, &m.Protocol)
	wire.Str(c, &m.BootID)
	c.Uint64(&m.LockDevice)
	c.Uint64(&m.LockInode)
}

func codePlacementPosition(c *wire.Coder, p *PlacementPosition) {
	wire.Uint(c, &p.Dispatcher)
	wire.Uint(c, &p.Epoch)
	c.Bool(&p.HasPosition)
	p.Position.code(c)
}

func (p *Position) code(c *wire.Coder) {
	c.Uint64(&p.TS)
	wire.Uint8(c, &p.Stage)
}

func (s *Span) code(c *wire.Coder) {
	wire.Str(c, &s.Start)
	wire.Str(c, &s.End)
}

// Code names the fields in log order.
func (m *Goodbye) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
	wire.Slice(c, &m.Stopped, codePlacementPosition)
}

// Code names the fields in log order.
func (m *FenceNode) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
	wire.Str(c, &m.Why)
}

// Code names the fields in log order.
func (m *ExpireNode) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
	c.Uint64(&m.ExpectTick)
}

func codeTableSpec(c *wire.Coder, t *TableSpec) {
	wire.Str(c, &t.Schema)
	wire.Str(c, &t.Name)
	wire.Slice(c, &t.SplitKeys, wire.Str[string])
}

// Code names the fields in log order.
func (m *CreateChangefeed) Code(c *wire.Coder) {
	wire.Str(c, &m.Name)
	wire.Str(c, &m.Source)
	wire.Str(c, &m.Sink)
	c.Bool(&m.SinkFenced)
	wire.Uint32(c, &m.SinkMaxWriteMS)
	m.Start.code(c)
	wire.Slice(c, &m.Tables, codeTableSpec)
	c.Uint64(&m.SyncPointEvery)
}

// Code names the fields in log order.
func (m *PauseChangefeed) Code(c *wire.Coder) { wire.Str(c, &m.Name) }

// Code names the fields in log order.
func (m *ResumeChangefeed) Code(c *wire.Coder) {
	wire.Str(c, &m.Name)
	c.Bool(&m.HasFrom)
	m.From.code(c)
	c.Bool(&m.Force)
}

// Code names the fields in log order.
func (m *RemoveChangefeed) Code(c *wire.Coder) { wire.Str(c, &m.Name) }

// Code names the fields in log order.
func (m *AddTables) Code(c *wire.Coder) {
	wire.Str(c, &m.Changefeed)
	m.Start.code(c)
	wire.Slice(c, &m.Tables, codeTableSpec)
}

// Code names the fields in log order.
func (m *DropTables) Code(c *wire.Coder) {
	wire.Str(c, &m.Changefeed)
	wire.Slice(c, &m.Tables, codeTableRef)
}

// Code names the fields in log order.
func (m *AdmitOperator) Code(c *wire.Coder) {
	wire.Uint8(c, &m.Op)
	wire.Uint(c, &m.Dispatcher)
	wire.Str(c, &m.From)
	c.Bool(&m.FromAny)
	wire.Str(c, &m.To)
	wire.Uint(c, &m.ExpectEpoch)
	wire.Slice(c, &m.Spans, func(c *wire.Coder, s *Span) { s.code(c) })
	wire.Slice(c, &m.Targets, wire.Str[NodeName])
	wire.Slice(c, &m.Sources, wire.Uint[DispatcherID])
}

// Code names the fields in log order.
func (m *CancelOperator) Code(c *wire.Coder) { wire.Uint(c, &m.Op) }

// Code names the fields in log order.
func (m *ReportPlacements) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
	wire.Slice(c, &m.Reports, func(c *wire.Coder, r *PlacementReport) {
		codePlacementPosition(c, &r.PlacementPosition)
		wire.Uint8(c, &r.What)
		c.Bool(&r.Fatal)
		wire.Str(c, &r.Reason)
		wire.Str(c, &r.Detail)
	})
}

// Kind of the command.
func (*UpdateChangefeed) Kind() CommandKind { return KindUpdateChangefeed }

// Kind of the command.
func (*AdmitMany) Kind() CommandKind { return KindAdmitMany }

// Kind of the command.
func (*StartDrain) Kind() CommandKind { return KindStartDrain }

// Kind of the command.
func (*ClearDrain) Kind() CommandKind { return KindClearDrain }

// Kind of the command.
func (*ConfirmDrain) Kind() CommandKind { return KindConfirmDrain }

// Kind of the command.
func (*ReportBarrier) Kind() CommandKind { return KindReportBarrier }

// Kind of the command.
func (*DecideBarrier) Kind() CommandKind { return KindDecideBarrier }

// Kind of the command.
func (*AdvanceCheckpoint) Kind() CommandKind { return KindAdvanceCheckpoint }

// Code names the fields in log order.
func (m *UpdateChangefeed) Code(c *wire.Coder) {
	wire.Str(c, &m.Name)
	wire.Str(c, &m.Source)
	c.Bool(&m.HasSyncPoints)
	c.Uint64(&m.SyncPointEvery)
}

// Code names the fields in log order.
func (m *AdmitMany) Code(c *wire.Coder) {
	wire.Slice(c, &m.Items, func(c *wire.Coder, a *AdmitOperator) { a.Code(c) })
	c.Bool(&m.AllOrNothing)
}

// Code names the fields in log order.
func (m *StartDrain) Code(c *wire.Coder) { wire.Str(c, &m.Node) }

// Code names the fields in log order.
func (m *ClearDrain) Code(c *wire.Coder) { wire.Str(c, &m.Node) }

// Code names the fields in log order.
func (m *ConfirmDrain) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
}

func (k *BarrierKey) code(c *wire.Coder) {
	wire.Uint(c, &k.Changefeed)
	c.Uint64(&k.Run)
	k.At.code(c)
}

func codeTableRef(c *wire.Coder, t *TableRef) {
	wire.Str(c, &t.Schema)
	wire.Str(c, &t.Name)
}

func (s *BarrierSpec) code(c *wire.Coder) {
	wire.Uint8(c, &s.Influence)
	wire.Slice(c, &s.Tables, codeTableRef)
	wire.Str(c, &s.Schema)
	wire.Slice(c, &s.Drop, codeTableRef)
	wire.Slice(c, &s.Add, codeTableSpec)
	wire.Slice(c, &s.Rename, func(c *wire.Coder, r *TableRename) {
		codeTableRef(c, &r.From)
		codeTableRef(c, &r.To)
	})
	c.Bool(&s.Trigger)
	wire.Str(c, &s.Statement)
}

func codePair(c *wire.Coder, p *Pair) {
	wire.Uint(c, &p.Dispatcher)
	wire.Uint(c, &p.Epoch)
}

// Code names the fields in log order.
func (m *ReportBarrier) Code(c *wire.Coder) {
	wire.Str(c, &m.Node)
	wire.Uint(c, &m.Incarnation)
	wire.Slice(c, &m.Reports, func(c *wire.Coder, r *BarrierReport) {
		r.Key.code(c)
		wire.Uint8(c, &r.What)
		wire.Slice(c, &r.Pairs, codePair)
		c.Bool(&r.All)
		c.Uint64(&r.SetHash)
		wire.Slice(c, &r.Except, wire.Uint[DispatcherID])
		c.Uint64(&r.Permission)
		r.Earlier.code(c)
		r.Spec.code(c)
	})
}

// Code names the fields in log order.
func (m *DecideBarrier) Code(c *wire.Coder) {
	m.Key.code(c)
	c.Uint64(&m.Permission)
	wire.Uint8(c, &m.Decision)
}

// Code names the fields in log order.
func (m *AdvanceCheckpoint) Code(c *wire.Coder) {
	wire.Uint(c, &m.Changefeed)
	c.Uint64(&m.Run)
	m.To.code(c)
	wire.Slice(c, &m.Nodes, func(c *wire.Coder, n *NodeMinimum) {
		wire.Uint(c, &n.Incarnation)
		c.Uint64(&n.SetHash)
		n.Minimum.code(c)
	})
}
