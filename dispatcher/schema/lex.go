package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokenKind says what a token is.
type tokenKind uint8

const (
	tokenWord   tokenKind = iota + 1 // an identifier or keyword; in lower case unless it was quoted
	tokenString                      // a string constant, decoded
	tokenBits                        // B'..' or X'..'
	tokenNumber
	tokenPunct // one character, or ::
)

// token is a word of a statement; start and end are its bytes in the text.
type token struct {
	kind       tokenKind
	text       string
	quoted     bool // of a word: it is no keyword
	start, end int
}

// maxIdentifier is the longest name in bytes; what is longer is cut, as the upstream does.
const maxIdentifier = 63

// lexer cuts a statement into tokens by PostgreSQL's rules, with standard_conforming_strings on.
type lexer struct {
	text string
	at   int
}

func tokenize(text string) ([]token, error) {
	l := lexer{text: text}
	var tokens []token
	for {
		if err := l.skipBlank(); err != nil {
			return nil, err
		}
		if l.at >= len(l.text) {
			return tokens, nil
		}
		start := l.at
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		t.start, t.end = start, l.at
		tokens = append(tokens, t)
	}
}

func (l *lexer) rest() string { return l.text[l.at:] }

// skipBlank skips white space and comments; /* */ nests.
func (l *lexer) skipBlank() error {
	for l.at < len(l.text) {
		switch rest := l.rest(); {
		case strings.IndexByte(" \t\n\r\f\v", rest[0]) >= 0:
			l.at++
		case strings.HasPrefix(rest, "--"):
			end := strings.IndexAny(rest, "\n\r")
			if end < 0 {
				end = len(rest)
			}
			l.at += end
		case strings.HasPrefix(rest, "/*"):
			if err := l.skipComment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) skipComment() error {
	start, depth := l.at, 0
	for l.at < len(l.text) {
		switch rest := l.rest(); {
		case strings.HasPrefix(rest, "/*"):
			depth++
			l.at += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			l.at += 2
			if depth == 0 {
				return nil
			}
		default:
			l.at++
		}
	}
	return fmt.Errorf("the comment at byte %d is not closed", start)
}

func (l *lexer) next() (token, error) {
	rest := l.rest()
	c := rest[0]
	switch {
	case c == '"':
		return l.quotedName('"', 0)
	case c == '\'':
		return l.plainString()
	case c == '$':
		return l.dollar()
	case (c == 'e' || c == 'E') && l.follows(1, '\''):
		l.at++
		return l.escapedString()
	case (c == 'n' || c == 'N') && l.follows(1, '\''):
		l.at++
		return l.plainString()
	case strings.IndexByte("bBxX", c) >= 0 && l.follows(1, '\''):
		l.at++
		t, err := l.plainString()
		t.kind = tokenBits
		return t, err
	case (c == 'u' || c == 'U') && l.follows(1, '&') && (l.follows(2, '"') || l.follows(2, '\'')):
		l.at += 2
		return l.unicodeEscaped()
	case isWordStart(c):
		return l.word(), nil
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return l.number(), nil
	case strings.HasPrefix(rest, "::"):
		l.at += 2
		return token{kind: tokenPunct, text: "::"}, nil
	default:
		_, size := utf8.DecodeRuneInString(rest)
		l.at += size
		return token{kind: tokenPunct, text: rest[:size]}, nil
	}
}

func (l *lexer) follows(by int, c byte) bool { return l.at+by < len(l.text) && l.text[l.at+by] == c }

func isWordStart(c byte) bool {
	return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// word reads an identifier; only ASCII letters are folded, as the upstream does in UTF-8.
func (l *lexer) word() token {
	rest := l.rest()
	end := 0
	for end < len(rest) && (isWordStart(rest[end]) || isDigit(rest[end]) || rest[end] == '$') {
		end++
	}
	l.at += end
	lower := []byte(rest[:end])
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return token{kind: tokenWord, text: cutName(string(lower))}
}

func cutName(name string) string {
	if len(name) <= maxIdentifier {
		return name
	}
	end := maxIdentifier
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}

// number reads digits in any form: 1, 1.5, .5, 1e-3, 0x1F, 1_000.
func (l *lexer) number() token {
	rest := l.rest()
	end := 0
	for end < len(rest) {
		c := rest[end]
		switch {
		case isDigit(c), c == '.', isWordStart(c):
			end++
		case (c == '+' || c == '-') && (rest[end-1] == 'e' || rest[end-1] == 'E') && !strings.HasPrefix(rest, "0x"):
			end++
		default:
			l.at += end
			return token{kind: tokenNumber, text: rest[:end]}
		}
	}
	l.at += end
	return token{kind: tokenNumber, text: rest}
}

// enclosed reads what stands between two marks, the mark itself doubled inside.
func (l *lexer) enclosed(mark byte) (string, error) {
	start := l.at
	var b strings.Builder
	for at := l.at + 1; ; {
		end := strings.IndexByte(l.text[min(at, len(l.text)):], mark)
		if end < 0 {
			return "", fmt.Errorf("the %c at byte %d is not closed", mark, start)
		}
		b.WriteString(l.text[at : at+end])
		at += end + 1
		if at < len(l.text) && l.text[at] == mark {
			b.WriteByte(mark)
			at++
			continue
		}
		l.at = at
		return b.String(), nil
	}
}

func (l *lexer) quotedName(mark, escape byte) (token, error) {
	text, err := l.enclosed(mark)
	if err != nil {
		return token{}, err
	}
	if escape != 0 {
		if text, err = decodeUnicode(text, escape); err != nil {
			return token{}, err
		}
	}
	if text == "" || strings.IndexByte(text, 0) >= 0 {
		return token{}, fmt.Errorf("the name at byte %d is empty or holds a zero byte", l.at)
	}
	return token{kind: tokenWord, text: cutName(text), quoted: true}, nil
}

func (l *lexer) plainString() (token, error) {
	text, err := l.enclosed('\'')
	return token{kind: tokenString, text: text}, err
}

// unicodeEscaped reads U&"..." and U&'...'.
func (l *lexer) unicodeEscaped() (token, error) {
	mark := l.text[l.at]
	end := l.at
	if _, err := l.enclosed(mark); err != nil {
		return token{}, err
	}
	after := l.at
	l.at = end
	escape, clause := byte('\\'), after
	probe := lexer{text: l.text, at: after}
	if probe.skipBlank() == nil && len(probe.rest()) > 6 && strings.EqualFold(probe.rest()[:7], "uescape") {
		probe.at += len("uescape")
		if err := probe.skipBlank(); err != nil {
			return token{}, err
		}
		if r := probe.rest(); len(r) >= 3 && r[0] == '\'' && r[2] == '\'' {
			escape, clause = r[1], probe.at+3
		}
	}
	if mark == '"' {
		t, err := l.quotedName(mark, escape)
		l.at = clause
		return t, err
	}
	text, err := l.enclosed(mark)
	if err != nil {
		return token{}, err
	}
	l.at = clause
	text, err = decodeUnicode(text, escape)
	return token{kind: tokenString, text: text}, err
}

// decodeUnicode replaces \XXXX and \+XXXXXX by their characters.
func decodeUnicode(text string, escape byte) (string, error) {
	var b strings.Builder
	for at := 0; at < len(text); {
		if text[at] != escape {
			b.WriteByte(text[at])
			at++
			continue
		}
		from, digits := at+1, 4
		switch {
		case from < len(text) && text[from] == escape:
			b.WriteByte(escape)
			at += 2
			continue
		case from < len(text) && text[from] == '+':
			from, digits = from+1, 6
		}
		if from+digits > len(text) {
			return "", fmt.Errorf("the unicode escape in %q is cut off", text)
		}
		code, err := strconv.ParseUint(text[from:from+digits], 16, 32)
		if err != nil || code == 0 || !utf8.ValidRune(rune(code)) {
			return "", fmt.Errorf("the unicode escape in %q is not one character", text)
		}
		b.WriteRune(rune(code))
		at = from + digits
	}
	return b.String(), nil
}

// escapedString reads E'...' with its backslashes.
func (l *lexer) escapedString() (token, error) {
	start := l.at
	var b strings.Builder
	for at := l.at + 1; at < len(l.text); at++ {
		switch c := l.text[at]; {
		case c == '\'' && at+1 < len(l.text) && l.text[at+1] == '\'':
			b.WriteByte('\'')
			at++
		case c == '\'':
			l.at = at + 1
			return token{kind: tokenString, text: b.String()}, nil
		case c == '\\' && at+1 < len(l.text):
			size, err := appendEscape(&b, l.text[at+1:])
			if err != nil {
				return token{}, err
			}
			at += size
		default:
			b.WriteByte(c)
		}
	}
	return token{}, fmt.Errorf("the string at byte %d is not closed", start)
}

// appendEscape decodes what follows a backslash and returns its length.
func appendEscape(b *strings.Builder, rest string) (int, error) {
	number := func(from, most, base int) (int, error) {
		end := from
		for end < len(rest) && end < from+most {
			if _, err := strconv.ParseUint(rest[end:end+1], base, 8); err != nil {
				break
			}
			end++
		}
		code, err := strconv.ParseUint(rest[from:end], base, 32)
		switch {
		case err != nil || code == 0:
			return 0, fmt.Errorf("the escape \\%s is no character", rest[:end])
		case most <= 3:
			b.WriteByte(byte(code))
		case !utf8.ValidRune(rune(code)):
			return 0, fmt.Errorf("the escape \\%s is no character", rest[:end])
		default:
			b.WriteRune(rune(code))
		}
		return end, nil
	}
	switch c := rest[0]; c {
	case 'b', 'f', 'n', 'r', 't':
		b.WriteByte(map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[c])
		return 1, nil
	case 'x':
		return number(1, 2, 16)
	case 'u':
		return number(1, 4, 16)
	case 'U':
		return number(1, 8, 16)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return number(0, 3, 8)
	default:
		b.WriteByte(c)
		return 1, nil
	}
}

// dollar reads $tag$...$tag$, or a parameter.
func (l *lexer) dollar() (token, error) {
	rest := l.rest()
	end := 1
	for end < len(rest) && (isWordStart(rest[end]) || (end > 1 && isDigit(rest[end]))) {
		end++
	}
	if end >= len(rest) || rest[end] != '$' {
		l.at++
		return token{kind: tokenPunct, text: "$"}, nil
	}
	mark := rest[:end+1]
	body, _, closed := strings.Cut(rest[len(mark):], mark)
	if !closed {
		return token{}, fmt.Errorf("the string %s at byte %d is not closed", mark, l.at)
	}
	l.at += 2*len(mark) + len(body)
	return token{kind: tokenString, text: body}, nil
}

// clip cuts a text to at most n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-3], "") + "..."
}
