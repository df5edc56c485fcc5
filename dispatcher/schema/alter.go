package schema

import "github.com/weir-project/weir/fsm"

func parseAlter(c *cursor) (statement, error) {
	switch {
	case c.take("table"):
		change, err := parseAlterTable(c)
		return statement{change, tagAlter}, err
	case c.take("schema"):
		if c.hasWord("rename") {
			return statement{change: unsupported("it renames the schema of all its tables; rename the tables by statements of their own")}, nil
		}
		return nothing(), nil
	case c.peek(0).is("type"):
		if c.hasWord("attribute") {
			return statement{change: unsupported("it changes the fields of a type, and with them values of columns that the log does not carry")}, nil
		}
		return nothing(), nil
	default:
		return nothing(), nil
	}
}

func parseAlterTable(c *cursor) (Change, error) {
	if c.take("all", "in", "tablespace") {
		return Change{Kind: KindNothing}, nil
	}
	c.take("if", "exists")
	ref, err := c.relation()
	if err != nil {
		return Change{}, err
	}
	switch {
	case c.take("rename"):
		return parseRename(c, ref)
	case c.take("set", "schema"):
		to, err := c.name("a schema name")
		if err != nil {
			return Change{}, err
		}
		return Change{Kind: KindRename, Tables: []fsm.TableRef{ref}, To: fsm.TableRef{Schema: to, Name: ref.Name}}, c.end()
	case c.take("attach", "partition"), c.take("detach", "partition"):
		return Change{Kind: KindNothing}, nil // rows go by the names of the partitions
	}
	change := Change{Kind: KindAlter, Tables: []fsm.TableRef{ref}}
	for _, part := range c.split() {
		if err := part.alterAction(&change); err != nil {
			return Change{}, err
		}
		if change.Kind == KindUnsupported {
			return change, nil
		}
	}
	if len(change.Actions) == 0 {
		return Change{Kind: KindNothing}, nil
	}
	return change, nil
}

func parseRename(c *cursor, ref fsm.TableRef) (Change, error) {
	tables := []fsm.TableRef{ref}
	switch {
	case c.take("constraint"):
		return Change{Kind: KindNothing}, nil
	case c.take("to"):
		to, err := c.name("the new table name")
		if err != nil {
			return Change{}, err
		}
		return Change{Kind: KindRename, Tables: tables, To: fsm.TableRef{Schema: ref.Schema, Name: to}}, c.end()
	}
	c.take("column")
	from, err := c.name("a column name")
	if err != nil {
		return Change{}, err
	}
	if !c.take("to") {
		return Change{}, c.syntaxError("TO")
	}
	to, err := c.name("the new column name")
	if err != nil {
		return Change{}, err
	}
	return Change{Kind: KindAlter, Tables: tables, Actions: []Action{{Kind: ActionRenameColumn, Name: from, To: to}}}, c.end()
}

// alterAction reads one action and adds it to the change, if a replica has to do something about it.
func (c *cursor) alterAction(change *Change) error {
	refuse := func(why string) { *change = unsupported(why, change.Tables...) }
	switch {
	case c.take("add"):
		return c.addAction(change)
	case c.take("drop", "constraint"):
		return nil // a primary key stays at the replica until another one takes its place
	case c.take("drop"):
		c.take("column")
		c.take("if", "exists")
		name, err := c.name("a column name")
		change.Actions = append(change.Actions, Action{Kind: ActionDropColumn, Name: name})
		return err
	case c.take("alter", "constraint"):
		return nil
	case c.take("alter"):
		return c.alterColumn(change)
	case c.take("set", "logged"), c.take("set", "unlogged"):
		refuse("rows that were written while a table is unlogged are in no log")
		return nil
	case c.peek(0).is("set", "reset", "inherit", "no", "of", "not", "owner", "replica", "enable", "disable", "force", "cluster", "validate", "options"):
		return nil
	default:
		refuse("this release does not know what it does")
		return nil
	}
}

func (c *cursor) addAction(change *Change) error {
	if c.startsConstraint() {
		if using := c.hasWord("using") && c.hasWord("primary"); using {
			*change = unsupported("the columns of its primary key stand in an index; name them: ADD PRIMARY KEY (COLUMNS)", change.Tables...)
			return nil
		}
		key, err := c.tableConstraint()
		if key != nil {
			change.Actions = append(change.Actions, Action{Kind: ActionSetKey, Key: key})
		}
		return err
	}
	c.take("column")
	c.take("if", "not", "exists")
	col, isKey, err := c.column()
	if err != nil {
		return err
	}
	change.Actions = append(change.Actions, Action{Kind: ActionAddColumn, Column: col})
	if isKey {
		change.Actions = append(change.Actions, Action{Kind: ActionSetKey, Key: []string{col.Name}})
	}
	return nil
}

func (c *cursor) alterColumn(change *Change) error {
	c.take("column")
	name, err := c.name("a column name")
	if err != nil {
		return err
	}
	switch {
	case c.take("set", "data", "type"), c.take("type"):
	case c.take("set", "expression"):
		*change = unsupported("it computes the column anew in all rows, and the log does not carry the new values", change.Tables...)
		return nil
	case c.peek(0).is("set", "drop", "reset", "add", "restart"):
		return nil
	default:
		return c.syntaxError("what is to be done with column " + name)
	}
	declared, _, err := c.dataType()
	if err != nil {
		return err
	}
	if c.take("collate") {
		if _, err := c.qualified(); err != nil {
			return err
		}
	}
	action := Action{Kind: ActionAlterType, Column: Column{Name: name, Type: declared}}
	if c.take("using") {
		action.Using = !castOf(c.tokens[c.at:], name)
		c.at = len(c.tokens)
	}
	change.Actions = append(change.Actions, action)
	return c.end()
}

// castOf says whether an expression is the column, with casts and brackets around it.
func castOf(tokens []token, column string) bool {
	tokens = bare(tokens)
	return len(tokens) == 1 && tokens[0].kind == tokenWord && tokens[0].text == column
}
