package fsm

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Stage orders what happens at one ts: rows, then the DDL, then the sync point.
type Stage uint8

// The stages, in order. The zero Stage means that nothing at the ts has happened yet.
const (
	StageNone Stage = iota
	StageRows
	StageDDL
	StageSyncPoint

	// stageEnd is where a bare ts stands: after everything at the ts.
	stageEnd = StageSyncPoint
)

// String is the word used in scripts and messages.
func (s Stage) String() string {
	return wordOf([]string{StageNone: "none", StageRows: "rows", StageDDL: "ddl", StageSyncPoint: "sync"}, s)
}

// Position is a point of a source's order: everything up to and including Stage at TS is downstream. TS is opaque and in
// the source's order. The zero Position is before everything.
type Position struct {
	TS    uint64
	Stage Stage
}

// At is the position that a bare ts means: after everything at ts.
func At(ts uint64) Position { return Position{TS: ts, Stage: stageEnd} }

// Compare orders positions by ts, then stage.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.TS, q.TS), cmp.Compare(p.Stage, q.Stage))
}

// Less says whether p is before q.
func (p Position) Less(q Position) bool { return p.Compare(q) < 0 }

// Max is the later of p and q.
func (p Position) Max(q Position) Position {
	if p.Less(q) {
		return q
	}
	return p
}

// String prints ts for a whole ts and ts/stage otherwise.
func (p Position) String() string {
	ts := strconv.FormatUint(p.TS, 10)
	if p.Stage == stageEnd || p == (Position{}) {
		return ts
	}
	return ts + "/" + p.Stage.String()
}

// ParsePosition reads what String prints.
func ParsePosition(s string) (Position, error) {
	num, stage, staged := strings.Cut(s, "/")
	ts, err := strconv.ParseUint(num, 10, 64)
	if err != nil {
		return Position{}, fmt.Errorf("parse position %q: want TS or TS/STAGE with STAGE one of none, rows, ddl, sync", s)
	}
	if !staged {
		if ts == 0 {
			return Position{}, nil
		}
		return At(ts), nil
	}
	for s := StageNone; s <= stageEnd; s++ {
		if s.String() == stage {
			return Position{TS: ts, Stage: s}, nil
		}
	}
	return Position{}, fmt.Errorf("parse position %q: unknown stage %q, want none, rows, ddl or sync", s, stage)
}
