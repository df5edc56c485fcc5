package caller

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/jepsen/history"
)

// DoBatch asks for many operators in one call and records each as an operation of its own, since each has a verdict and a
// request id of its own, by which it can be asked for alone.
func (c *Caller) DoBatch(ctx context.Context, r Request, specs []history.Spec) []*history.Operation {
	ops := make([]*history.Operation, len(specs))
	for i, spec := range specs {
		ops[i] = c.Recorder.Begin(history.Operation{
			Client: c.Name, Spec: spec, Request: ItemID(r.ID, i), RequestTimeMS: r.TimeMS, Twin: r.Twin,
		})
	}
	ctx, cancel := context.WithTimeout(ctx, c.Total)
	defer cancel()
	for i, answer := range c.untilBatch(ctx, r, ops) {
		c.Recorder.End(ops[i], answer)
	}
	return ops
}

// ItemID is the request id of an item of a batch.
func ItemID(batch string, item int) string { return fmt.Sprintf("%s#%d", batch, item) }

// untilBatch tries until every item has a verdict or the time is over.
func (c *Caller) untilBatch(ctx context.Context, r Request, ops []*history.Operation) []history.Answer {
	at, lingers := c.first(), false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		for _, op := range ops {
			c.Recorder.Try(op, c.Links.Server(at).ID)
		}
		answers, whole, hint := c.askBatch(ctx, at, r, ops)
		if answers != nil {
			return answers
		}
		if whole.Outcome == history.Unknown {
			lingers = true
			for _, op := range ops {
				c.Recorder.Linger(op)
			}
		}
		at = c.next(at, hint)
		if whole.Outcome == history.Rejected || !sleep(ctx, pause) {
			if lingers {
				whole.Outcome = history.Unknown
			}
			answers = make([]history.Answer, len(ops))
			for i := range answers {
				answers[i] = whole
			}
			return answers
		}
	}
}

// askBatch sends one try to one server. Without answers, whole is what the call as a whole was told.
func (c *Caller) askBatch(
	ctx context.Context, at int, r Request, ops []*history.Operation,
) (answers []history.Answer, whole history.Answer, hint int) {
	ctx, cancel := context.WithTimeout(ctx, c.Try)
	defer cancel()
	server := c.Links.Server(at)
	if !c.Links.ready(ctx, at) {
		return nil, history.Answer{Outcome: history.NotProposed, Reason: "NO_CONNECTION", Server: server.ID}, -1
	}
	req := &weirv1.AdmitBatchRequest{Header: &weirv1.RequestHeader{RequestId: r.ID, RequestTimeMs: r.TimeMS, By: c.Name}}
	for _, op := range ops {
		req.Operators = append(req.Operators, operator(&op.Spec))
	}
	resp, err := weirv1.NewOperatorsClient(c.Links.Conn(at)).AdmitBatch(ctx, req)
	if err != nil {
		c.Links.learn(logTime(err))
		return nil, refusedAnswer(err, server.ID), c.hint(err)
	}
	c.Links.learn(resp.GetHeader().GetLogTimeMs())
	if len(resp.GetVerdicts()) != len(ops) {
		return nil, history.Answer{Outcome: history.Unknown, Reason: "WRONG_NUMBER_OF_VERDICTS", Server: server.ID}, -1
	}
	for _, v := range resp.GetVerdicts() {
		answers = append(answers, itemAnswer(v, resp.GetHeader()))
	}
	return answers, whole, -1
}

func itemAnswer(v *weirv1.AdmitVerdict, h *weirv1.ResponseHeader) history.Answer {
	if a := v.GetAdmission(); a != nil {
		return okAnswer(h, a)
	}
	answer := factsAnswer(v.GetRefusal().GetReason(), v.GetRefusal().GetMessage(), v.GetRefusal().GetFacts())
	answer.Server = h.GetServer()
	if answer.Outcome == 0 {
		answer.Outcome = history.Unknown
	}
	return answer
}
