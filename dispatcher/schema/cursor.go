package schema

import (
	"fmt"
	"slices"

	"github.com/weir-project/weir/fsm"
)

// cursor walks over the tokens of one statement.
type cursor struct {
	text   string
	tokens []token
	at     int
}

func (c *cursor) done() bool { return c.at >= len(c.tokens) }

// peek is the token by places ahead; the zero token behind the end.
func (c *cursor) peek(by int) token {
	if c.at+by >= len(c.tokens) {
		return token{}
	}
	return c.tokens[c.at+by]
}

func (t token) is(words ...string) bool {
	return t.kind == tokenWord && !t.quoted && slices.Contains(words, t.text)
}

func (t token) punct(text string) bool { return t.kind == tokenPunct && t.text == text }

// take moves on if the next tokens are these keywords.
func (c *cursor) take(words ...string) bool {
	for i, w := range words {
		if !c.peek(i).is(w) {
			return false
		}
	}
	c.at += len(words)
	return true
}

// takeAny moves on over one of the keywords.
func (c *cursor) takeAny(words ...string) bool {
	if !c.peek(0).is(words...) {
		return false
	}
	c.at++
	return true
}

func (c *cursor) takePunct(text string) bool {
	if !c.peek(0).punct(text) {
		return false
	}
	c.at++
	return true
}

// syntaxError says where reading ended.
func (c *cursor) syntaxError(want string) error {
	if c.done() {
		return fmt.Errorf("%s is expected at its end", want)
	}
	t := c.peek(0)
	return fmt.Errorf("%s is expected at %q", want, clip(c.text[min(t.start, len(c.text)):], 40)) // a part of a statement may come without its text
}

// name reads one identifier.
func (c *cursor) name(what string) (string, error) {
	t := c.peek(0)
	if t.kind != tokenWord {
		return "", c.syntaxError(what)
	}
	c.at++
	return t.text, nil
}

// names reads a list in brackets, of which each element begins with a name.
func (c *cursor) names() ([]string, error) {
	inner, err := c.brackets()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, part := range inner.split() {
		name, err := part.name("a column name")
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// qualified reads a table name; its schema is empty if there is none. A database name is left out.
func (c *cursor) qualified() (fsm.TableRef, error) {
	parts := make([]string, 0, 3)
	for {
		part, err := c.name("a table name")
		if err != nil {
			return fsm.TableRef{}, err
		}
		if parts = append(parts, part); len(parts) == 3 || !c.takePunct(".") {
			break
		}
	}
	ref := fsm.TableRef{Name: parts[len(parts)-1]}
	if len(parts) > 1 {
		ref.Schema = parts[len(parts)-2]
	}
	return ref, nil
}

// brackets reads ( ... ) and returns what stands between.
func (c *cursor) brackets() (*cursor, error) {
	if !c.peek(0).punct("(") {
		return nil, c.syntaxError("an opening bracket")
	}
	start := c.at + 1
	c.skipItem()
	if !c.tokens[c.at-1].punct(")") || c.at == start {
		return nil, c.syntaxError("a closing bracket")
	}
	return &cursor{text: c.text, tokens: c.tokens[start : c.at-1]}, nil
}

// skipItem moves over one token, or over everything in brackets.
func (c *cursor) skipItem() {
	depth := 0
	for !c.done() {
		t := c.peek(0)
		c.at++
		switch {
		case t.punct("("), t.punct("["):
			depth++
		case t.punct(")"), t.punct("]"):
			depth--
		}
		if depth <= 0 {
			return
		}
	}
}

// split cuts what is left at the commas outside of brackets.
func (c *cursor) split() []*cursor {
	var parts []*cursor
	from := c.at
	for !c.done() {
		if c.peek(0).punct(",") {
			parts = append(parts, &cursor{text: c.text, tokens: c.tokens[from:c.at]})
			c.at++
			from = c.at
			continue
		}
		c.skipItem()
	}
	return append(parts, &cursor{text: c.text, tokens: c.tokens[from:c.at]})
}

// hasWord says whether one of the keywords stands in what is left, outside of brackets.
func (c *cursor) hasWord(words ...string) bool {
	probe := *c
	for !probe.done() {
		if probe.peek(0).is(words...) {
			return true
		}
		probe.skipItem()
	}
	return false
}
