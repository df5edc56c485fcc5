// Weir decides which worker owns which shard of replication work. This is its one program: servers, agents, the
// commands that talk to them, and a whole system on one machine to try things out.
package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"syscall"

	"github.com/mattn/go-isatty"

	"github.com/weir-project/weir/cmd/weir/internal/cli"
	"github.com/weir-project/weir/cmd/weir/internal/dev"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/serve"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Run(ctx, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Terminal: terminal(), User: userName(), Getenv: os.Getenv,
		Connect: plane.Connect, Server: serve.Server, Agent: serve.Agent, Dev: dev.Run,
	}, os.Args[1:])
}

// terminal says whether the view may be redrawn: a terminal that understands more than lines.
func terminal() bool {
	return isatty.IsTerminal(os.Stdout.Fd()) && os.Getenv("TERM") != "dumb"
}

// userName is who asks, for display.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return "cli"
	}
	return u.Username
}
