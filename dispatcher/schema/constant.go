package schema

import "unicode/utf8"

// constant reads an expression that is a constant, with signs, brackets and casts around it. A cast does not change the
// value here: the column's type decides in the end.
func constant(tokens []token) (Literal, bool) {
	tokens = bare(tokens)
	sign := ""
	if len(tokens) == 2 && (tokens[0].punct("-") || tokens[0].punct("+")) && tokens[1].kind == tokenNumber {
		if tokens[0].punct("-") {
			sign = "-"
		}
		tokens = tokens[1:]
	}
	if len(tokens) == 2 && tokens[0].is("date", "text", "uuid", "json", "jsonb", "numeric", "integer", "bigint") {
		tokens = tokens[1:] // date '2020-01-01'
	}
	if len(tokens) != 1 {
		return Literal{}, false
	}
	switch t := tokens[0]; {
	case t.kind == tokenNumber:
		return Literal{LiteralNumber, sign + t.text}, isDecimal(t.text)
	case t.kind == tokenString:
		return Literal{LiteralString, t.text}, utf8.ValidString(t.text)
	case t.is("true", "false"):
		return Literal{LiteralBool, t.text}, true
	case t.is("null"):
		return Literal{Kind: LiteralNull}, true
	default:
		return Literal{}, false
	}
}

// bare leaves off brackets and casts around an expression, of a depth that people write.
func bare(tokens []token) []token {
	tokens = withoutCasts(tokens)
	for depth := 0; depth < 8 && len(tokens) > 2 && tokens[0].punct("(") && closes(tokens); depth++ {
		tokens = withoutCasts(tokens[1 : len(tokens)-1])
	}
	return tokens
}

// withoutCasts leaves off ::type behind a constant.
func withoutCasts(tokens []token) []token {
	for at := len(tokens) - 1; at > 0; at-- {
		if !tokens[at].punct("::") {
			continue
		}
		c := cursor{tokens: tokens, at: at + 1}
		if _, serial, err := c.dataType(); err == nil && !serial && c.done() {
			return withoutCasts(tokens[:at])
		}
		return tokens
	}
	return tokens
}

// closes says whether the first bracket closes with the last token.
func closes(tokens []token) bool {
	c := cursor{tokens: tokens}
	c.skipItem()
	return c.done() && tokens[len(tokens)-1].punct(")")
}

// isDecimal says whether a number is digits with at most one point: other forms are left to the upstream.
func isDecimal(text string) bool {
	points, digits := 0, 0
	for _, c := range []byte(text) {
		switch {
		case c == '.':
			points++
		case isDigit(c):
			digits++
		default:
			return false
		}
	}
	return points <= 1 && digits > 0
}
