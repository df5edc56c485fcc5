package schema

import (
	"github.com/weir-project/weir/fsm"
)

// The statements that change tables, by their command tags.
const (
	tagCreate   = "CREATE TABLE"
	tagAlter    = "ALTER TABLE"
	tagDrop     = "DROP TABLE"
	tagTruncate = "TRUNCATE TABLE"
)

// statement is one parsed statement; names in its change are as they are written, without schema where none is.
type statement struct {
	change Change
	// tag is the command tag if the statement is one about tables, else empty.
	tag string
}

// parse reads the statements of a text.
func parse(text string) ([]statement, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	var list []statement
	from := 0
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) && !tokens[i].punct(";") {
			continue
		}
		if i > from {
			s, err := parseOne(&cursor{text: text, tokens: tokens[from:i]})
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
		from = i + 1
	}
	return list, nil
}

func parseOne(c *cursor) (statement, error) {
	switch {
	case c.take("create"):
		return parseCreate(c)
	case c.take("alter"):
		return parseAlter(c)
	case c.take("drop"):
		return parseDrop(c)
	case c.take("truncate"):
		change, err := parseTruncate(c)
		return statement{change, tagTruncate}, err
	case c.take("import", "foreign", "schema"):
		return nothing(), nil
	case c.peek(0).is(harmlessVerbs()...):
		return nothing(), nil
	default:
		return statement{change: unsupported("what it does to tables cannot be told from its text")}, nil
	}
}

func nothing() statement { return statement{change: Change{Kind: KindNothing}} }

// harmlessVerbs begin statements that change neither rows nor the layout of a table.
func harmlessVerbs() []string {
	return []string{
		"comment", "grant", "revoke", "security", "reassign", "analyze", "analyse", "vacuum", "reindex", "cluster", "refresh",
		"set", "reset", "show", "explain", "lock", "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release",
		"discard", "checkpoint", "load", "listen", "notify", "unlisten", "deallocate", "declare", "fetch", "close", "move",
	}
}

func parseCreate(c *cursor) (statement, error) {
	c.take("or", "replace")
	c.takeAny("global", "local")
	temporary := c.takeAny("temp", "temporary")
	unlogged := c.take("unlogged")
	switch {
	case c.take("table"):
		change, err := parseCreateTable(c)
		if temporary || unlogged { // their rows are in no log
			change = Change{Kind: KindNothing}
		}
		return statement{change, tagCreate}, err
	case c.take("schema"):
		if c.hasWord("create") {
			return statement{change: unsupported("it creates tables inside a CREATE SCHEMA; create them by statements of their own")}, nil
		}
		return nothing(), nil
	default:
		return nothing(), nil
	}
}

func parseDrop(c *cursor) (statement, error) {
	switch {
	case c.take("table"):
		change, err := parseDropTable(c)
		return statement{change, tagDrop}, err
	case c.peek(0).is("schema", "type", "domain", "extension", "owned", "collation", "access", "server", "language"):
		if c.hasWord("cascade") || c.peek(0).is("owned") {
			return statement{change: unsupported("it drops all that depends on it, and which tables and columns that is cannot be told; " +
				"drop those by statements of their own")}, nil
		}
		return nothing(), nil
	default:
		return nothing(), nil
	}
}

func parseDropTable(c *cursor) (Change, error) {
	c.take("if", "exists")
	tables, err := c.tableList()
	if err != nil {
		return Change{}, err
	}
	c.takeAny("cascade", "restrict")
	return Change{Kind: KindDrop, Tables: tables}, c.end()
}

func parseTruncate(c *cursor) (Change, error) {
	c.take("table")
	tables, err := c.tableList()
	if err != nil {
		return Change{}, err
	}
	if c.takeAny("restart", "continue") {
		c.take("identity")
	}
	c.takeAny("cascade", "restrict")
	return Change{Kind: KindTruncate, Tables: tables}, c.end()
}

// tableList reads names between commas, each with ONLY or * as it may be.
func (c *cursor) tableList() ([]fsm.TableRef, error) {
	var tables []fsm.TableRef
	for {
		ref, err := c.relation()
		if err != nil {
			return nil, err
		}
		tables = append(tables, ref)
		if !c.takePunct(",") {
			return tables, nil
		}
	}
}

// relation reads [ONLY] name [*], or ONLY (name).
func (c *cursor) relation() (fsm.TableRef, error) {
	bracketed := c.take("only") && c.takePunct("(")
	ref, err := c.qualified()
	if err != nil {
		return fsm.TableRef{}, err
	}
	if bracketed && !c.takePunct(")") {
		return fsm.TableRef{}, c.syntaxError("a closing bracket")
	}
	c.takePunct("*")
	return ref, nil
}

func (c *cursor) end() error {
	if !c.done() {
		return c.syntaxError("the end of the statement")
	}
	return nil
}
