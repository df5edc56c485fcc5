package fsm

// Reason says how a command ended. The numbers are part of the log format (verdicts are remembered), the codes part of
// the API: neither is ever changed or used again.
type Reason uint8

// Every reason. Accepted is the only good one.
const (
	Accepted Reason = iota + 1
	// Refusals of any command.
	StaleTerm
	FeatureLevel
	NotBootstrapped
	RequestTooOld
	RequestTooNew
	RequestIDReused
	Malformed
	LimitReached
	// Cluster.
	AlreadyBootstrapped
	// Nodes.
	UnknownNode
	NodeLive
	NodeFenced
	NodeExpired
	StaleIncarnation
	StaleExpire
	// Changefeeds and tables.
	UnknownChangefeed
	ChangefeedExists
	ChangefeedPaused
	ChangefeedNotPaused
	ChangefeedRemoving
	UnknownTable
	TableExists
	// Operators.
	UnknownDispatcher
	EpochMismatch
	OperatorExists
	AlreadyOwned
	NotOwner
	SameNode
	RangeRemoving
	NoSuchOperator
	OperatorFinished
	NotCancellable
	// How single reports count.
	ReportCounted
	ReportInert
	ReportStale
	// Nodes.
	NodeDraining
	NodeNotDraining
	NotDrained
	// Changefeeds.
	ChangefeedFailed
	ChangefeedStopping
	StartTooOld
	StaleCheckpoint
	CheckpointTooFar
	// Operators.
	NotRunning
	SpansDoNotTile
	NotAdjacent
	OtherChangefeed
	TriggerDispatcher
	BarrierWriting
	ItemRefused
	// Barriers.
	UnknownBarrier
	StalePermission
	NotUndecided
	// How single barrier reports count, beside those above.
	BarrierPass
	BarrierRetry
	BarrierForget
	BarrierUnwritten
	EarlierEventOpen
	SpecMismatch
	SetMismatch

	lastReason = SetMismatch
)

// String is the stable code.
func (r Reason) String() string {
	return wordOf([]string{
		Accepted: "ACCEPTED", StaleTerm: "STALE_TERM", FeatureLevel: "FEATURE_LEVEL", NotBootstrapped: "NOT_BOOTSTRAPPED",
		RequestTooOld: "REQUEST_TOO_OLD", RequestTooNew: "REQUEST_TOO_NEW", RequestIDReused: "REQUEST_ID_REUSED",
		Malformed: "MALFORMED", LimitReached: "LIMIT_REACHED", AlreadyBootstrapped: "ALREADY_BOOTSTRAPPED",
		UnknownNode: "UNKNOWN_NODE", NodeLive: "NODE_LIVE", NodeFenced: "NODE_FENCED", NodeExpired: "NODE_EXPIRED",
		StaleIncarnation: "STALE_INCARNATION", StaleExpire: "STALE_EXPIRE", UnknownChangefeed: "UNKNOWN_CHANGEFEED",
		ChangefeedExists: "CHANGEFEED_EXISTS", ChangefeedPaused: "CHANGEFEED_PAUSED",
		ChangefeedNotPaused: "CHANGEFEED_NOT_PAUSED", ChangefeedRemoving: "CHANGEFEED_REMOVING",
		UnknownTable: "UNKNOWN_TABLE", TableExists: "TABLE_EXISTS", UnknownDispatcher: "UNKNOWN_DISPATCHER",
		EpochMismatch: "EPOCH_MISMATCH", OperatorExists: "OPERATOR_EXISTS", AlreadyOwned: "ALREADY_OWNED",
		NotOwner: "NOT_OWNER", SameNode: "SAME_NODE", RangeRemoving: "RANGE_REMOVING", NoSuchOperator: "NO_SUCH_OPERATOR",
		OperatorFinished: "OPERATOR_FINISHED", NotCancellable: "NOT_CANCELLABLE", ReportCounted: "REPORT_COUNTED",
		ReportInert: "REPORT_INERT", ReportStale: "REPORT_STALE", NodeDraining: "NODE_DRAINING",
		NodeNotDraining: "NODE_NOT_DRAINING", NotDrained: "NOT_DRAINED", ChangefeedFailed: "CHANGEFEED_FAILED",
		ChangefeedStopping: "CHANGEFEED_STOPPING", StartTooOld: "START_TOO_OLD", StaleCheckpoint: "STALE_CHECKPOINT",
		CheckpointTooFar: "CHECKPOINT_TOO_FAR", NotRunning: "NOT_RUNNING", SpansDoNotTile: "SPANS_DO_NOT_TILE",
		NotAdjacent: "NOT_ADJACENT", OtherChangefeed: "OTHER_CHANGEFEED", TriggerDispatcher: "TRIGGER_DISPATCHER",
		BarrierWriting: "BARRIER_WRITING", ItemRefused: "ITEM_REFUSED", UnknownBarrier: "UNKNOWN_BARRIER",
		StalePermission: "STALE_PERMISSION", NotUndecided: "NOT_UNDECIDED", BarrierPass: "BARRIER_PASS",
		BarrierRetry: "BARRIER_RETRY", BarrierForget: "BARRIER_FORGET", BarrierUnwritten: "BARRIER_UNWRITTEN",
		EarlierEventOpen: "EARLIER_EVENT_OPEN", SpecMismatch: "SPEC_MISMATCH", SetMismatch: "SET_MISMATCH",
	}, r)
}

// Reasons lists every reason, in order.
func Reasons() []Reason {
	var all []Reason
	for r := Accepted; r <= lastReason; r++ {
		all = append(all, r)
	}
	return all
}
