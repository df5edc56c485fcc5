package wal2json

import (
	"bufio"
	"errors"
	"io"
)

const (
	readBuffer = 64 << 10
	// maxLine is above the largest row that the upstream can hold.
	maxLine = 2 << 30
)

var errLineTooLong = errors.New("the line is longer than 2 GiB")

// scanner cuts a stream into lines and knows where it is. A line that has no end yet is kept, so that a growing file
// can be read on after io.EOF.
type scanner struct {
	r     *bufio.Reader
	buf   []byte
	ended bool  // buf holds a complete line, handed out by the last next
	start int64 // byte offset of the line in buf
	lines int64 // complete lines read
}

func newScanner(r io.Reader, offset int64) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, readBuffer), start: offset}
}

// next returns the next line without its end; it is valid until the following call. io.EOF says that no complete line
// is there: see partial.
func (s *scanner) next() ([]byte, error) {
	if s.ended {
		s.start += int64(len(s.buf))
		s.buf, s.ended = s.buf[:0], false
	}
	for {
		chunk, err := s.r.ReadSlice('\n')
		s.buf = append(s.buf, chunk...)
		switch {
		case len(s.buf) > maxLine:
			return nil, errLineTooLong
		case err == nil:
			s.ended = true
			s.lines++
			return s.buf[:len(s.buf)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// partial says whether the stream ended inside a line.
func (s *scanner) partial() bool { return !s.ended && len(s.buf) > 0 }

// end is the offset behind everything that was read into lines, complete or not.
func (s *scanner) end() int64 { return s.start + int64(len(s.buf)) }
