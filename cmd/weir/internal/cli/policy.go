package cli

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type policyGroup struct {
	Connection

	Get policyGet `cmd:"" help:"Show the limits and deadlines that the whole cluster goes by."`
	Set policySet `cmd:"" help:"Change some of them."`
}

type policyGet struct{}

// Run carries the command out.
func (c *policyGet) Run(x *call) error {
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		policy, err := p.Policy(ctx, x.read())
		if err != nil {
			return err
		}
		return x.policy(policy)
	})
}

// policy prints the limits under the names that policy set takes.
func (x *call) policy(policy *weirv1.Policy) error {
	m := policy.ProtoReflect()
	fields := m.Descriptor().Fields()
	doc, g := map[string]any{}, show.NewGrid("NAME", "VALUE")
	for i := range fields.Len() {
		f := fields.Get(i)
		doc[string(f.Name())] = m.Get(f).Interface()
		g.Add(string(f.Name()), m.Get(f).String())
	}
	if x.asJSON() {
		return x.json(doc)
	}
	return x.table(g, "")
}

type policySet struct {
	Mutation

	Setting []string `arg:"" placeholder:"NAME=VALUE" help:"What to change, by the names that weir policy get shows. Times are in milliseconds of log time."`
}

// Run carries the command out. The limits are replaced as a whole, so what is not named is read first.
func (c *policySet) Run(x *call) error {
	for _, setting := range c.Setting {
		if err := setPolicy(&weirv1.Policy{}, setting); err != nil {
			return err
		}
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	return x.ask(func(ctx context.Context, p plane.Plane) error {
		policy, err := p.Policy(ctx, x.read())
		if err != nil {
			return err
		}
		for _, setting := range c.Setting {
			if err := setPolicy(policy, setting); err != nil {
				return err
			}
		}
		req := &weirv1.SetPolicyRequest{Header: header, Policy: policy}
		return x.changeWith(ctx, p, c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
			h, err := p.SetPolicy(ctx, req)
			if err != nil {
				return err
			}
			return x.done(h, Done{}, "%s set: %s", count(len(c.Setting), "limit"), strings.Join(c.Setting, ", "))
		})
	})
}

func setPolicy(policy *weirv1.Policy, setting string) error {
	name, text, given := strings.Cut(setting, "=")
	m := policy.ProtoReflect()
	f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if !given || f == nil {
		return usage("%q is no setting; want NAME=VALUE with a name that weir policy get shows", setting)
	}
	if f.Kind() == protoreflect.BoolKind {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return usage("%s: want true or false, not %q", name, text)
		}
		m.Set(f, protoreflect.ValueOfBool(v))
		return nil
	}
	bits := 64
	if f.Kind() == protoreflect.Uint32Kind {
		bits = 32
	}
	v, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return usage("%s: want a number of at most %d bits, not %q", name, bits, text)
	}
	if bits == 32 {
		m.Set(f, protoreflect.ValueOfUint32(uint32(v)))
	} else {
		m.Set(f, protoreflect.ValueOfUint64(v))
	}
	return nil
}
