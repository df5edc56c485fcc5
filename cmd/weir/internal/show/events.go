package show

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/api/weirv1"
)

// Barrier is an event that every dispatcher it concerns must reach before one of them writes it.
type Barrier struct {
	Changefeed string `json:"changefeed"`
	Run        uint64 `json:"run"`
	At         string `json:"at"`
	// Influence is tables, schema or all; Tables and Schema say which.
	Influence string   `json:"influence"`
	Tables    []string `json:"tables"`
	Schema    string   `json:"schema"`
	Drop      []string `json:"drop"`
	Add       []string `json:"add"`
	Rename    []string `json:"rename"`
	Statement string   `json:"statement"`
	Status    string   `json:"status"`
	Result    string   `json:"result"`
	// Permission is the number of the last write permission, Writer and so on its holder.
	Permission  uint64    `json:"permission"`
	Writer      uint64    `json:"writer"`
	WriterEpoch string    `json:"writer_epoch"`
	WriterNode  string    `json:"writer_node"`
	LastWord    string    `json:"last_word"`
	OpenedAt    uint64    `json:"opened_at"`
	GrantedAt   uint64    `json:"granted_at"`
	WrittenAt   uint64    `json:"written_at"`
	EndedAt     uint64    `json:"ended_at"`
	OpenedMS    uint64    `json:"opened_ms"`
	OpenedBy    uint64    `json:"opened_by"`
	DeadlineMS  uint64    `json:"deadline_ms"`
	StuckAt     uint64    `json:"stuck_at"`
	Notes       string    `json:"notes"`
	Members     uint64    `json:"members"`
	Behind      uint64    `json:"behind"`
	Unpassed    uint64    `json:"unpassed"`
	WaitsFor    string    `json:"waits_for"`
	Missing     []Missing `json:"missing,omitempty"`
	MissingMore bool      `json:"missing_more,omitempty"`
}

// Missing is a dispatcher that an open barrier waits for.
type Missing struct {
	Dispatcher uint64 `json:"dispatcher"`
	Table      string `json:"table"`
	Keys       string `json:"keys"`
	Phase      string `json:"phase"`
	Node       string `json:"node"`
	Epoch      string `json:"epoch"`
	Operator   string `json:"operator"`
	Position   string `json:"position"`
}

// BarrierRow reads a barrier of the API.
func BarrierRow(b *weirv1.Barrier) Barrier {
	row := Barrier{
		Changefeed: b.GetChangefeed(), Run: b.GetRun(), At: Position(b.GetAt()), Schema: b.GetSpec().GetSchema(),
		Influence: Word(b.GetSpec().GetInfluence().String(), "INFLUENCE_"), Statement: b.GetSpec().GetStatement(),
		Tables: refs(b.GetSpec().GetTables()), Drop: refs(b.GetSpec().GetDrop()), Add: []string{}, Rename: []string{},
		Status: hyphens(Word(b.GetStatus().String(), "BARRIER_STATUS_")), Result: Word(b.GetResult().String(), "BARRIER_RESULT_"),
		Permission: b.GetPermission(), Writer: b.GetWriter(), WriterEpoch: Token(b.GetWriterEpoch()), WriterNode: b.GetWriterNode(),
		OpenedAt: b.GetOpenedAt(), GrantedAt: b.GetGrantedAt(), WrittenAt: b.GetWrittenAt(), EndedAt: b.GetEndedAt(),
		OpenedMS: b.GetOpenedMs(), OpenedBy: b.GetOpenedBy(), DeadlineMS: b.GetDeadlineMs(), StuckAt: b.GetStuckAt(),
		Notes: b.GetNotes(), Members: b.GetMembers(), Behind: b.GetBehind(), Unpassed: b.GetUnpassed(),
		WaitsFor: b.GetWaitsFor(), MissingMore: b.GetMissingMore(),
	}
	switch {
	case b.GetUnknown():
		row.LastWord = "unknown"
	case b.GetNotBegun():
		row.LastWord = "not-begun"
	}
	for _, t := range b.GetSpec().GetAdd() {
		row.Add = append(row.Add, Table(t.GetSchema(), t.GetName()))
	}
	for _, r := range b.GetSpec().GetRename() {
		row.Rename = append(row.Rename, Table(r.GetFrom().GetSchema(), r.GetFrom().GetName())+" to "+Table(r.GetTo().GetSchema(), r.GetTo().GetName()))
	}
	for _, m := range b.GetMissing() {
		row.Missing = append(row.Missing, missingRow(m))
	}
	return row
}

func missingRow(m *weirv1.BarrierMissing) Missing {
	row := Missing{
		Dispatcher: m.GetDispatcher(), Table: Table(m.GetSchema(), m.GetTable()), Keys: Keys(m.GetSpan()), Phase: Phase(m.GetPhase()),
		Node: m.GetNode(), Epoch: Token(m.GetEpoch()), Operator: Token(m.GetOperator()), Position: Position(m.GetPosition()),
	}
	if m.GetTrigger() {
		row.Table = TriggerTable
	}
	return row
}

func refs(in []*weirv1.TableRef) []string {
	out := make([]string, 0, len(in))
	for _, t := range in {
		out = append(out, Table(t.GetSchema(), t.GetName()))
	}
	return out
}

func hyphens(word string) string { return strings.ReplaceAll(word, "_", "-") }

// Concerns says in a few words which dispatchers a barrier concerns.
func (b *Barrier) Concerns() string {
	switch b.Influence {
	case "tables":
		return strings.Join(b.Tables, ", ")
	case "schema":
		return "schema " + b.Schema
	default:
		return b.Influence
	}
}

