package fsm

import "fmt"

// Sentence says in one sentence what happened, who holds the thing, and what to do. It follows from the verdict alone,
// so that a replayed answer reads as the first one did.
func (v Verdict) Sentence() string {
	for _, table := range []map[Reason]func(Facts) string{
		commonSentences(), nodeSentences(), changefeedSentences(), operatorSentences(), barrierSentences(),
	} {
		if say, ok := table[v.Reason]; ok {
			return say(v.Facts)
		}
	}
	return "the reason " + v.Reason.String() + " is not known to this version"
}

// Sentence is the item's sentence, as if it had been asked alone.
func (i Item) Sentence() string { return Verdict{Reason: i.Reason, Facts: i.Facts}.Sentence() }

func (f Facts) acceptedSentence() string {
	switch {
	case f.At.Stage != 0 && f.Permission != 0:
		return fmt.Sprintf("the barrier of changefeed %s at %s is decided", f.Changefeed, f.At)
	case f.Operator != 0 && f.Result != 0:
		return fmt.Sprintf("%s %s of dispatcher %d is being stopped; it ends %s, with the dispatcher absent, once what may run has stopped: weir operator wait %s",
			f.OperatorKind, f.Operator, f.Dispatcher, f.Result, f.Operator)
	case f.Operator != 0:
		return fmt.Sprintf("%s %s of dispatcher %d is admitted; wait for it with: weir operator wait %s",
			f.OperatorKind, f.Operator, f.Dispatcher, f.Operator)
	case f.Changefeed != "":
		return "changefeed " + f.Changefeed + " is changed"
	case f.Node != "":
		return fmt.Sprintf("node %s, incarnation %s, is changed", f.Node, f.Incarnation)
	default:
		return "done"
	}
}

