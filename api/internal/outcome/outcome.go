// Package outcome names what the two ends of the API must spell alike: classes of outcomes, reason codes of the API's
// own, names of facts and of metadata. It knows neither gRPC nor the state machine.
package outcome

// Domain is the domain of every ErrorInfo.
const Domain = "weir"

// Class says what became of a request that was not carried out as asked.
type Class uint8

// The classes.
const (
	// Rejected: the state machine, or a read, said no. It stands; trying again as it is gives the same.
	Rejected Class = iota + 1
	// NotProposed: nothing was carried out and nothing will be. It may be sent again, anywhere.
	NotProposed
	// Unknown: it may have been carried out, or still be. Send it again with the same request id only.
	Unknown
	// Invalid: the request makes no sense as written.
	Invalid
	// Fault: the server or the client is broken or misused.
	Fault
)

// names returns the word of each class.
func names() []string {
	return []string{Rejected: "rejected", NotProposed: "not_proposed", Unknown: "unknown", Invalid: "invalid", Fault: "fault"}
}

// String is the word that travels as the fact [FactClass].
func (c Class) String() string {
	if all := names(); int(c) < len(all) && c != 0 {
		return all[c]
	}
	return "unset"
}

// ParseClass reads what String gives.
func ParseClass(word string) (Class, bool) {
	for c, name := range names() {
		if c != 0 && name == word {
			return Class(c), true
		}
	}
	return 0, false
}

// Reasons of the API itself; those of verdicts come from the state machine. Codes are never changed or used again.
const (
	ReasonNotLeader         = "NOT_LEADER"
	ReasonNoLeader          = "NO_LEADER"
	ReasonLeaderUnreachable = "LEADER_UNREACHABLE"
	ReasonOverloaded        = "OVERLOADED"
	ReasonTransferring      = "TRANSFERRING"
	ReasonOutcomeUnknown    = "OUTCOME_UNKNOWN"
	ReasonShuttingDown      = "SHUTTING_DOWN"
	ReasonServerFenced      = "SERVER_FENCED"
	ReasonNotReady          = "NOT_READY"
	ReasonMalformed         = "MALFORMED"
	ReasonTooLarge          = "COMMAND_TOO_LARGE"
	ReasonWrongCluster      = "WRONG_CLUSTER"
	ReasonGenerationTooOld  = "GENERATION_TOO_OLD"
	ReasonIndexNotReached   = "INDEX_NOT_REACHED"
	ReasonHashNotKept       = "HASH_NOT_KEPT"
	ReasonIndexTooOld       = "INDEX_TOO_OLD"
	ReasonIndexNotYet       = "INDEX_NOT_YET"
	ReasonUnknownRequest    = "UNKNOWN_REQUEST"
	ReasonUnreachable       = "UNREACHABLE" // made by the client: no server answered
	ReasonDeadline          = "DEADLINE"
	ReasonInternal          = "INTERNAL"
)

// Names of facts in ErrorInfo metadata. Numbers are decimal.
const (
	FactClass         = "class"
	FactLogTime       = "log_time_ms"
	FactServer        = "server" // that answered
	FactLeader        = "leader"
	FactLeaderAddress = "leader_address"
	FactMember        = "member"
	FactIndex         = "index"
	FactReplayed      = "replayed"
	FactRetryAfter    = "retry_after_ms"
	FactOperator      = "operator"
	FactOperatorKind  = "operator_kind"
	FactResult        = "operator_result"
	FactDispatcher    = "dispatcher"
	FactEpoch         = "epoch"
	FactNode          = "node"
	FactIncarnation   = "incarnation"
	FactLease         = "lease_ms"
	FactChangefeed    = "changefeed"
	FactChangefeedID  = "changefeed_id"
	FactTable         = "table"
	FactTableID       = "table_id"
	FactTerm          = "term"
	FactLimit         = "limit"
	FactHave          = "have"
	FactWant          = "want"
	FactDetail        = "detail"
	FactRun           = "run" // of a changefeed
	FactAt            = "at"  // position
	FactPermission    = "permission"
)

// Metadata of calls.
const (
	// MetaForwarded names the server that forwarded a call; a call that carries it is not forwarded again.
	MetaForwarded = "weir-forwarded"
	// MetaSession is the header of an accepted session; its value is MetaSessionAccepted.
	MetaSession         = "weir-session"
	MetaSessionAccepted = "accepted"
)