// State says in a few words how a barrier stands or ended.
func (b *Barrier) State() string {
	text := b.Status
	if b.Result != "" {
		text += ", " + b.Result
	}
	if b.StuckAt != 0 {
		text += ", stuck since " + Entry(b.StuckAt)
	}
	return text
}

// Explanation says why something stands as it does.
type Explanation struct {
	Subject string `json:"subject"`
	Lines   []Line `json:"lines"`
}

// Line is one fact: the log entry since which it holds, 0 if none stands for it, and who asked.
type Line struct {
	Index uint64 `json:"index"`
	By    string `json:"by"`
	Text  string `json:"text"`
}

// ExplanationRow reads an explanation of the API.
func ExplanationRow(e *weirv1.Explanation) Explanation {
	row := Explanation{Subject: e.GetSubject(), Lines: []Line{}}
	for _, l := range e.GetLines() {
		row.Lines = append(row.Lines, Line{Index: l.GetIndex(), By: l.GetBy(), Text: l.GetText()})
	}
	return row
}

// Grid is the text table of the lines.
func (e *Explanation) Grid() *Grid {
	g := NewGrid("SINCE", "BY", e.Subject)
	for _, l := range e.Lines {
		g.Add(Entry(l.Index), l.By, l.Text)
	}
	return g
}

// Verdict is what was decided of a request, or would be.
type Verdict struct {
	Accepted bool              `json:"accepted"`
	Reason   string            `json:"reason"`
	Message  string            `json:"message"`
	Facts    map[string]string `json:"facts"`
	Index    uint64            `json:"index"`
	Replayed bool              `json:"replayed"`
	Items    []Verdict         `json:"items,omitempty"`
}

// VerdictRow reads a verdict of the API; spell spells a fact's value.
func VerdictRow(v *weirv1.Verdict, spell func(name, value string) string) Verdict {
	row := Verdict{
		Accepted: v.GetAccepted(), Reason: v.GetReason(), Message: v.GetMessage(), Index: v.GetIndex(), Replayed: v.GetReplayed(),
		Facts: map[string]string{},
	}
	for name, value := range v.GetFacts() {
		row.Facts[name] = spell(name, value)
	}
	for _, item := range v.GetItems() {
		row.Items = append(row.Items, VerdictRow(item, spell))
	}
	return row
}

// State sums up a state.
type State struct {
	Index             uint64 `json:"index"`
	Hash              string `json:"hash"`
	Cluster           string `json:"cluster"`
	Generation        uint64 `json:"generation"`
	Level             uint32 `json:"level"`
	Term              uint64 `json:"term"`
	Leader            string `json:"leader"`
	LogTimeMS         uint64 `json:"log_time_ms"`
	Changefeeds       uint32 `json:"changefeeds"`
	Tables            uint32 `json:"tables"`
	Dispatchers       uint64 `json:"dispatchers"`
	Absent            uint64 `json:"absent"`
	Starting          uint64 `json:"starting"`
	Running           uint64 `json:"running"`
	Stopping          uint64 `json:"stopping"`
	RunningOperators  uint32 `json:"running_operators"`
	StuckOperators    uint32 `json:"stuck_operators"`
	Barriers          uint32 `json:"barriers"`
	StuckBarriers     uint32 `json:"stuck_barriers"`
	UndecidedBarriers uint32 `json:"undecided_barriers"`
	Nodes             uint32 `json:"nodes"`
	LiveNodes         uint32 `json:"live_nodes"`
}

// StateRow reads the summary of a state.
func StateRow(s *weirv1.StateSummary) State {
	return State{
		Index: s.GetIndex(), Hash: fmt.Sprintf("%016x%016x", s.GetHash().GetA(), s.GetHash().GetB()), Cluster: s.GetCluster(),
		Generation: s.GetGeneration(), Level: s.GetLevel(), Term: s.GetTerm(), Leader: s.GetLeader(), LogTimeMS: s.GetTimeMs(),
		Changefeeds: s.GetChangefeeds(), Tables: s.GetTables(), Dispatchers: s.GetDispatchers(), Absent: s.GetAbsent(),
		Starting: s.GetStarting(), Running: s.GetRunning(), Stopping: s.GetStopping(), RunningOperators: s.GetOperators(),
		StuckOperators: s.GetStuckOperators(), Barriers: s.GetBarriers(), StuckBarriers: s.GetStuckBarriers(),
		UndecidedBarriers: s.GetUndecidedBarriers(), Nodes: s.GetNodes(), LiveNodes: s.GetLiveNodes(),
	}
}

// Pairs are names and values for people.
func (s *State) Pairs() [][2]string {
	return [][2]string{
		{"state at", Entry(s.Index)},
		{"state hash", s.Hash},
		{"cluster", s.Cluster},
		{"generation", fmt.Sprint(s.Generation)},
		{"feature level", fmt.Sprint(s.Level)},
		{"term", fmt.Sprintf("%d, led by %s", s.Term, Dash(s.Leader))},
		{"log time", Ago(int64(s.LogTimeMS))},
		{"changefeeds", fmt.Sprintf("%d, with %d tables", s.Changefeeds, s.Tables)},
		{"dispatchers", fmt.Sprintf("%d: %d absent, %d starting, %d running, %d stopping", s.Dispatchers, s.Absent, s.Starting, s.Running, s.Stopping)},
		{"running operators", fmt.Sprintf("%d, of which %d are stuck", s.RunningOperators, s.StuckOperators)},
		{"open barriers", fmt.Sprintf("%d, of which %d are stuck and %d need a decision", s.Barriers, s.StuckBarriers, s.UndecidedBarriers)},
		{"nodes", fmt.Sprintf("%d, of which %d are live", s.Nodes, s.LiveNodes)},
	}
}
