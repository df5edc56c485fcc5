package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// verb is one word that a script can say. Exactly one of build and act is set.
type verb struct {
	name string
	// usage shows the parameters.
	usage string
	// build makes a command of the log.
	build func(a *args) fsm.Command
	// act looks at the state, or exchanges it for an equal one, and prints.
	act func(w *world, a *args, p *printer) error
	// nests: indented commands below it are its own.
	nests bool
}

// verbs lists everything that a script can say.
func verbs() []verb {
	return []verb{
		// The cluster.
		{name: "begin-term", usage: "[SERVER] [term=TERM]", build: buildBeginTerm},
		{name: "begin-generation", usage: "GENERATION [cluster=NAME] [why=NUMBER]", build: buildBeginGeneration},
		{name: "announce", usage: "SERVER ADDRESS [level=LEVEL]", build: buildAnnounce},
		{name: "level", usage: "LEVEL", build: buildLevel},
		{name: "policy", usage: "LIMIT=NUMBER...", build: buildPolicy},
		{name: "tick", usage: "[MILLISECONDS] [NODE,...|*] [base=INCARNATION bits=01...]", build: buildTick},
		// Nodes.
		{name: "register", usage: "NODE [address=] [lease=] [class=] [protocol=] [boot=] [device=] [inode=]", build: buildRegister},
		{name: "goodbye", usage: "NODE [PLACEMENT...]", build: buildGoodbye},
		{name: "fence", usage: "NODE [why=TEXT]", build: buildFence},
		{name: "expire", usage: "NODE [expect=INDEX]", build: buildExpire},
		{name: "start-drain", usage: "NODE", build: buildStartDrain},
		{name: "clear-drain", usage: "NODE", build: buildClearDrain},
		{name: "confirm-drain", usage: "NODE", build: buildConfirmDrain},
		{name: "report", usage: "NODE (running|stopped|start-failed PLACEMENT...)... [reason=CODE] [detail=TEXT] [fatal=true]", build: buildReport},
		// Changefeeds and tables.
		{name: "create-changefeed", usage: "NAME [source=] [sink=] [fenced=] [max-write=] [start=] [sync-points=DISTANCE] (table=SCHEMA.NAME [split=KEY,...])...", build: buildCreateChangefeed},
		{name: "pause", usage: "CHANGEFEED", build: buildPause},
		{name: "resume", usage: "CHANGEFEED [from=POSITION] [force=true]", build: buildResume},
		{name: "update-changefeed", usage: "CHANGEFEED [source=] [sync-points=DISTANCE]", build: buildUpdateChangefeed},
		{name: "remove-changefeed", usage: "CHANGEFEED", build: buildRemoveChangefeed},
		{name: "add-tables", usage: "CHANGEFEED [start=POSITION] (table=SCHEMA.NAME [split=KEY,...])...", build: buildAddTables},
		{name: "drop-tables", usage: "CHANGEFEED table=SCHEMA.NAME...", build: buildDropTables},
		// Operators.
		{name: "add", usage: "DISPATCHER NODE [epoch=EPOCH]", build: buildAdd},
		{name: "move", usage: "DISPATCHER [from=NODE|*] to=NODE [epoch=EPOCH]", build: buildMove},
		{name: "remove", usage: "DISPATCHER [epoch=EPOCH]", build: buildRemove},
		{name: "split", usage: "DISPATCHER (at=KEY,...|spans=START..END,...) [targets=NODE|-,...] [epoch=EPOCH]", build: buildSplit},
		{name: "merge", usage: "DISPATCHER,... [epoch=EPOCH]", build: buildMerge},
		{name: "admit", usage: "add|move|remove|stop|split|merge|NUMBER [DISPATCHER] [from=NODE|*] [to=NODE] [epoch=EPOCH]", build: buildAdmit},
		{name: "admit-many", usage: "[all]", build: buildAdmitMany, nests: true},
		{name: "cancel", usage: "OPERATOR", build: buildCancel},
		// Events and watermarks.
		{name: "say", usage: "NODE waiting|written|passed|not-begun|unknown CHANGEFEED ddl@TS|sync@TS (PLACEMENT...|all [except=DISPATCHER,...] [hash=wrong]) [run=RUN] [perm=PERMISSION] [earlier=POSITION] [SPEC]", build: buildSay},
		{name: "decide", usage: "CHANGEFEED ddl@TS|sync@TS written|write-again|skip [run=RUN] [perm=PERMISSION]", build: buildDecide},
		{name: "checkpoint", usage: "CHANGEFEED to=POSITION [NODE|*=POSITION]... [wrong=NODE,...] [run=RUN]", build: buildCheckpoint},
		// Looking.
		{name: "state", usage: "[DISPATCHER|CHANGEFEED|NODE]", act: showState},
		{name: "orders", usage: "NODE", act: showOrders},
		{name: "operators", usage: "", act: showOperators},
		{name: "barriers", usage: "", act: showBarriers},
		{name: "history", usage: "DISPATCHER", act: showHistory},
		{name: "explain", usage: "[$NAME|dispatcher DISPATCHER|operator OPERATOR|barrier CHANGEFEED ddl@TS|sync@TS|request ID]", act: explain},
		{name: "dry-run", usage: "VERB PARAMETER...", act: dryRun},
		{name: "hash", usage: "", act: showHash},
		{name: "check", usage: "", act: check},
		{name: "snapshot", usage: "", act: snapshot},
	}
}

// batchVerb stands above the indented commands of one entry, bareVerb at the top of a script that opens its own cluster.
const (
	batchVerb = "batch"
	bareVerb  = "bare"
)

var errBare = errors.New(bareVerb + " stands first in a script: here a cluster has begun already")

func verbNamed(name string) (verb, error) {
	if name == bareVerb {
		return verb{}, errBare
	}
	var known []string
	for _, v := range verbs() {
		if v.name == name {
			return v, nil
		}
		known = append(known, v.name)
	}
	return verb{}, fmt.Errorf("%s is not a verb: want one of %s, %s or %s", name, strings.Join(known, ", "), batchVerb, bareVerb)
}
