package wal2json

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// errIncomplete says that the file ends inside a line or a transaction.
var errIncomplete = errors.New("the log ends inside a transaction")

// log reads a file line by line and checks that transactions follow each other as they must. It is at a line boundary
// between two calls of next.
type log struct {
	loc    location
	file   *os.File
	info   os.FileInfo
	unzip  *gzip.Reader
	scan   *scanner
	offset int64 // where scan began

	open     *transaction // whose B line was read; still set when its C line is handed out
	ending   bool         // the C line of open was handed out
	lastTS   uint64       // of the newest B line
	lastGood fsm.Position // of the newest complete transaction, at least where reading began
}

// transaction is what a B line says.
type transaction struct {
	ts           uint64
	xid          string
	commitTimeMS int64
}

func (t *transaction) position() fsm.Position {
	return fsm.Position{TS: t.ts, Stage: fsm.StageRows}
}

// openLog opens a log at the last transaction boundary that it can find at or before start without reading everything.
func openLog(loc location, start fsm.Position) (*log, error) {
	f, err := os.Open(loc.path)
	if err != nil {
		return nil, fmt.Errorf("open change log: %w", err)
	}
	g := &log{loc: loc, file: f, lastGood: start}
	if err := g.begin(start); err != nil {
		if cerr := f.Close(); cerr != nil {
			return nil, errors.Join(err, cerr)
		}
		return nil, err
	}
	return g, nil
}

func (g *log) begin(start fsm.Position) error {
	var err error
	if g.info, err = g.file.Stat(); err != nil {
		return fmt.Errorf("open change log: %w", err)
	}
	if !g.info.Mode().IsRegular() {
		return &dispatcher.StopError{Reason: ReasonInvalidSource, Text: fmt.Sprintf("change log %s is not a regular file; name a file", g.loc.path)}
	}
	if g.loc.zipped() {
		if g.unzip, err = gzip.NewReader(bufio.NewReaderSize(g.file, readBuffer)); err != nil {
			return g.damaged(err)
		}
		g.scan = newScanner(g.unzip, 0)
		return nil
	}
	g.offset, g.lastTS = seek(g.file, g.info.Size(), start)
	if _, err = g.file.Seek(g.offset, io.SeekStart); err != nil {
		return fmt.Errorf("seek in change log %s: %w", g.loc.path, err)
	}
	g.scan = newScanner(g.file, g.offset)
	return nil
}

func (g *log) close() error {
	if err := g.file.Close(); err != nil {
		return fmt.Errorf("close change log %s: %w", g.loc.path, err)
	}
	return nil
}

// next returns the next line, whose place among the others has been checked. It returns io.EOF behind the last
// transaction, errIncomplete where the file ends elsewhere, and a *dispatcher.StopError for a line that cannot stand
// where it is.
func (g *log) next() (*line, error) {
	if g.ending {
		g.open, g.ending = nil, false
	}
	raw, err := g.scan.next()
	if err != nil {
		return nil, g.ended(err)
	}
	l, err := decodeLine(raw)
	if err != nil {
		return nil, g.malformed(err.Error())
	}
	if why := g.place(l); why != "" {
		return nil, g.malformed(why)
	}
	return l, nil
}

func (g *log) ended(err error) error {
	switch {
	case errors.Is(err, io.EOF) && (g.scan.partial() || g.open != nil):
		return errIncomplete
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errLineTooLong):
		return g.malformed(err.Error())
	case g.unzip != nil:
		return g.damaged(err)
	default:
		return fmt.Errorf("read change log %s: %w", g.loc.path, err)
	}
}

// place checks the order of lines and keeps track of the open transaction; it returns what is wrong.
func (g *log) place(l *line) string {
	switch l.Action {
	case "B":
		return g.placeBegin(l)
	case "C":
		return g.placeCommit(l)
	case "M":
		if !l.transactional() {
			return ""
		}
		return g.placeInside(l)
	case "I", "U", "D", "T":
		if l.Table == "" {
			return "a row line names no table"
		}
		return g.placeInside(l)
	default:
		return fmt.Sprintf("its action %q is unknown", clip(l.Action))
	}
}

