package cli

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
)

// noNode stands in lists for no node.
const noNode = "-"

type operatorSplit struct {
	admission

	Dispatcher uint64   `arg:"" help:"Id of a running dispatcher."`
	Key        []string `required:"" sep:"none" placeholder:"KEY" help:"A key between two of the new spans: text as in --table NAME,at=KEY, or x:HEX for key bytes. Repeat it, in order."`
	To         []string `placeholder:"NODE,..." help:"Where the new dispatchers go, in key order; - leaves one to the scheduler. Default: all are left to it."`
}

// Run carries the command out.
func (c *operatorSplit) Run(x *call) error {
	if len(c.To) > 0 && len(c.To) != len(c.Key)+1 {
		return usage("--to names %s for %d spans; name one for each, or none", count(len(c.To), "node"), len(c.Key)+1)
	}
	spec := &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_SPLIT, Dispatcher: c.Dispatcher, Targets: targets(c.To)}
	keys, typed, err := rawKeys(c.Key)
	if err != nil {
		return err
	}
	if typed {
		if err := x.ask(func(ctx context.Context, p plane.Plane) error {
			keys, err = keysOfDispatcher(ctx, x, p, c.Dispatcher, c.Key)
			return err
		}); err != nil {
			return err
		}
	}
	spec.SplitKeys = keys
	return c.admit(x, spec)
}

func targets(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if n == noNode {
			n = ""
		}
		out = append(out, n)
	}
	return out
}

// hexKey begins a key that is given as bytes.
const hexKey = "x:"

// rawKeys reads keys that are given as bytes; typed says that others need the types of the table's key columns.
func rawKeys(texts []string) (keys [][]byte, typed bool, err error) {
	for _, text := range texts {
		digits, raw := strings.CutPrefix(text, hexKey)
		if !raw {
			typed = true
			continue
		}
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) == 0 {
			return nil, false, usage("--key %q: want key bytes in hexadecimal after %s", text, hexKey)
		}
		keys = append(keys, key)
	}
	if typed && len(keys) > 0 {
		return nil, false, usage("--key: want every key as text or every key as %sHEX, not both", hexKey)
	}
	return keys, typed, nil
}

// keysOfDispatcher reads keys by the types that the source's log shows for the dispatcher's table.
func keysOfDispatcher(ctx context.Context, x *call, p plane.Plane, id uint64, texts []string) ([][]byte, error) {
	feedName, table, err := tableOfDispatcher(ctx, x, p, id)
	if err != nil {
		return nil, err
	}
	feed, err := p.Changefeed(ctx, feedName, x.read())
	if err != nil {
		return nil, err
	}
	survey, err := wal2json.SurveyLog(ctx, feed.GetSource())
	if err != nil {
		return nil, err
	}
	found := tableWish{text: table}.find(survey.Tables)
	if found == nil {
		return nil, usage("--key: the log %s holds no rows of table %s, so its keys cannot be read as text; give them as %sHEX", feed.GetSource(), table, hexKey)
	}
	keys := make([][]byte, 0, len(texts))
	for _, text := range texts {
		key, err := keycode.Parse(text, found.Types())
		if err != nil {
			return nil, usage("--key %s: %v", text, err)
		}
		keys = append(keys, []byte(key))
	}
	return keys, nil
}

// tableOfDispatcher finds what a dispatcher replicates, or did before it was split: so the command can be sent again.
func tableOfDispatcher(ctx context.Context, x *call, p plane.Plane, id uint64) (changefeed, table string, err error) {
	d, err := p.Dispatcher(ctx, id, x.read())
	if err == nil {
		return d.GetChangefeed(), d.GetSchema() + "." + d.GetTable(), nil
	}
	if explain(err).Reason != "UNKNOWN_DISPATCHER" {
		return "", "", err
	}
	past := &weirv1.ListOperatorsRequest{Read: x.read(), State: weirv1.OperatorState_OPERATOR_STATE_FINISHED, Dispatcher: id}
	for o, pastErr := range p.Operators(ctx, past) {
		if pastErr == nil && o.GetKind() == weirv1.OperatorKind_OPERATOR_KIND_SPLIT {
			return o.GetChangefeed(), o.GetTable(), nil
		}
	}
	return "", "", err
}

type operatorMerge struct {
	admission

	Dispatcher []uint64 `arg:"" help:"Ids of two or more neighbours in one table."`
}

// Run carries the command out.
func (c *operatorMerge) Run(x *call) error {
	if len(c.Dispatcher) < 2 {
		return usage("a merge of %s: want two or more", count(len(c.Dispatcher), "dispatcher"))
	}
	return c.admit(x, &weirv1.OperatorSpec{Kind: weirv1.OperatorKind_OPERATOR_KIND_MERGE, Sources: c.Dispatcher})
}
