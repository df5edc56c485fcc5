// Package nodewire turns the messages of a node session into weir.v1 and back. It knows both spellings and decides
// nothing: a message that makes no sense is refused as a whole.
package nodewire

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// errEmpty says that no field of a oneof is set, or one that this version does not know.
var errEmpty = errors.New("message has no content that this version knows")

// FromPosition spells a position.
func FromPosition(p fsm.Position) *weirv1.Position {
	return &weirv1.Position{Ts: p.TS, Stage: weirv1.Stage(p.Stage) + weirv1.Stage_STAGE_NONE}
}

// ToPosition reads a position; a missing one is before everything, and a bare ts after everything at the ts.
func ToPosition(p *weirv1.Position) (fsm.Position, error) {
	switch stage := p.GetStage(); {
	case stage == weirv1.Stage_STAGE_UNSPECIFIED && p.GetTs() == 0:
		return fsm.Position{}, nil
	case stage == weirv1.Stage_STAGE_UNSPECIFIED:
		return fsm.At(p.GetTs()), nil
	case stage < 0 || stage > weirv1.Stage_STAGE_SYNC_POINT:
		return fsm.Position{}, fmt.Errorf("position has the unknown stage %d", stage)
	default:
		return fsm.Position{TS: p.GetTs(), Stage: fsm.Stage(stage - weirv1.Stage_STAGE_NONE)}, nil
	}
}

// FromSpan spells a span.
func FromSpan(s fsm.Span) *weirv1.Span {
	return &weirv1.Span{Start: []byte(s.Start), End: []byte(s.End)}
}

// ToSpan reads a span.
func ToSpan(s *weirv1.Span) fsm.Span {
	return fsm.Span{Start: string(s.GetStart()), End: string(s.GetEnd())}
}

// FromStopped spells a placement and how far it came.
func FromStopped(p fsm.PlacementPosition) *weirv1.PlacementPosition {
	out := &weirv1.PlacementPosition{Dispatcher: uint64(p.Dispatcher), Epoch: uint64(p.Epoch)}
	if p.HasPosition {
		out.Position = FromPosition(p.Position)
	}
	return out
}

// ToStopped reads a placement and how far it came.
func ToStopped(p *weirv1.PlacementPosition) (fsm.PlacementPosition, error) {
	at, err := ToPosition(p.GetPosition())
	return fsm.PlacementPosition{
		Dispatcher: fsm.DispatcherID(p.GetDispatcher()), Epoch: fsm.Epoch(p.GetEpoch()),
		HasPosition: p.GetPosition() != nil, Position: at,
	}, err
}

// FromProgress spells a dispatcher's progress.
func FromProgress(p session.Progress) *weirv1.Progress {
	return &weirv1.Progress{
		Dispatcher: uint64(p.Dispatcher), Epoch: uint64(p.Epoch), Position: FromPosition(p.Position), LagMs: p.LagMS,
		Rows: p.Rows, Idle: p.Idle,
	}
}

func toProgress(p *weirv1.Progress) (session.Progress, error) {
	at, err := ToPosition(p.GetPosition())
	return session.Progress{
		Dispatcher: fsm.DispatcherID(p.GetDispatcher()), Epoch: fsm.Epoch(p.GetEpoch()), Position: at, LagMS: p.GetLagMs(),
		Rows: p.GetRows(), Idle: p.GetIdle(),
	}, err
}

// each turns every element, or stops at the first that makes no sense.
func each[A, B any](in []A, turn func(A) (B, error)) ([]B, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]B, len(in))
	for i := range in {
		v, err := turn(in[i])
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// every turns every element.
func every[A, B any](in []A, turn func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = turn(in[i])
	}
	return out
}
