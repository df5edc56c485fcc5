package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/weir-project/weir/fsm"
)

const (
	handshakeTimeout  = time.Second
	handshakesAtOnce  = 64
	transportPool     = 3
	transportTimeouts = 10 // a call may take this many heartbeats before its connection is given up
)

// introductions decides who may talk to this server. It is safe for concurrent use.
type introductions interface {
	// self is what this server says of itself.
	self() hello
	// meet judges what the other side says; expect is who was dialled, empty for a caller.
	meet(other hello, expect fsm.ServerID) error
}

// stream is Raft's connections: TCP with a handshake before the first byte of the library's protocol. Raft's own protocol
// names neither cluster nor data folder, so that a wrong address would join two clusters.
type stream struct {
	listener net.Listener
	address  net.Addr
	dial     func(ctx context.Context, address string) (net.Conn, error)
	intro    introductions
	expect   map[raft.ServerAddress]fsm.ServerID
	log      hclog.Logger

	accepted chan net.Conn
	slots    chan struct{} // one per handshake under way
	done     chan struct{} // closed by Close
	closing  sync.Once
	routines sync.WaitGroup

	mu   sync.Mutex
	open map[*trackedConn]struct{}
}

// network returns how servers listen and dial. It is the seam for mutual TLS: wrap both here, nothing else touches a
// socket; until then [Config.Validate] lets nothing but loopback through.
func network(bind string) (net.Listener, func(ctx context.Context, address string) (net.Conn, error), error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", bind)
	if err != nil {
		return nil, nil, err
	}
	var d net.Dialer
	return l, func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }, nil
}

// listen binds the Raft address. Connections are accepted once start is called.
func listen(cfg *Config) (*stream, error) {
	l, dial, err := network(cfg.RaftBind)
	if err != nil {
		return nil, fmt.Errorf("server %s cannot listen for Raft on %s (%w): stop whoever has the port or choose another", cfg.ID, cfg.RaftBind, err)
	}
	address := l.Addr()
	if a, err := net.ResolveTCPAddr("tcp", cfg.RaftAdvertise); err == nil && a.Port != 0 {
		address = a
	}
	s := &stream{
		listener: l, address: address, dial: dial, log: cfg.Logger.Named("raft-net"),
		expect:   make(map[raft.ServerAddress]fsm.ServerID),
		accepted: make(chan net.Conn), slots: make(chan struct{}, handshakesAtOnce),
		open: make(map[*trackedConn]struct{}), done: make(chan struct{}),
	}
	for _, p := range cfg.Peers {
		s.expect[raft.ServerAddress(p.RaftAddress)] = p.ID
	}
	return s, nil
}

// start begins to accept connections.
func (s *stream) start(intro introductions) {
	s.intro = intro
	s.routines.Go(s.acceptLoop)
}

func (s *stream) acceptLoop() {
	for {
		conn, err := s.listener.Accept()
		if s.closed() {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			s.log.Warn("accept a connection", "error", err)
			if !s.pause() {
				return
			}
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.routines.Go(func() {
				defer func() { <-s.slots }()
				s.receive(conn)
			})
		default:
			_ = conn.Close() // too many that connect and say nothing
		}
	}
}

// pause waits before the next try to accept; it reports false when the stream has been closed.
func (s *stream) pause() bool {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout/10)
	defer cancel()
	select {
	case <-ctx.Done():
		return true
	case <-s.done:
		return false
	}
}

func (s *stream) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// receive does the handshake with a caller and hands the connection to Raft.
func (s *stream) receive(raw net.Conn) {
	conn := s.track(raw)
	err := within(conn, func() error {
		other, err := readHello(conn)
		if err != nil {
			return err
		}
		verdict := s.intro.meet(other, "")
		return errors.Join(verdict, writeAnswer(conn, s.intro.self(), verdict))
	})
	if err != nil {
		s.log.Warn("refused a connection from another server", "from", raw.RemoteAddr().String(), "error", err)
		_ = conn.Close()
		return
	}
	select {
	case s.accepted <- conn:
	case <-s.done:
		_ = conn.Close()
	}
}

// within runs a handshake and closes the connection under it when it takes too long.
func within(conn net.Conn, do func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := do()
	if !stop() && err == nil {
		return errors.New("the handshake took too long")
	}
	return err
}

// Accept returns the next connection whose handshake went well.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Dial connects to the server that is expected at the address.
func (s *stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), min(timeout, handshakeTimeout))
	defer cancel()
	raw, err := s.dial(ctx, string(address))
	if err != nil {
		return nil, err
	}
	conn := s.track(raw)
	err = within(conn, func() error {
		if err := writeHello(conn, s.intro.self()); err != nil {
			return err
		}
		other, err := readAnswer(conn)
		if err != nil {
			return err
		}
		return s.intro.meet(other, s.expect[address])
	})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the server at %s: %w", address, err)
	}
	return conn, nil
}

// Addr is the address that this server is known under.
func (s *stream) Addr() net.Addr { return s.address }

// Close closes the listener and every connection, and waits for the handshakes to end.
func (s *stream) Close() error {
	s.closing.Do(func() { close(s.done) })
	err := s.listener.Close()
	s.mu.Lock()
	conns := make([]*trackedConn, 0, len(s.open))
	for c := range s.open {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	s.routines.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// track remembers a connection until it is closed, so that Close can end it: the library keeps no list of those that it
// has accepted.
func (s *stream) track(raw net.Conn) *trackedConn {
	c := &trackedConn{Conn: raw, from: s}
	s.mu.Lock()
	s.open[c] = struct{}{}
	s.mu.Unlock()
	if s.closed() {
		_ = c.Close()
	}
	return c
}

type trackedConn struct {
	net.Conn
	from *stream
}

func (c *trackedConn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// newTCP is Raft's transport over the stream.
func newTCP(cfg *Config, s *stream) wire {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s, MaxPool: transportPool, Timeout: transportTimeouts * cfg.Timing.Heartbeat(),
		MaxRPCsInFlight: 1, MsgpackUseNewTimeFormat: true, Logger: cfg.Logger.Named("raft-net"),
	})
}
