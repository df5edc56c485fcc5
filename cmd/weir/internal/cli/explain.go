package cli

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// explained asks for an explanation and prints it.
func (x *call) explained(ask func(ctx context.Context, p plane.Plane) (*weirv1.Explanation, error)) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		e, err := ask(ctx, p)
		if err != nil {
			return err
		}
		row := show.ExplanationRow(e)
		if x.asJSON() {
			return x.json(row)
		}
		return x.table(row.Grid(), "nothing is known of "+row.Subject)
	})
}

type dispatcherExplain struct {
	Dispatcher uint64 `arg:"" help:"Id of the dispatcher, also of one that is gone."`
}

// Run carries the command out.
func (c *dispatcherExplain) Run(x *call) error {
	return x.explained(func(ctx context.Context, p plane.Plane) (*weirv1.Explanation, error) {
		return p.ExplainDispatcher(ctx, c.Dispatcher, x.read())
	})
}

type operatorExplain struct {
	Operator string `arg:"" help:"Id of the operator."`
}

// Run carries the command out.
func (c *operatorExplain) Run(x *call) error {
	id, err := token("operator", c.Operator)
	if err != nil {
		return err
	}
	return x.explained(func(ctx context.Context, p plane.Plane) (*weirv1.Explanation, error) {
		return p.ExplainOperator(ctx, id, x.read())
	})
}

type requestGroup struct {
	Connection

	Explain requestExplain `cmd:"" help:"Say how a request was answered, as long as that is remembered."`
}

type requestExplain struct {
	Request string `arg:"" help:"The request id, as --request-id takes it or -o json prints it."`
}

// Run carries the command out.
func (c *requestExplain) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		r, err := p.ExplainRequest(ctx, withoutTime(c.Request), x.read())
		if err != nil {
			return err
		}
		v := show.VerdictRow(r.GetVerdict(), factValue)
		if x.asJSON() {
			return x.json(map[string]any{
				"request_id": withoutTime(c.Request), "request_time_ms": r.GetRequestTimeMs(), "answered_ms": r.GetAnsweredMs(), "verdict": v,
			})
		}
		if err := x.facts([][2]string{
			{"request", withoutTime(c.Request)},
			{"answered at", show.Entry(v.Index) + ", log time " + show.Ago(int64(r.GetAnsweredMs()))},
			{"built at", "log time " + show.Ago(int64(r.GetRequestTimeMs()))},
			{"answer", v.Reason},
			{"in words", v.Message},
			{"facts", factWords(r.GetVerdict().GetFacts())},
		}); err != nil {
			return err
		}
		for i, item := range v.Items {
			if err := x.say("operator %d: %s: %s", i+1, item.Reason, item.Message); err != nil {
				return err
			}
		}
		return nil
	})
}
