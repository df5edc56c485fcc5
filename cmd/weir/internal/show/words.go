package show

import (
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/fsm"
)

// Token spells an epoch, operator id or incarnation as GENERATION.SEQUENCE; nothing for none.
func Token(v uint64) string {
	if v == 0 {
		return ""
	}
	return fsm.OpID(v).String()
}

// Position spells a position as TS or TS/STAGE.
func Position(p *weirv1.Position) string { return ToPosition(p).String() }

// ToPosition reads a position of the API.
func ToPosition(p *weirv1.Position) fsm.Position {
	switch p.GetStage() {
	case weirv1.Stage_STAGE_UNSPECIFIED:
		if p.GetTs() == 0 {
			return fsm.Position{}
		}
		return fsm.At(p.GetTs())
	case weirv1.Stage_STAGE_NONE:
		return fsm.Position{TS: p.GetTs(), Stage: fsm.StageNone}
	case weirv1.Stage_STAGE_ROWS:
		return fsm.Position{TS: p.GetTs(), Stage: fsm.StageRows}
	case weirv1.Stage_STAGE_DDL:
		return fsm.Position{TS: p.GetTs(), Stage: fsm.StageDDL}
	case weirv1.Stage_STAGE_SYNC_POINT:
		return fsm.Position{TS: p.GetTs(), Stage: fsm.StageSyncPoint}
	default:
		return fsm.Position{TS: p.GetTs()}
	}
}

// FromPosition is a position for the API.
func FromPosition(p fsm.Position) *weirv1.Position {
	stages := [...]weirv1.Stage{
		fsm.StageNone: weirv1.Stage_STAGE_NONE, fsm.StageRows: weirv1.Stage_STAGE_ROWS,
		fsm.StageDDL: weirv1.Stage_STAGE_DDL, fsm.StageSyncPoint: weirv1.Stage_STAGE_SYNC_POINT,
	}
	return &weirv1.Position{Ts: p.TS, Stage: stages[p.Stage]}
}

// Keys spells a span as the half-open range of its keys.
func Keys(s *weirv1.Span) string {
	start, end := "-inf", "+inf"
	if len(s.GetStart()) > 0 {
		start = keycode.Describe(string(s.GetStart()))
	}
	if len(s.GetEnd()) > 0 {
		end = keycode.Describe(string(s.GetEnd()))
	}
	return "[" + start + ", " + end + ")"
}

// Table spells a table as SCHEMA.NAME.
func Table(schema, name string) string {
	if schema == "" {
		return name
	}
	return schema + "." + name
}

// Word is the last part of an enum's name in lower case: PHASE_ABSENT of prefix PHASE_ is absent; nothing for unset.
func Word(enum, prefix string) string {
	word := strings.ToLower(strings.TrimPrefix(enum, prefix))
	if word == "unspecified" {
		return ""
	}
	return word
}

// Phase is the phase's word.
func Phase(p weirv1.Phase) string { return Word(p.String(), "PHASE_") }

// Ago spells how long ago something was or how far something lags, shortly.
func Ago(ms int64) string {
	if ms < 0 {
		return "-"
	}
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	default:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
}

// Dash is the text, or - for none: no cell of a table is empty.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Entry spells a log index; nothing for none.
func Entry(index uint64) string {
	if index == 0 {
		return ""
	}
	return "entry " + strconv.FormatUint(index, 10)
}
