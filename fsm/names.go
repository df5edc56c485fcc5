package fsm

import "strconv"

// wordOf returns the word of an enum value, or its number if it has none.
func wordOf[T ~uint8](words []string, v T) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return "unknown(" + strconv.Itoa(int(v)) + ")"
}

// String is the kind's word.
func (k OperatorKind) String() string {
	return wordOf([]string{OpAdd: "add", OpMove: "move", OpRemove: "remove", OpStop: "stop", OpSplit: "split", OpMerge: "merge"}, k)
}

// String is the result's word.
func (r OpResult) String() string {
	return wordOf([]string{0: "running", OpDone: "done", OpFailed: "failed", OpCanceled: "canceled", OpReplaced: "replaced"}, r)
}

// String is the phase's word.
func (p Phase) String() string {
	return wordOf([]string{Absent: "absent", Starting: "starting", Running: "running", Stopping: "stopping"}, p)
}

// String is the status's word.
func (n NodeStatus) String() string {
	return wordOf([]string{
		NodeStatusLive: "live", NodeStatusFenced: "fenced", NodeStatusExpired: "expired", NodeStatusGone: "gone",
	}, n)
}

// String is the status's word.
func (c ChangefeedStatus) String() string {
	return wordOf([]string{ChangefeedRunning: "running", ChangefeedIsPaused: "paused", ChangefeedIsRemoving: "removing", ChangefeedIsFailed: "failed"}, c)
}

// String is the report's word.
func (k ReportKind) String() string {
	return wordOf([]string{ReportRunning: "running", ReportStopped: "stopped", ReportStartFailed: "start-failed"}, k)
}

// reason is the code of an end that came without one.
func (k ReportKind) reason() string {
	if k == ReportStartFailed {
		return "START_FAILED"
	}
	return "STOPPED"
}

// String is the order's word.
func (k OrderKind) String() string {
	return wordOf([]string{OrderStart: "start", OrderStop: "stop"}, k)
}

// String is the reason's word.
func (w GenerationWhy) String() string { return wordOf([]string{GenerationBootstrap: "bootstrap"}, w) }

// String is the command's word.
func (k CommandKind) String() string {
	return wordOf([]string{
		KindBeginTerm: "begin-term", KindBeginGeneration: "begin-generation", KindAnnounceServer: "announce-server",
		KindSetFeatureLevel: "set-feature-level", KindSetPolicy: "set-policy", KindTick: "tick",
		KindRegisterNode: "register-node", KindGoodbye: "goodbye", KindFenceNode: "fence-node", KindExpireNode: "expire-node",
		KindCreateChangefeed: "create-changefeed", KindPauseChangefeed: "pause-changefeed",
		KindResumeChangefeed: "resume-changefeed", KindRemoveChangefeed: "remove-changefeed", KindAddTables: "add-tables",
		KindDropTables: "drop-tables", KindAdmitOperator: "admit-operator", KindCancelOperator: "cancel-operator",
		KindReportPlacements: "report-placements", KindUpdateChangefeed: "update-changefeed", KindAdmitMany: "admit-many",
		KindStartDrain: "start-drain", KindClearDrain: "clear-drain", KindConfirmDrain: "confirm-drain",
		KindReportBarrier: "report-barrier", KindDecideBarrier: "decide-barrier", KindAdvanceCheckpoint: "advance-checkpoint",
	}, k)
}

// String is the influence's word.
func (i Influence) String() string {
	return wordOf([]string{InfluenceTables: "tables", InfluenceSchema: "schema", InfluenceAll: "all"}, i)
}

// String is the report's word.
func (b BarrierSaid) String() string {
	return wordOf([]string{
		SaidWaiting: "waiting", SaidWritten: "written", SaidPassed: "passed", SaidNotBegun: "not-begun", SaidUnknown: "unknown",
	}, b)
}

// String is the status's word.
func (b BarrierStatus) String() string {
	return wordOf([]string{
		BarrierCollecting: "collecting", BarrierInWriting: "writing", BarrierPassing: "passing",
		BarrierUndecided: "needs-decision", BarrierEnded: "ended",
	}, b)
}

// String is the result's word.
func (b BarrierResult) String() string {
	return wordOf([]string{0: "open", BarrierWritten: "written", BarrierSkipped: "skipped", BarrierVoid: "void"}, b)
}

// String is the action's word.
func (b BarrierAction) String() string {
	return wordOf([]string{ActionWrite: "write", ActionPass: "pass"}, b)
}

// String is the decision's word.
func (b BarrierDecision) String() string {
	return wordOf([]string{DecideWritten: "written", DecideWriteAgain: "write-again", DecideSkip: "skip"}, b)
}

// String prints changefeed number, run and position.
func (k BarrierKey) String() string {
	return strconv.FormatUint(uint64(k.Changefeed), 10) + ":" + strconv.FormatUint(k.Run, 10) + ":" +
		strconv.FormatUint(k.At.TS, 10) + "/" + k.At.Stage.String()
}
