package schema

import (
	"fmt"
	"strings"

	"github.com/weir-project/weir/fsm"
)

// show prints a change on one line.
func show(c Change) string {
	var tables []string
	for _, t := range c.Tables {
		tables = append(tables, t.String())
	}
	out := c.Kind.String() + " " + strings.Join(tables, ", ")
	switch c.Kind {
	case KindCreate:
		if c.IfNotExists {
			out += " unless there"
		}
		for _, col := range c.Columns {
			out += "; " + showColumn(col)
		}
		out += "; key(" + strings.Join(c.Key, ",") + ")"
	case KindRename:
		out += " to " + c.To.String()
	case KindAlter:
		for _, a := range c.Actions {
			out += "; " + showAction(a)
		}
	case KindUnsupported:
		out += ": " + c.Why
	}
	return strings.ReplaceAll(out, " ;", ";")
}

func showColumn(c Column) string {
	out := c.Name + " " + c.Type
	if c.NotNull {
		out += " not null"
	}
	if c.Default != nil {
		out += fmt.Sprintf(" = %q", c.Default.Text)
		if c.Default.Kind == LiteralNull {
			out += "null"
		}
	}
	if c.Computed {
		out += " computed"
	}
	return out
}

func showAction(a Action) string {
	switch a.Kind {
	case ActionAddColumn:
		return "add " + showColumn(a.Column)
	case ActionDropColumn:
		return "drop " + a.Name
	case ActionRenameColumn:
		return "rename " + a.Name + " to " + a.To
	case ActionAlterType:
		using := ""
		if a.Using {
			using = " using"
		}
		return "type " + a.Column.Name + " " + a.Column.Type + using
	case ActionSetKey:
		return "key(" + strings.Join(a.Key, ",") + ")"
	default:
		return "?"
	}
}

func ref(schema, name string) fsm.TableRef { return fsm.TableRef{Schema: schema, Name: name} }
