package dev

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/weir-project/weir/cmd/weir/internal/show"
)

// screen is where everything is said: lines that stay, and on a terminal a view below them that is drawn anew. Without a
// terminal there are lines only. It is safe for concurrent use.
type screen struct {
	w        io.Writer
	terminal bool

	mu   sync.Mutex // guards what follows
	view []string   // as drawn
	err  error      // the first
}

// Sequences of terminals: erase from the cursor down, and do not, or do, wrap long lines (a wrapped line would be two to
// go up).
const (
	eraseDown = "\x1b[J"
	noWrap    = "\x1b[?7l"
	wrap      = "\x1b[?7h"
)

func newScreen(w io.Writer, terminal bool) *screen { return &screen{w: w, terminal: terminal} }

// line says a line that stays.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := s.view
	s.write(s.erase() + fmt.Sprintf(format, args...) + "\n")
	s.show(view)
}

// grid says a table that stays.
func (s *screen) grid(g *show.Grid, none string) {
	var b bytes.Buffer
	if err := g.Print(&b, none); err != nil { // a buffer takes everything
		return
	}
	s.line("%s", strings.TrimRight(b.String(), "\n"))
}

// draw replaces the view; on anything but a terminal it does nothing.
func (s *screen) draw(lines []string) {
	if !s.terminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(s.erase())
	s.show(lines)
}

// settle leaves the view where it is, as lines that stay.
func (s *screen) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = nil
}

func (s *screen) erase() string {
	if len(s.view) == 0 {
		return ""
	}
	up := fmt.Sprintf("\x1b[%dA\r", len(s.view))
	s.view = nil
	return up + eraseDown
}

func (s *screen) show(lines []string) {
	if len(lines) == 0 {
		return
	}
	s.view = lines
	s.write(noWrap + strings.Join(lines, "\n") + "\n" + wrap)
}

func (s *screen) write(text string) {
	if text == "" {
		return
	}
	if _, err := io.WriteString(s.w, text); err != nil && s.err == nil {
		s.err = err
	}
}

// failed is the first error of writing.
func (s *screen) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
