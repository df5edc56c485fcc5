package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
)

// commands is the whole command line.
type commands struct {
	Server     serverCmd       `cmd:"" group:"run" help:"Run a control-plane server, with --agent also a node beside it."`
	Agent      agentCmd        `cmd:"" group:"run" help:"Run a node: the process that hosts dispatchers."`
	Dev        devCmd          `cmd:"" group:"run" help:"Run servers and agents on this machine, to try things out."`
	Changefeed changefeedGroup `cmd:"" group:"use" help:"Replication jobs."`
	Table      tableGroup      `cmd:"" group:"use" help:"Tables of changefeeds."`
	Dispatcher dispatcherGroup `cmd:"" group:"use" help:"Who replicates which keys."`
	Operator   operatorGroup   `cmd:"" group:"use" help:"Running changes to dispatchers."`
	Node       nodeGroup       `cmd:"" group:"use" help:"The processes that host dispatchers."`
	Barrier    barrierGroup    `cmd:"" group:"use" help:"Schema changes and sync points that dispatchers wait for."`
	Request    requestGroup    `cmd:"" group:"use" help:"Answers to earlier commands."`
	Policy     policyGroup     `cmd:"" group:"use" help:"Limits and deadlines of the whole cluster."`
	Cluster    clusterGroup    `cmd:"" group:"use" help:"The control plane itself."`
	Log        logGroup        `cmd:"" group:"tools" help:"Earlier states and log entries."`
	Scenario   scenarioGroup   `cmd:"" group:"tools" help:"Scripts against the state machine."`
	Completion completionCmd   `cmd:"" group:"tools" help:"Print a completion script for a shell."`
	Version    versionCmd      `cmd:"" group:"tools" help:"Print the version."`
}

const description = "Weir decides which worker owns which shard of replication work, and proves that no two ever write one shard.\n\n" +
	"Exit codes: 0 done, 1 failed, 2 the command makes no sense as written, 3 refused by a rule, 4 nobody could be asked, " +
	"5 it is not known whether it was carried out."

// exited ends the parser when it has printed help.
type exited struct{ code int }

// Error is never printed.
func (e exited) Error() string { return "exit " + strconv.Itoa(e.code) }

func newParser(c *commands, stdout, stderr io.Writer, binds ...any) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("weir"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 120}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run processes:"},
			{Key: "use", Title: "Use a cluster:"},
			{Key: "tools", Title: "Tools:"},
		}),
		kong.Vars{"dev_port": strconv.Itoa(dev.DefaultPort)},
		kong.Bind(binds...),
	)
}

// Run carries out one command line, without the program's name, and returns the exit code.
func Run(ctx context.Context, env Env, args []string) int {
	if len(args) > 0 && args[0] == completeWord {
		return complete(ctx, env, args[1:])
	}
	x := &call{Context: ctx, env: env}
	err := x.run(args)
	if x.plane != nil {
		x.plane.Close()
	}
	if done, ok := errors.AsType[exited](err); ok {
		return done.code
	}
	if err != nil {
		printError(env.Stderr, x.asJSON(), err, x.sent)
	}
	return Code(err)
}

func (x *call) run(args []string) (err error) {
	defer func() { // the parser's way to say that help was printed
		switch e := recover().(type) {
		case nil:
		case exited:
			err = e
		default:
			panic(e)
		}
	}()
	parser, err := newParser(&commands{}, x.env.Stdout, x.env.Stderr, x)
	if err != nil {
		return fmt.Errorf("commands: %w", err)
	}
	line, err := parser.Parse(args)
	if err != nil {
		return badLine(err)
	}
	return line.Run(x)
}

// badLine turns the parser's complaint into a sentence that says where to look.
func badLine(err error) error {
	if _, ok := errors.AsType[*plane.Error](err); ok {
		return err
	}
	help := "weir --help"
	if e, ok := errors.AsType[*kong.ParseError](err); ok && e.Context.Command() != "" {
		if node := e.Context.Selected(); node != nil {
			help = node.FullPath() + " --help"
		}
	}
	return &plane.Error{Class: plane.Usage, Text: err.Error() + "; see: " + help} // not wrapped: it has an exit code of its own
}

type versionCmd struct{}

// Run prints what the Go tool noted in the binary.
func (c *versionCmd) Run(x *call) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return failed("this binary was built without version information")
	}
	version, revision, changed := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if version == "" {
		version = "(devel)"
	}
	if revision != "" {
		revision = " " + revision[:min(12, len(revision))] + changed
	}
	return x.say("weir %s%s %s", version, revision, info.GoVersion)
}
