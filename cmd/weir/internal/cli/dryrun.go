package cli

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// change carries a request out, or, with --dry-run, says what would become of it.
func (x *call) change(m Mutation, req proto.Message, do func(ctx context.Context, p plane.Plane) error) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error { return x.changeWith(ctx, p, m, req, do) })
}

func (x *call) changeWith(
	ctx context.Context, p plane.Plane, m Mutation, req proto.Message, do func(ctx context.Context, p plane.Plane) error,
) error {
	if !m.DryRun {
		return do(ctx, p)
	}
	dry, err := dryRun(req)
	if err != nil {
		return err
	}
	dry.Read, dry.AtIndex = x.read(), m.At
	r, err := p.DryRun(ctx, dry)
	if err != nil {
		return err
	}
	return x.tried(r)
}

// dryRun puts a request into the field that takes requests of its kind.
func dryRun(req proto.Message) (*weirv1.DryRunRequest, error) {
	dry := &weirv1.DryRunRequest{}
	m := dry.ProtoReflect()
	fields := m.Descriptor().Oneofs().ByName("request").Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f.Message().FullName() == req.ProtoReflect().Descriptor().FullName() {
			m.Set(f, protoreflect.ValueOfMessage(req.ProtoReflect()))
			return dry, nil
		}
	}
	return nil, failed("%T cannot be tried without carrying it out", req)
}

// tried prints what would become of a request. A refusal has the exit code that the request itself would have.
func (x *call) tried(r *weirv1.DryRunResponse) error {
	v := show.VerdictRow(r.GetVerdict(), factValue)
	if !v.Accepted {
		class := plane.Rejected
		if v.Reason == "MALFORMED" {
			class = plane.Usage
		}
		return &plane.Error{
			Class: class, Reason: v.Reason, Facts: r.GetVerdict().GetFacts(),
			Text: fmt.Sprintf("on the state at entry %d this would be refused: %s", r.GetAtIndex(), v.Message),
		}
	}
	if x.asJSON() {
		return x.json(map[string]any{"dry_run": true, "at_index": r.GetAtIndex(), "verdict": v})
	}
	if err := x.say("on the state at entry %d this would be accepted; nothing was changed", r.GetAtIndex()); err != nil {
		return err
	}
	if facts := factWords(r.GetVerdict().GetFacts()); facts != "" {
		if err := x.say("  %s", facts); err != nil {
			return err
		}
	}
	for i, item := range v.Items {
		if err := x.say("  operator %d: %s: %s", i+1, item.Reason, item.Message); err != nil {
			return err
		}
	}
	return nil
}
