package server

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/fsm"
)

// refusal is an error as it goes out.
type refusal struct {
	code    codes.Code
	class   outcome.Class
	reason  string
	message string
	facts   map[string]string
	retry   time.Duration
	field   string
}

// refuse describes an error. mutates says whether the request asked for a change: an error that nobody has classified
// may then have come after the change, and is called unknown rather than failed.
func refuse(err error, mutates bool) refusal {
	var rejected *RejectedError
	var own *Error
	switch {
	case errors.As(err, &rejected):
		return refuseVerdict(rejected)
	case errors.As(err, &own) && own.Kind == UnknownOutcome && !mutates: // a read leaves nothing behind
		return refuseKind(&Error{Kind: Deadline, Leader: own.Leader, Address: own.Address, Err: err})
	case errors.As(err, &own):
		return refuseKind(own)
	case mutates:
		return refuseKind(&Error{Kind: UnknownOutcome, Err: err})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuseKind(&Error{Kind: Deadline, Err: err})
	default:
		return refuseKind(&Error{Kind: Internal, Err: err})
	}
}

func refuseKind(e *Error) refusal {
	row, ok := kindOf(e.Kind)
	if !ok {
		row = kinds()[Internal]
	}
	r := refusal{
		code: row.code, class: row.class, reason: row.reason, message: e.Error(), facts: map[string]string{},
		retry: row.retry, field: e.Field,
	}
	if e.RetryAfter > 0 {
		r.retry = e.RetryAfter
	}
	putText(r.facts, outcome.FactLeader, string(e.Leader))
	putText(r.facts, outcome.FactLeaderAddress, e.Address)
	putNumber(r.facts, outcome.FactHave, e.Have)
	putNumber(r.facts, outcome.FactWant, e.Want)
	return r
}

func refuseVerdict(e *RejectedError) refusal {
	v := e.Verdict
	r := refusal{
		code: reasonCode(v.Reason), class: reasonClass(v.Reason), reason: v.Reason.String(), message: e.Error(),
		facts: verdictFacts(v), retry: e.TimeLeft,
	}
	if r.code == codes.OK { // a verdict that is no refusal must not come this way, and never becomes a success
		r.code, r.class = codes.Internal, outcome.Fault
	}
	if v.Reason == fsm.NotBootstrapped || v.Reason == fsm.StaleTerm {
		r.retry = kinds()[NoLeader].retry
	}
	return r
}

// verdictFacts spells a verdict's facts; those that are zero do not matter and are left out.
func verdictFacts(v fsm.Verdict) map[string]string {
	f, facts := v.Facts, map[string]string{}
	putNumber(facts, outcome.FactIndex, v.Index)
	if v.Replayed {
		facts[outcome.FactReplayed] = "true"
	}
	putNumber(facts, outcome.FactOperator, uint64(f.Operator))
	if f.OperatorKind != 0 {
		facts[outcome.FactOperatorKind] = f.OperatorKind.String()
	}
	if f.Result != 0 {
		facts[outcome.FactResult] = f.Result.String()
	}
	putNumber(facts, outcome.FactDispatcher, uint64(f.Dispatcher))
	putNumber(facts, outcome.FactEpoch, uint64(f.Epoch))
	putText(facts, outcome.FactNode, string(f.Node))
	putNumber(facts, outcome.FactIncarnation, uint64(f.Incarnation))
	putNumber(facts, outcome.FactLease, uint64(f.LeaseMS))
	putText(facts, outcome.FactChangefeed, f.Changefeed)
	putNumber(facts, outcome.FactChangefeedID, uint64(f.ChangefeedID))
	putText(facts, outcome.FactTable, f.Table)
	if f.TableID != 0 {
		facts[outcome.FactTableID] = strconv.FormatInt(int64(f.TableID), 10)
	}
	putNumber(facts, outcome.FactTerm, f.Term)
	if v.Reason == fsm.StaleTerm {
		putText(facts, outcome.FactLeader, string(f.Server))
	} else {
		putText(facts, outcome.FactMember, string(f.Server))
	}
	putText(facts, outcome.FactLimit, f.Limit)
	putNumber(facts, outcome.FactHave, f.Have)
	putNumber(facts, outcome.FactWant, f.Want)
	putText(facts, outcome.FactDetail, f.Detail)
	putNumber(facts, outcome.FactRun, f.Run)
	if f.At != (fsm.Position{}) {
		facts[outcome.FactAt] = f.At.String()
	}
	putNumber(facts, outcome.FactPermission, f.Permission)
	return facts
}

func putText(facts map[string]string, name, value string) {
	if value != "" {
		facts[name] = value
	}
}

func putNumber(facts map[string]string, name string, value uint64) {
	if value != 0 {
		facts[name] = strconv.FormatUint(value, 10)
	}
}

// status puts a refusal on the wire.
func (r refusal) status() *status.Status {
	r.facts[outcome.FactClass] = r.class.String()
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: r.reason, Domain: outcome.Domain, Metadata: r.facts},
	}
	if r.retry > 0 {
		putNumber(r.facts, outcome.FactRetryAfter, uint64(r.retry.Milliseconds()))
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.retry)})
	}
	if r.field != "" {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: r.field, Description: r.message},
		}})
	}
	st := status.New(r.code, r.message)
	if detailed, err := st.WithDetails(details...); err == nil {
		return detailed
	}
	return st // details that cannot be encoded are no reason to say nothing
}

// isOurs says whether a status already carries a reason of this API, as that of a forwarded call does.
func isOurs(st *status.Status) bool {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == outcome.Domain {
			return true
		}
	}
	return false
}
