package bubble

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

var errReset = errors.New("connection reset by peer")

// stream is one direction of a connection: bytes on their way, in order.
type stream struct {
	n    *network
	link link

	mu       sync.Mutex
	changed  *sync.Cond
	way      []parcel
	last     time.Time // when the newest parcel arrives
	gone     error     // for both ends, at once
	shut     bool      // the reader has closed
	deadline time.Time // of reads
}

// parcel is what one write sent; without data it is the end of the stream.
type parcel struct {
	at   time.Time
	data []byte
}

func newStream(n *network, l link) *stream {
	s := &stream{n: n, link: l}
	s.changed = sync.NewCond(&s.mu)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams[s] = struct{}{}
	return s
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

func (s *stream) reset() {
	s.mu.Lock()
	if s.gone == nil {
		s.gone = errReset
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.forget()
}

func (s *stream) forget() {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	delete(s.n.streams, s)
}

// send puts bytes on their way; none: the end.
func (s *stream) send(data []byte) error {
	at := time.Now().Add(s.n.delay(s.link))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != nil {
		return s.gone
	}
	if s.shut {
		return io.ErrClosedPipe
	}
	if at.Before(s.last) {
		at = s.last
	}
	s.last = at
	s.way = append(s.way, parcel{at: at, data: data})
	s.changed.Broadcast()
	return nil
}

func (s *stream) receive(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case s.gone != nil:
			return 0, s.gone
		case s.shut:
			return 0, net.ErrClosed
		case !s.deadline.IsZero() && !now.Before(s.deadline):
			return 0, os.ErrDeadlineExceeded
		}
		if len(s.way) > 0 && !s.n.broken(s.link) {
			p := &s.way[0]
			if wait := p.at.Sub(now); wait > 0 {
				time.AfterFunc(wait, s.wake)
			} else if len(p.data) == 0 {
				return 0, io.EOF
			} else {
				n := copy(b, p.data)
				if p.data = p.data[n:]; len(p.data) == 0 {
					s.way = s.way[1:]
				}
				return n, nil
			}
		}
		s.changed.Wait()
	}
}

// close ends the stream for its reader.
func (s *stream) close() {
	s.mu.Lock()
	s.shut = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.forget()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), s.wake)
	}
	s.changed.Broadcast()
}

// conn is one end of a connection.
type conn struct {
	read, write *stream
	once        sync.Once
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) { return c.read.receive(b) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := c.write.send(append([]byte(nil), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		_ = c.write.send(nil) // the other end is gone if that fails
		c.read.close()
	})
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return hostAddr(c.read.link.to) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return hostAddr(c.read.link.from) }

// SetDeadline implements net.Conn; writes never wait.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.setDeadline(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (*conn) SetWriteDeadline(time.Time) error { return nil }
