package wal2json

import (
	"errors"
	"io"

	"github.com/weir-project/weir/fsm"
)

// seekWindow is the part of a file that is read line by line rather than halved again.
const seekWindow = 256 << 10

// seek finds the offset of a B line at or before which everything belongs to transactions that end at or before start,
// by halving the file: positions grow with offsets. It returns 0 if there is none. before is a lower bound of the
// positions that may follow. What it cannot read it leaves to the reader, which reports it if it lies behind start.
func seek(file io.ReaderAt, size int64, start fsm.Position) (offset int64, before uint64) {
	low, high := int64(0), size
	for high-low > seekWindow {
		middle := low + (high-low)/2
		at, ts, ok := firstBegin(file, middle, high)
		switch {
		case !ok || start.Less(fsm.Position{TS: ts, Stage: fsm.StageRows}):
			high = middle
		default:
			low, before = at, ts-1
		}
	}
	return low, before
}

// firstBegin finds the first B line that starts in (from, to).
func firstBegin(file io.ReaderAt, from, to int64) (offset int64, ts uint64, ok bool) {
	s := newScanner(io.NewSectionReader(file, from, to-from), from)
	if _, err := s.next(); err != nil { // from is somewhere inside a line
		return 0, 0, false
	}
	for {
		raw, err := s.next()
		if errors.Is(err, io.EOF) || err != nil {
			return 0, 0, false
		}
		l, err := decodeLine(raw)
		if err != nil || l.Action != "B" {
			continue
		}
		ts, err := parseLSN(l.NextLSN)
		if err != nil || ts == 0 {
			continue
		}
		return s.start, ts, true
	}
}
