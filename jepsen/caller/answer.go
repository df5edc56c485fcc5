package caller

import (
	"maps"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/history"
)

// domain marks the product's own errors.
const domain = "weir"

// refusedAnswer reads the error of a call that reached a server. An error without the product's own details says
// nothing about what the server did.
func refusedAnswer(err error, server string) history.Answer {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return infoAnswer(info, st.Message(), server)
		}
	}
	return history.Answer{Outcome: history.Unknown, Reason: "BROKEN_CALL", Message: st.Code().String() + ": " + st.Message(), Server: server}
}

func infoAnswer(info *errdetails.ErrorInfo, message, server string) history.Answer {
	a := factsAnswer(info.GetReason(), message, info.GetMetadata())
	a.Server = server
	if a.Outcome == 0 { // a class that is not known here: anything may have happened
		a.Outcome = history.Unknown
	}
	return a
}

// factsAnswer reads the facts of an error; the outcome is left unset if they have no class.
func factsAnswer(reason, message string, told map[string]string) history.Answer {
	facts := maps.Clone(told)
	a := history.Answer{Reason: reason, Message: message}
	switch facts["class"] {
	case "rejected", "invalid":
		a.Outcome = history.Rejected
	case "not_proposed":
		a.Outcome = history.NotProposed
	case "":
	default: // a fault: anything may have happened
		a.Outcome = history.Unknown
	}
	a.Replayed = facts["replayed"] == "true"
	a.Index = number(facts, "index")
	if a.Outcome == history.Rejected {
		a.Operator, a.Dispatcher, a.Epoch = number(facts, "operator"), number(facts, "dispatcher"), number(facts, "epoch")
	}
	// What is left of the facts belongs to the verdict.
	for _, name := range []string{"class", "replayed", "index", "server", "log_time_ms", "retry_after_ms", "leader", "leader_address"} {
		delete(facts, name)
	}
	if a.Outcome == history.Rejected && len(facts) > 0 {
		a.Facts = facts
	}
	return a
}

func number(facts map[string]string, name string) uint64 {
	v, err := strconv.ParseUint(facts[name], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// logTime is the log time that an error tells, 0 if it tells none.
func logTime(err error) uint64 {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return number(info.GetMetadata(), "log_time_ms")
		}
	}
	return 0
}

func okAnswer(h *weirv1.ResponseHeader, admission *weirv1.Admission) history.Answer {
	a := history.Answer{Outcome: history.OK, Index: h.GetIndex(), Server: h.GetServer(), Replayed: h.GetReplayed()}
	if admission != nil {
		a.Index, a.Replayed = admission.GetIndex(), admission.GetReplayed()
		a.Operator, a.Dispatcher, a.Epoch = admission.GetOpId(), admission.GetDispatcher(), admission.GetEpoch()
	}
	return a
}

// leaderOf is the leader that an error names, "" if it names none.
func leaderOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == domain {
			return info.GetMetadata()["leader"]
		}
	}
	return ""
}
