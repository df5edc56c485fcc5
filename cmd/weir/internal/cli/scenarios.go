package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/fsm/scenario"
)

type scenarioGroup struct {
	Run scenarioRun `cmd:"" help:"Carry out scripts against the state machine alone: no server is asked."`
}

type scenarioRun struct {
	Files []string `arg:"" name:"file" help:"Scripts; - is standard input. The format is described in docs/scenarios.md."`
	Quiet bool     `short:"q" help:"Print differences only."`
}

// Run carries the command out: every script is run, and the first thing that went wrong decides the exit code.
func (c *scenarioRun) Run(x *call) error {
	var wrong []string
	var first error
	for _, name := range c.Files {
		result, err := c.one(x, name)
		if !c.Quiet && result.Script != "" {
			if err := x.say("%s", strings.TrimRight(result.Script, "\n")); err != nil {
				return err
			}
		}
		for _, m := range result.Mismatches {
			x.note("%s", strings.TrimRight(m.String(), "\n"))
		}
		switch {
		case err != nil && first == nil:
			first = err
		case err != nil:
			x.note("weir: %v", err)
		case len(result.Mismatches) > 0:
			wrong = append(wrong, fmt.Sprintf("%s: %s", name, count(len(result.Mismatches), "block")))
		}
	}
	if first != nil {
		return first
	}
	if len(wrong) > 0 {
		return &plane.Error{Class: plane.Failed, Reason: "SCENARIO_DIFFERS", Text: "the output is not the expected one: " + strings.Join(wrong, ", ")}
	}
	return nil
}

func (c *scenarioRun) one(x *call, name string) (scenario.Result, error) {
	in := x.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			return scenario.Result{}, usage("script %s does not exist; check the path", name)
		}
		if err != nil {
			return scenario.Result{}, usage("script %s cannot be read: %v", name, err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	result, err := scenario.Run(in, name, scenario.Options{})
	if err != nil {
		return result, failed("%v", err)
	}
	return result, nil
}
