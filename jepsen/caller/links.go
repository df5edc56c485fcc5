package caller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// Server is one server of the cluster.
type Server struct{ ID, Address string }

// Links are the connections of one client to every server, and the log time that their answers told.
type Links struct {
	servers []Server
	conns   []*grpc.ClientConn
	logTime atomic.Uint64
}

// Dial prepares connections; they stand when they are first used.
func Dial(servers []Server) (*Links, error) {
	l := &Links{servers: servers}
	for _, s := range servers {
		cc, err := grpc.NewClient("passthrough:///"+s.Address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.3, MaxDelay: 200 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", s.Address, err), l.Close())
		}
		l.conns = append(l.conns, cc)
	}
	return l, nil
}

// Close closes the connections.
func (l *Links) Close() error {
	var errs []error
	for _, cc := range l.conns {
		errs = append(errs, cc.Close())
	}
	return errors.Join(errs...)
}

// Count is the number of servers.
func (l *Links) Count() int { return len(l.servers) }

// Server is one of them.
func (l *Links) Server(i int) Server { return l.servers[i] }

// Conn is the connection to one of them.
func (l *Links) Conn(i int) *grpc.ClientConn { return l.conns[i] }

// ready waits until the connection stands. If it does not, nothing was sent: that is certain, since nothing was called.
func (l *Links) ready(ctx context.Context, i int) bool {
	cc := l.conns[i]
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.Shutdown:
			return false
		case connectivity.Idle:
			cc.Connect()
		case connectivity.Connecting, connectivity.TransientFailure:
		}
		if !cc.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// LogTime is the newest log time that an answer told.
func (l *Links) LogTime() uint64 { return l.logTime.Load() }

func (l *Links) learn(ms uint64) {
	for {
		known := l.logTime.Load()
		if known >= ms || l.logTime.CompareAndSwap(known, ms) {
			return
		}
	}
}