func (g *log) placeBegin(l *line) string {
	if g.open != nil {
		return "a transaction begins inside another one; is the C line of the earlier one missing?"
	}
	ts, err := parseLSN(l.NextLSN)
	if err != nil {
		return "nextlsn " + err.Error() + " (the plug-in needs include-lsn)"
	}
	if ts <= g.lastTS {
		return fmt.Sprintf("nextlsn %s is not above that of the transaction before (%d)", l.NextLSN, g.lastTS)
	}
	g.lastTS = ts
	g.open = &transaction{ts: ts, xid: string(l.XID), commitTimeMS: l.commitTimeMS()}
	return ""
}

func (g *log) placeCommit(l *line) string {
	if why := g.placeInside(l); why != "" {
		return why
	}
	if ts, err := parseLSN(l.NextLSN); l.NextLSN != "" && (err != nil || ts != g.open.ts) {
		return fmt.Sprintf("nextlsn %q of the C line is not that of its B line (%d)", clip(l.NextLSN), g.open.ts)
	}
	g.lastGood, g.ending = g.lastGood.Max(g.open.position()), true
	return ""
}

func (g *log) placeInside(l *line) string {
	if g.open == nil {
		return fmt.Sprintf("a %s line stands outside of a transaction (the plug-in needs include-transaction)", l.Action)
	}
	if string(l.XID) != g.open.xid {
		return fmt.Sprintf("xid %s is not that of the open transaction (%s)", l.XID, g.open.xid)
	}
	return ""
}

// malformed stops at the line that was read last.
func (g *log) malformed(why string) error {
	return g.stop(problem{ReasonMalformed, why + "; repair the log or take a fresh one, then start the dispatcher again"})
}

// truncated stops where a complete file ends too early.
func (g *log) truncated() error {
	why := "the file ends inside a transaction, whose C line is missing"
	if g.scan.partial() {
		why = "the file ends inside a line"
	}
	return g.malformed(why + " (truncated; a log that still grows needs ?follow=true)")
}

func (g *log) damaged(err error) error {
	return &dispatcher.StopError{
		Reason: ReasonMalformed,
		Text: fmt.Sprintf("change log %s is damaged or truncated gzip data (%v) behind line %d, last good position %s; take a fresh copy",
			g.loc.path, err, g.line(), g.lastGood),
	}
}

// stop says where in the file a problem is.
func (g *log) stop(p problem) *dispatcher.StopError {
	return &dispatcher.StopError{
		Reason: p.reason,
		Text: fmt.Sprintf("change log %s, line %d (byte offset %d), last good position %s: %s",
			g.loc.path, g.line(), g.scan.start, g.lastGood, p.text),
	}
}

// line is the number of the line read last, from 1; a line without an end counts. Lines before the place where reading
// began are counted only here, when somebody asks.
func (g *log) line() int64 {
	if g.scan == nil {
		return 0
	}
	n := g.scan.lines
	if g.scan.partial() {
		n++
	}
	if g.offset == 0 {
		return n
	}
	before := io.NewSectionReader(g.file, 0, g.offset)
	buf := make([]byte, readBuffer)
	for {
		read, err := before.Read(buf)
		n += int64(bytes.Count(buf[:read], []byte{'\n'}))
		if err != nil {
			return n
		}
	}
}

// changed says how a followed file differs from the one that was opened, empty if it is the same and has not shrunk.
func (g *log) changed() string {
	now, err := os.Stat(g.loc.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "was removed"
	case err != nil:
		return "" // whether it is the same file cannot be told now; the next look decides
	case !os.SameFile(g.info, now):
		return "was replaced by another file"
	case now.Size() < g.scan.end():
		return fmt.Sprintf("was shrunk to %d bytes, of which %d were read", now.Size(), g.scan.end())
	default:
		return ""
	}
}
