package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// completeWord is what the scripts call: weir __complete WORD... prints what the last word may become, one a line.
const completeWord = "__complete"

// completeTime bounds the question for names: a shell that hangs on a tab is worse than no names.
const completeTime = time.Second

// completeMost bounds the names that are offered.
const completeMost = 200

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(x *call) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := io.WriteString(x.env.Stdout, script)
	return err
}

const bashScript = `# bash completion for weir; load it with: source <(weir completion bash)
_weir() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done < <(weir __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _weir weir
`

const zshScript = `#compdef weir
# zsh completion for weir; load it with: source <(weir completion zsh)
_weir() {
	local -a found
	found=("${(@f)$(weir __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[*]}" ]]; then
		compadd -a found
	else
		_files
	fi
}
compdef _weir weir
`

const fishScript = `# fish completion for weir; load it with: weir completion fish | source
function __weir_complete
	set -l words (commandline -opc) (commandline -ct)
	weir __complete $words[2..-1] 2>/dev/null
end
complete -c weir -a '(__weir_complete)'
`

// place in a command line.
type cursor struct {
	node       *kong.Node
	positional int
	flag       *kong.Flag // whose value comes next; nil: none
	values     map[string]string
}

// complete answers the scripts. It says nothing when it knows nothing: the shell then offers files.
func complete(ctx context.Context, env Env, words []string) int {
	parser, err := newParser(&commands{}, io.Discard, io.Discard, &call{})
	if err != nil || len(words) == 0 {
		return ExitFailed
	}
	current := words[len(words)-1]
	at := cursor{node: parser.Model.Node, values: map[string]string{}}
	for _, w := range words[:len(words)-1] {
		at.take(w)
	}
	for _, candidate := range at.candidates(ctx, env, current) {
		if strings.HasPrefix(candidate, current) {
			_, _ = fmt.Fprintln(env.Stdout, candidate)
		}
	}
	return ExitOK
}

func (c *cursor) take(word string) {
	if c.flag != nil {
		c.values[c.flag.Name], c.flag = word, nil
		return
	}
	if name, value, given := strings.Cut(word, "="); strings.HasPrefix(word, "-") {
		if f := c.find(name); f != nil && !f.IsBool() {
			if given {
				c.values[f.Name] = value
			} else {
				c.flag = f
			}
		}
		return
	}
	for _, child := range c.node.Children {
		if child.Name == word {
			c.node, c.positional = child, 0
			return
		}
	}
	c.positional++
}

func (c *cursor) find(word string) *kong.Flag {
	for _, group := range c.node.AllFlags(true) {
		for _, f := range group {
			if "--"+f.Name == word || (f.Short != 0 && "-"+string(f.Short) == word) {
				return f
			}
		}
	}
	return nil
}

func (c *cursor) candidates(ctx context.Context, env Env, current string) []string {
	if c.flag != nil {
		if c.flag.Enum != "" {
			return c.flag.EnumSlice()
		}
		return c.names(ctx, env, c.flag.Name)
	}
	var all []string
	if strings.HasPrefix(current, "-") {
		for _, group := range c.node.AllFlags(true) {
			for _, f := range group {
				all = append(all, "--"+f.Name)
			}
		}
		return all
	}
	for _, child := range c.node.Children {
		if !child.Hidden {
			all = append(all, child.Name)
		}
	}
	if c.positional < len(c.node.Positional) {
		p := c.node.Positional[c.positional]
		if p.Enum != "" {
			return p.EnumSlice()
		}
		name := p.Name
		if name == "name" && c.node.Parent != nil && c.node.Name != "create" {
			name = c.node.Parent.Name // the name in "changefeed get NAME" is a changefeed's
		}
		return append(all, c.names(ctx, env, name)...)
	}
	return all
}

// names asks the control plane for the names that fit an argument.
func (c *cursor) names(ctx context.Context, env Env, what string) []string {
	switch what {
	case "changefeed", "node", "to", "from", "dispatcher", "operator":
	default:
		return nil
	}
	flags := &Connection{Dir: orElse(c.values["dir"], env.Getenv("WEIR_DIR")), Timeout: completeTime}
	if servers := orElse(c.values["servers"], env.Getenv("WEIR_SERVERS")); servers != "" {
		flags.Servers = strings.Split(servers, ",")
	}
	x := &call{Context: ctx, env: env, flags: flags}
	var found []string
	err := x.ask(func(ctx context.Context, p plane.Plane) (err error) {
		found, err = namesOf(ctx, p, what)
		return err
	})
	if x.plane != nil {
		x.plane.Close()
	}
	if err != nil {
		return nil
	}
	return found
}

func namesOf(ctx context.Context, p plane.Plane, what string) (names []string, err error) {
	read := &weirv1.ReadOptions{Consistency: weirv1.Consistency_CONSISTENCY_STALE}
	switch what {
	case "changefeed":
		all, err := p.Changefeeds(ctx, read)
		for _, f := range all {
			names = append(names, f.GetName())
		}
		return names, err
	case "dispatcher":
		all, _, err := collect(p.Dispatchers(ctx, &weirv1.ListDispatchersRequest{Read: read}), completeMost)
		for _, d := range all {
			names = append(names, number(d.GetId()))
		}
		return names, err
	case "operator":
		all, _, err := collect(p.Operators(ctx, &weirv1.ListOperatorsRequest{Read: read, State: weirv1.OperatorState_OPERATOR_STATE_RUNNING}), completeMost)
		for _, o := range all {
			names = append(names, show.Token(o.GetId()))
		}
		return names, err
	default:
		all, err := p.Nodes(ctx, read)
		for _, n := range all {
			names = append(names, n.GetName())
		}
		return names, err
	}
}
