package nodewire

import (
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// answerRow pairs the two spellings of how a report about an event counts.
type answerRow struct {
	reason fsm.Reason
	wire   weirv1.ReportAnswer
}

// answerRows is the table of those answers.
func answerRows() []answerRow {
	return []answerRow{
		{fsm.ReportCounted, weirv1.ReportAnswer_REPORT_ANSWER_COUNTED},
		{fsm.ReportInert, weirv1.ReportAnswer_REPORT_ANSWER_INERT},
		{fsm.ReportStale, weirv1.ReportAnswer_REPORT_ANSWER_STALE},
		{fsm.BarrierPass, weirv1.ReportAnswer_REPORT_ANSWER_PASS},
		{fsm.BarrierRetry, weirv1.ReportAnswer_REPORT_ANSWER_RETRY},
		{fsm.BarrierForget, weirv1.ReportAnswer_REPORT_ANSWER_FORGET},
		{fsm.BarrierUnwritten, weirv1.ReportAnswer_REPORT_ANSWER_UNWRITTEN},
		{fsm.EarlierEventOpen, weirv1.ReportAnswer_REPORT_ANSWER_EARLIER_EVENT_OPEN},
		{fsm.SpecMismatch, weirv1.ReportAnswer_REPORT_ANSWER_SPEC_MISMATCH},
		{fsm.SetMismatch, weirv1.ReportAnswer_REPORT_ANSWER_SET_MISMATCH},
		{fsm.StalePermission, weirv1.ReportAnswer_REPORT_ANSWER_STALE_PERMISSION},
		{fsm.Malformed, weirv1.ReportAnswer_REPORT_ANSWER_MALFORMED},
	}
}

func fromAnswer(r fsm.Reason) (weirv1.ReportAnswer, error) {
	for _, row := range answerRows() {
		if row.reason == r {
			return row.wire, nil
		}
	}
	return 0, fmt.Errorf("%s is no answer to a report about an event", r)
}

func toAnswer(a weirv1.ReportAnswer) (fsm.Reason, error) {
	for _, row := range answerRows() {
		if row.wire == a {
			return row.reason, nil
		}
	}
	return 0, fmt.Errorf("answer to a report has the unknown number %d", a)
}

func fromBarrierAnswer(a *session.BarrierAnswer) (*weirv1.BarrierAnswer, error) {
	answers, err := each(a.Answers, fromAnswer)
	return &weirv1.BarrierAnswer{Term: a.Term, Index: a.Index, Seq: a.Seq, Answers: answers}, err
}

func toBarrierAnswer(a *weirv1.BarrierAnswer) (*session.BarrierAnswer, error) {
	answers, err := each(a.GetAnswers(), toAnswer)
	return &session.BarrierAnswer{Term: a.GetTerm(), Index: a.GetIndex(), Seq: a.GetSeq(), Answers: answers}, err
}

func fromKey(k fsm.BarrierKey) *weirv1.BarrierKey {
	return &weirv1.BarrierKey{ChangefeedId: uint64(k.Changefeed), Run: k.Run, At: FromPosition(k.At)}
}

func toKey(k *weirv1.BarrierKey) (fsm.BarrierKey, error) {
	at, err := ToPosition(k.GetAt())
	return fsm.BarrierKey{Changefeed: fsm.ChangefeedID(k.GetChangefeedId()), Run: k.GetRun(), At: at}, err
}

func fromBarrierReports(b *session.BarrierReport) *weirv1.BarrierReports {
	return &weirv1.BarrierReports{Seq: b.Seq, Reports: every(b.Reports, fromBarrierReport)}
}

func toBarrierReports(b *weirv1.BarrierReports) (*session.BarrierReport, error) {
	reports, err := each(b.GetReports(), toBarrierReport)
	return &session.BarrierReport{Seq: b.GetSeq(), Reports: reports}, err
}

func fromBarrierReport(r fsm.BarrierReport) *weirv1.BarrierReport {
	out := &weirv1.BarrierReport{
		Key: fromKey(r.Key), What: weirv1.BarrierSaid(r.What), Pairs: every(r.Pairs, fromPair), All: r.All, SetHash: r.SetHash,
		Except:     every(r.Except, func(id fsm.DispatcherID) uint64 { return uint64(id) }),
		Permission: r.Permission, Earlier: FromPosition(r.Earlier),
	}
	if r.What == fsm.SaidWaiting {
		out.Spec = FromSpec(&r.Spec)
	}
	return out
}

func toBarrierReport(r *weirv1.BarrierReport) (fsm.BarrierReport, error) {
	key, err := toKey(r.GetKey())
	if err != nil {
		return fsm.BarrierReport{}, err
	}
	if r.GetWhat() <= weirv1.BarrierSaid_BARRIER_SAID_UNSPECIFIED || r.GetWhat() > weirv1.BarrierSaid_BARRIER_SAID_UNKNOWN {
		return fsm.BarrierReport{}, fmt.Errorf("report about an event has the unknown kind %d", r.GetWhat())
	}
	earlier, err := ToPosition(r.GetEarlier())
	if err != nil {
		return fsm.BarrierReport{}, err
	}
	spec, err := ToSpec(r.GetSpec())
	return fsm.BarrierReport{
		Key: key, What: fsm.BarrierSaid(r.GetWhat()), Pairs: every(r.GetPairs(), toPair), All: r.GetAll(), SetHash: r.GetSetHash(),
		Except:     every(r.GetExcept(), func(id uint64) fsm.DispatcherID { return fsm.DispatcherID(id) }),
		Permission: r.GetPermission(), Earlier: earlier, Spec: spec,
	}, err
}

func fromBarrierOrder(o fsm.BarrierOrder) *weirv1.BarrierOrder {
	return &weirv1.BarrierOrder{
		Key: fromKey(o.Key), Action: weirv1.BarrierAction(o.Action), Permission: o.Permission, Pairs: every(o.Pairs, fromPair),
		All: o.All, SetHash: o.SetHash, Tables: every(o.Tables, fromTableRef),
	}
}

func toBarrierOrder(o *weirv1.BarrierOrder) (fsm.BarrierOrder, error) {
	key, err := toKey(o.GetKey())
	if err != nil {
		return fsm.BarrierOrder{}, err
	}
	if o.GetAction() <= weirv1.BarrierAction_BARRIER_ACTION_UNSPECIFIED || o.GetAction() > weirv1.BarrierAction_BARRIER_ACTION_PASS {
		return fsm.BarrierOrder{}, fmt.Errorf("order about an event has the unknown action %d", o.GetAction())
	}
	return fsm.BarrierOrder{
		Key: key, Action: fsm.BarrierAction(o.GetAction()), Permission: o.GetPermission(), Pairs: every(o.GetPairs(), toPair),
		All: o.GetAll(), SetHash: o.GetSetHash(), Tables: every(o.GetTables(), toTableRef),
	}, nil
}

// FromSpec spells what an event concerns and changes.
func FromSpec(s *fsm.BarrierSpec) *weirv1.BarrierSpec {
	return &weirv1.BarrierSpec{
		Influence: weirv1.Influence(s.Influence), Tables: every(s.Tables, fromTableRef), Schema: s.Schema,
		Drop: every(s.Drop, fromTableRef), Add: every(s.Add, fromTableSpec), Rename: every(s.Rename, fromRename),
		Trigger: s.Trigger, Statement: s.Statement,
	}
}

// ToSpec reads what an event concerns and changes; a missing one is empty.
func ToSpec(s *weirv1.BarrierSpec) (fsm.BarrierSpec, error) {
	if s.GetInfluence() < 0 || s.GetInfluence() > weirv1.Influence_INFLUENCE_ALL {
		return fsm.BarrierSpec{}, fmt.Errorf("event has the unknown influence %d", s.GetInfluence())
	}
	return fsm.BarrierSpec{
		Influence: fsm.Influence(s.GetInfluence()), Tables: every(s.GetTables(), toTableRef), Schema: s.GetSchema(),
		Drop: every(s.GetDrop(), toTableRef), Add: ToTableSpecs(s.GetAdd()), Rename: every(s.GetRename(), toRename),
		Trigger: s.GetTrigger(), Statement: s.GetStatement(),
	}, nil
}

func fromTableRef(t fsm.TableRef) *weirv1.TableRef {
	return &weirv1.TableRef{Schema: t.Schema, Name: t.Name}
}

func toTableRef(t *weirv1.TableRef) fsm.TableRef {
	return fsm.TableRef{Schema: t.GetSchema(), Name: t.GetName()}
}

func fromRename(r fsm.TableRename) *weirv1.TableRename {
	return &weirv1.TableRename{From: fromTableRef(r.From), To: fromTableRef(r.To)}
}

func toRename(r *weirv1.TableRename) fsm.TableRename {
	return fsm.TableRename{From: toTableRef(r.GetFrom()), To: toTableRef(r.GetTo())}
}

func fromTableSpec(t fsm.TableSpec) *weirv1.TableSpec {
	return &weirv1.TableSpec{Schema: t.Schema, Name: t.Name, SplitKeys: every(t.SplitKeys, func(k string) []byte { return []byte(k) })}
}

// ToTableSpecs reads the tables that are asked for.
func ToTableSpecs(tables []*weirv1.TableSpec) []fsm.TableSpec {
	return every(tables, func(t *weirv1.TableSpec) fsm.TableSpec {
		return fsm.TableSpec{
			Schema: t.GetSchema(), Name: t.GetName(), SplitKeys: every(t.GetSplitKeys(), func(k []byte) string { return string(k) }),
		}
	})
}
