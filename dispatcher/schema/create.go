package schema

import "slices"

func parseCreateTable(c *cursor) (Change, error) {
	exists := c.take("if", "not", "exists")
	ref, err := c.qualified()
	if err != nil {
		return Change{}, err
	}
	no := func(why string) (Change, error) {
		change := unsupported(why, ref)
		change.Creates = true
		return change, nil
	}
	switch {
	case c.take("partition", "of"):
		return no("its columns stand in the table that it is a partition of")
	case c.take("of"):
		return no("its columns stand in the type that it is a table of")
	case !c.peek(0).punct("("):
		return no("its columns and rows come from a query, and the log does not carry those rows as changes")
	}
	elements, err := c.brackets()
	if err != nil {
		return Change{}, err
	}
	switch {
	case c.peek(0).punct(")"):
		return Change{}, c.syntaxError("the end of the statement")
	case c.hasWord("as"):
		return no("its rows come from a query, and the log does not carry them as changes")
	case c.hasWord("inherits"):
		return no("part of its columns stand in the table that it inherits from")
	}
	change := Change{Kind: KindCreate, IfNotExists: exists}
	change.Tables = append(change.Tables, ref)
	if elements.done() {
		return change, nil
	}
	for _, element := range elements.split() {
		if element.peek(0).is("like") {
			return no("its columns stand in the table that it is made like")
		}
		if err := element.tableElement(&change); err != nil {
			return Change{}, err
		}
	}
	for _, key := range change.Key {
		if !slices.ContainsFunc(change.Columns, func(col Column) bool { return col.Name == key }) {
			return no("its primary key names column " + key + ", which it does not have")
		}
	}
	return change, nil
}

// tableElement reads a column or a constraint of a created table.
func (c *cursor) tableElement(change *Change) error {
	if c.startsConstraint() {
		key, err := c.tableConstraint()
		if key != nil {
			change.Key = key
		}
		return err
	}
	col, isKey, err := c.column()
	if err != nil {
		return err
	}
	change.Columns = append(change.Columns, col)
	if isKey {
		change.Key = []string{col.Name}
	}
	return nil
}

// startsConstraint tells a table constraint from a column: most of its words cannot name a column without quotes.
func (c *cursor) startsConstraint() bool {
	t := c.peek(0)
	return t.is("constraint", "primary", "unique", "check", "foreign", "not") ||
		(t.is("exclude") && (c.peek(1).is("using") || c.peek(1).punct("(")))
}

// tableConstraint returns the columns of a primary key, nil for any other constraint.
func (c *cursor) tableConstraint() ([]string, error) {
	if c.take("constraint") {
		if _, err := c.name("a constraint name"); err != nil {
			return nil, err
		}
	}
	if !c.take("primary", "key") || c.peek(0).is("using") { // a key over an index is of columns not named here
		return nil, nil
	}
	return c.names()
}

// column reads a column with its constraints, to the end of the element.
func (c *cursor) column() (col Column, isKey bool, err error) {
	if col.Name, err = c.name("a column name"); err != nil {
		return Column{}, false, err
	}
	serial := false
	if col.Type, serial, err = c.dataType(); err != nil {
		return Column{}, false, err
	}
	if !c.done() && !c.peek(0).is(constraintWords()...) {
		return Column{}, false, c.syntaxError("a comma or a constraint of column " + col.Name)
	}
	col.Computed, col.NotNull = serial, serial
	for !c.done() {
		switch {
		case c.take("not", "null"):
			col.NotNull = true
		case c.take("primary", "key"):
			isKey, col.NotNull = true, true
		case c.take("default"):
			col.Default, col.Computed = nil, false
			if value, ok := constant(c.expression()); ok {
				col.Default = &value
			} else {
				col.Computed = true
			}
		case c.take("generated"):
			col.Computed = true
		default:
			c.skipItem() // of a constraint that a replica does not need
		}
	}
	return col, isKey, nil
}

// constraintWords begin what may follow the type of a column.
func constraintWords() []string {
	return []string{
		"constraint", "not", "null", "primary", "unique", "check", "references", "generated", "collate", "deferrable", "initially",
		"default", "storage", "compression", "options",
	}
}

// expression reads a default: everything up to a word that begins another constraint.
func (c *cursor) expression() []token {
	from := c.at
	for first := true; !c.done(); first = false {
		t := c.peek(0)
		comparison := !first && c.tokens[c.at-1].is("is")
		if !first && !comparison && t.is(constraintWords()...) {
			break
		}
		c.skipItem()
	}
	return c.tokens[from:c.at]
}