func of(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func commonSentences() map[Reason]func(Facts) string {
	return map[Reason]func(Facts) string{
		Accepted:      Facts.acceptedSentence,
		ReportCounted: singleReport,
		ReportInert:   singleReport,
		ReportStale:   singleReport,
		ItemRefused: func(f Facts) string {
			return fmt.Sprintf("item %d of %d was refused (%s), so none was admitted; correct it, or ask without all-or-nothing", f.Have+1, f.Want, f.Detail)
		},
		StaleTerm: func(f Facts) string {
			return fmt.Sprintf("the server that proposed this does not lead in the term that counts, %d%s; ask again with the same request id", f.Term, of(" of server ", string(f.Server)))
		},
		FeatureLevel: func(f Facts) string {
			return fmt.Sprintf("this needs feature level %d, the %s is %d%s; upgrade every server first", f.Want, f.Limit, f.Have, of(" of ", string(f.Server)))
		},
		NotBootstrapped: func(f Facts) string {
			return "the cluster has no generation yet; wait for its first leader, which starts it"
		},
		RequestTooOld: func(f Facts) string {
			return fmt.Sprintf("the request was built at log time %d ms, and answers before %d ms may have been forgotten: it may have been carried out already; look, then ask with a new request id", f.Have, f.Want)
		},
		RequestTooNew: func(f Facts) string {
			return fmt.Sprintf("the request says that it was built at log time %d ms, which is %d ms only now; build it again with the time of a fresh answer", f.Have, f.Want)
		},
		RequestIDReused: func(f Facts) string {
			return fmt.Sprintf("the request id was used for another request, answered at entry %d; use a new id", f.Have)
		},
		LimitReached: func(f Facts) string {
			return fmt.Sprintf("the limit of %s%s is reached: %d of %d; free some, or raise the limit by policy", f.Limit, of(" for node ", string(f.Node)), f.Have, f.Want)
		},
		AlreadyBootstrapped: func(f Facts) string {
			return fmt.Sprintf("the cluster %s has generation %d already; nothing was changed", f.Detail, f.Have)
		},
		Malformed: func(f Facts) string {
			return "the request is malformed: " + f.Detail + "; correct it and ask again"
		},
	}
}

func singleReport(Facts) string { return "this answers a single report, not a command" }

func nodeSentences() map[Reason]func(Facts) string {
	return map[Reason]func(Facts) string{
		UnknownNode: func(f Facts) string {
			return fmt.Sprintf("no node is named %s; list them with: weir node list", f.Node)
		},
		NodeLive: func(f Facts) string {
			return fmt.Sprintf("node %s still holds its name as incarnation %s; stop that process, or wait until its lease of %d ms is over", f.Node, f.Incarnation, f.LeaseMS)
		},
		NodeFenced: func(f Facts) string {
			return fmt.Sprintf("node %s, incarnation %s, is fenced and takes no work; choose another node, or restart its process", f.Node, f.Incarnation)
		},
		NodeExpired: func(f Facts) string {
			return fmt.Sprintf("incarnation %s of node %s has ended and owns nothing; choose another node, or register again", f.Incarnation, f.Node)
		},
		StaleIncarnation: func(f Facts) string {
			return fmt.Sprintf("node %s is incarnation %s by now; an older one can do nothing any more and must register again", f.Node, f.Incarnation)
		},
		NodeDraining: func(f Facts) string {
			return fmt.Sprintf("node %s is being drained and takes no work; choose another node, or end the drain with: weir node clear %s", f.Node, f.Node)
		},
		NodeNotDraining: func(f Facts) string {
			return fmt.Sprintf("node %s is not being drained; nothing was changed", f.Node)
		},
		NotDrained: func(f Facts) string {
			return fmt.Sprintf("node %s still has %d dispatchers on it or on their way; wait for them with: weir node get %s", f.Node, f.Have, f.Node)
		},
		StaleExpire: func(f Facts) string {
			return fmt.Sprintf("node %s was heard again at entry %d, so it is not expired", f.Node, f.Have)
		},
	}
}

func changefeedSentences() map[Reason]func(Facts) string {
	return map[Reason]func(Facts) string{
		UnknownChangefeed: func(f Facts) string {
			return fmt.Sprintf("no changefeed is named %s; list them with: weir changefeed list", f.Changefeed)
		},
		ChangefeedExists: func(f Facts) string {
			return fmt.Sprintf("changefeed %s (number %d) exists; choose another name, or remove it first", f.Changefeed, f.ChangefeedID)
		},
		ChangefeedPaused: func(f Facts) string {
			return fmt.Sprintf("changefeed %s is paused; resume it with: weir changefeed resume %s", f.Changefeed, f.Changefeed)
		},
		ChangefeedNotPaused: func(f Facts) string {
			return fmt.Sprintf("changefeed %s is running; pause it first if it is to be changed or set back", f.Changefeed)
		},
		ChangefeedFailed: func(f Facts) string {
			return fmt.Sprintf("changefeed %s has failed: %s: %s (dispatcher %d); mend the cause, then resume it with: weir changefeed resume %s", f.Changefeed, f.Limit, f.Detail, f.Dispatcher, f.Changefeed)
		},
		ChangefeedStopping: func(f Facts) string {
			return fmt.Sprintf("%s %s of changefeed %s has not ended: dispatcher %d is still being stopped on node %s; ask again when it has: weir operator wait %s", f.OperatorKind, f.Operator, f.Changefeed, f.Dispatcher, f.Node, f.Operator)
		},
		StartTooOld: func(f Facts) string {
			return fmt.Sprintf("changefeed %s has everything up to %s downstream; start there or later, or set the whole changefeed back with: weir changefeed resume %s --from POSITION --force", f.Changefeed, f.At, f.Changefeed)
		},
		StaleCheckpoint: func(f Facts) string {
			return fmt.Sprintf("the checkpoint is not about what changefeed %s runs by now (run %d, at %s%s); it is made anew within a second", f.Changefeed, f.Run, f.At, of(", node ", string(f.Node)))
		},
		CheckpointTooFar: func(f Facts) string {
			return fmt.Sprintf("changefeed %s cannot be further than %s%s%s", f.Changefeed, f.At, of(", where it is held by ", f.Detail), of(" on node ", string(f.Node)))
		},
		ChangefeedRemoving: func(f Facts) string {
			return fmt.Sprintf("changefeed %s is being removed; its name is free when its last dispatcher has stopped", f.Changefeed)
		},
		UnknownTable: func(f Facts) string {
			return fmt.Sprintf("changefeed %s has no table %s; see its tables with: weir changefeed get %s", f.Changefeed, f.Table, f.Changefeed)
		},
		TableExists: func(f Facts) string {
			return fmt.Sprintf("table %s of this sink is replicated by changefeed %s; drop it there first, or use another sink", f.Table, f.Changefeed)
		},
	}
}

func operatorSentences() map[Reason]func(Facts) string {
	return map[Reason]func(Facts) string{
		UnknownDispatcher: func(f Facts) string {
			return fmt.Sprintf("no dispatcher has number %d; list them with: weir dispatcher list", f.Dispatcher)
		},
		EpochMismatch: func(f Facts) string {
			if f.Epoch == 0 {
				return fmt.Sprintf("dispatcher %d runs nowhere by now, so it has not the epoch expected; look again before asking", f.Dispatcher)
			}
			return fmt.Sprintf("dispatcher %d has epoch %s on node %s by now, not the one expected; look again before asking", f.Dispatcher, f.Epoch, f.Node)
		},
		OperatorExists: func(f Facts) string {
			if f.OperatorKind == OpRemove || f.OperatorKind == OpStop {
				return fmt.Sprintf("%s %s was first and holds dispatcher %d until node %s has stopped it; wait for it with: weir operator wait %s", f.OperatorKind, f.Operator, f.Dispatcher, f.Node, f.Operator)
			}
			to := ""
			if f.OperatorKind == OpAdd || f.OperatorKind == OpMove {
				to = of(" to node ", string(f.Node))
			}
			return fmt.Sprintf("%s %s%s was first and holds dispatcher %d; wait for it with: weir operator wait %s, or cancel it", f.OperatorKind, f.Operator, to, f.Dispatcher, f.Operator)
		},
		AlreadyOwned: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d runs on node %s under epoch %s; use a move from that node", f.Dispatcher, f.Node, f.Epoch)
		},
		NotOwner: func(f Facts) string {
			if f.Node == "" {
				return fmt.Sprintf("no node owns dispatcher %d; use an add, or a move without an origin", f.Dispatcher)
			}
			return fmt.Sprintf("dispatcher %d runs on node %s under epoch %s, not on the origin named; name that node", f.Dispatcher, f.Node, f.Epoch)
		},
		NotRunning: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d runs nowhere, and only a running one can be split; add it first", f.Dispatcher)
		},
		SpansDoNotTile: func(f Facts) string {
			return fmt.Sprintf("the spans do not cover %s of dispatcher %d exactly, in key order and at least two of them; take its span from: weir dispatcher get %d", f.Detail, f.Dispatcher, f.Dispatcher)
		},
		NotAdjacent: func(f Facts) string {
			return fmt.Sprintf("dispatchers %d and %d are not neighbours in one table; merge only what touches", f.Have, f.Dispatcher)
		},
		OtherChangefeed: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d belongs to another changefeed than the others; merge within one table", f.Dispatcher)
		},
		TriggerDispatcher: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d reads the events of changefeed %s and leaves only with it; it can be added and moved, not split, merged or removed", f.Dispatcher, f.Changefeed)
		},
		BarrierWriting: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d on node %s may be writing the event of changefeed %s at %s (permission %d); ask again when it is written: weir barrier get %s %s", f.Dispatcher, f.Node, f.Changefeed, f.At, f.Permission, f.Changefeed, f.At)
		},
		SameNode: func(f Facts) string {
			return fmt.Sprintf("dispatcher %d runs on node %s already; choose another destination", f.Dispatcher, f.Node)
		},
		RangeRemoving: func(f Facts) string {
			return fmt.Sprintf("removal %s still holds keys of dispatcher %d's range%s; it can be placed when that has ended: weir operator wait %s", f.Operator, f.Dispatcher, of(", waiting for node ", string(f.Node)), f.Operator)
		},
		NoSuchOperator: func(f Facts) string {
			return fmt.Sprintf("no operator has number %s, or it ended too long ago to be remembered; list them with: weir operator list", f.Operator)
		},
		OperatorFinished: func(f Facts) string {
			return fmt.Sprintf("%s %s has ended already: %s%s; nothing was changed", f.OperatorKind, f.Operator, f.Result, of(", ", f.Detail))
		},
		NotCancellable: func(f Facts) string {
			return fmt.Sprintf("%s %s cannot be cancelled: it ends by itself once dispatcher %d has stopped%s", f.OperatorKind, f.Operator, f.Dispatcher, of(" on node ", string(f.Node)))
		},
	}
}

func barrierSentences() map[Reason]func(Facts) string {
	return map[Reason]func(Facts) string{
		UnknownBarrier: func(f Facts) string {
			return fmt.Sprintf("changefeed %s has no open event at %s in run %d; list them with: weir barrier list", f.Changefeed, f.At, f.Run)
		},
		StalePermission: func(f Facts) string {
			return fmt.Sprintf("the event of changefeed %s at %s has permission %d by now; look at it again before deciding: weir barrier get %s %s", f.Changefeed, f.At, f.Permission, f.Changefeed, f.At)
		},
		NotUndecided: func(f Facts) string {
			return fmt.Sprintf("the event of changefeed %s at %s is %s and needs no such decision; nothing was changed", f.Changefeed, f.At, f.Detail)
		},
		BarrierPass: singleReport, BarrierRetry: singleReport, BarrierForget: singleReport, BarrierUnwritten: singleReport,
		EarlierEventOpen: singleReport, SpecMismatch: singleReport, SetMismatch: singleReport,
	}
}
