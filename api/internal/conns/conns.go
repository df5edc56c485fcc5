// Package conns keeps one gRPC connection an address and tells a server that cannot be reached from one that was asked.
// That difference decides whether a request can have been carried out, so the callers never leave it to guesswork.
package conns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// MaxMessage bounds what a client accepts in one message, in bytes.
const MaxMessage = 16 << 20

// ErrUnreachable says that no connection stood, so that nothing was sent.
var ErrUnreachable = errors.New("no connection")

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("connections are closed")

// Config says how to connect.
type Config struct {
	// Credentials secure the connections; nil: plain text.
	Credentials credentials.TransportCredentials
	// Dial opens the byte stream; nil: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Pool holds the connections. It is safe for concurrent use.
type Pool struct {
	config Config

	mu     sync.Mutex // guards what follows
	open   map[string]*grpc.ClientConn
	closed bool
}

// New returns an empty pool.
func New(config Config) *Pool {
	if config.Credentials == nil {
		config.Credentials = insecure.NewCredentials()
	}
	return &Pool{config: config, open: map[string]*grpc.ClientConn{}}
}

// Get returns the connection to the address; it may not stand yet.
func (p *Pool) Get(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if cc, ok := p.open[address]; ok {
		return cc, nil
	}
	cc, err := grpc.NewClient("passthrough:///"+address, p.options()...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	p.open[address] = cc
	return cc, nil
}

// The keepalive finds a peer that is gone without a word, the connection back-off one that is back. gRPC repeats nothing
// by itself: only the callers know what may be sent twice.
func (p *Pool) options() []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(p.config.Credentials),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage)),
	}
	if p.config.Dial != nil {
		options = append(options, grpc.WithContextDialer(p.config.Dial))
	}
	return options
}

// Ready waits until the connection stands. A connection that has just failed is not waited for, only tried again in the
// background: the caller has other servers. The error wraps ErrUnreachable.
func Ready(ctx context.Context, cc *grpc.ClientConn) error {
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			cc.ResetConnectBackoff()
			return fmt.Errorf("%w: %s cannot be reached", ErrUnreachable, cc.Target())
		case connectivity.Shutdown:
			return fmt.Errorf("%w: %w", ErrUnreachable, ErrClosed)
		case connectivity.Idle:
			cc.Connect()
		case connectivity.Connecting:
		}
		if !cc.WaitForStateChange(ctx, state) {
			return fmt.Errorf("%w: %s: %w", ErrUnreachable, cc.Target(), context.Cause(ctx))
		}
	}
}

// Close closes every connection; later calls of Get fail.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, cc := range p.open {
		_ = cc.Close() // it fails only when closed before
	}
	clear(p.open)
}
