package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fence/clock"
)

const (
	maxReceive = 8 << 20
	maxSend    = conns.MaxMessage
	// watchPeriod is how often health and sessions follow leadership and contact.
	watchPeriod = 100 * time.Millisecond
)

// Server serves weir.v1. Its methods are safe for concurrent use.
type Server struct {
	weirv1.UnimplementedChangefeedsServer
	weirv1.UnimplementedTablesServer
	weirv1.UnimplementedDispatchersServer
	weirv1.UnimplementedOperatorsServer
	weirv1.UnimplementedNodesServer
	weirv1.UnimplementedBarriersServer
	weirv1.UnimplementedClusterServer
	weirv1.UnimplementedExplainServer
	weirv1.UnimplementedNodeSessionServer

	config  Config
	limits  Limits
	peers   *conns.Pool
	answers map[string]protoreflect.MessageType // full method name -> message of its answer
	health  *health.Server
	grpc    *grpc.Server

	stopping atomic.Bool
	stopped  chan struct{} // closed when the server begins to stop

	forking sync.Mutex // one goroutine at a time may fork a view

	mu       sync.Mutex // guards sessions
	sessions map[*sessionEnd]struct{}
}

// New makes a server that serves nothing yet.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config: config, limits: config.Limits.withDefaults(), health: health.NewServer(), stopped: make(chan struct{}),
		peers:    conns.New(conns.Config{Credentials: config.PeerCredentials, Dial: config.PeerDial}),
		sessions: map[*sessionEnd]struct{}{},
	}
	answers, err := answerTypes()
	if err != nil {
		return nil, err
	}
	s.answers = answers
	s.grpc = grpc.NewServer(s.options()...)
	weirv1.RegisterChangefeedsServer(s.grpc, s)
	weirv1.RegisterTablesServer(s.grpc, s)
	weirv1.RegisterDispatchersServer(s.grpc, s)
	weirv1.RegisterOperatorsServer(s.grpc, s)
	weirv1.RegisterNodesServer(s.grpc, s)
	weirv1.RegisterBarriersServer(s.grpc, s)
	weirv1.RegisterClusterServer(s.grpc, s)
	weirv1.RegisterExplainServer(s.grpc, s)
	weirv1.RegisterNodeSessionServer(s.grpc, s)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.follow()
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	creds := s.config.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return []grpc.ServerOption{
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.MaxSendMsgSize(maxSend),
		grpc.MaxConcurrentStreams(s.limits.Streams),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.UnaryInterceptor(s.unary),
		grpc.WaitForHandlers(true),
	}
}

// Run serves until the context ends, and returns when every goroutine of the server is gone. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.peers.Close()
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(s.config.Listener) }()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch()
	}()
	var err error
	select {
	case <-ctx.Done():
		s.stop()
		if err = <-served; errors.Is(err, grpc.ErrServerStopped) { // it was stopped before it began
			err = nil
		}
	case err = <-served:
		s.stop()
	}
	<-watched
	if err != nil {
		return fmt.Errorf("serve the API on %s: %w", s.config.Listener.Addr(), err)
	}
	return nil
}

// stop lets calls under way end for a while, then breaks them off.
func (s *Server) stop() {
	s.stopping.Store(true)
	close(s.stopped)
	s.health.Shutdown()
	s.endSessions(func(uint64) bool { return true })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	timer := s.config.Timers.NewTimer(s.limits.Stop)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
		s.grpc.Stop()
		<-done
	}
}

// watch keeps health and sessions in step with leadership and contact.
func (s *Server) watch() {
	ticker := s.config.Timers.NewTicker(watchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-ticker.C():
			s.follow()
		}
	}
}

// Names of the health service.
const (
	// HealthReady is served while this server can answer: it is in contact with a leader, or leads.
	HealthReady = "weir.v1.Operators"
	// HealthLeader is served by the leader alone.
	HealthLeader = "weir.leader"
)

func (s *Server) follow() {
	lead := s.config.Leader.Leadership()
	contact, _ := s.config.Contact.Contact()
	s.setHealth(HealthReady, contact && (lead.Leading || (lead.Leader != "" && lead.Leader != s.config.ID)))
	s.setHealth(HealthLeader, contact && lead.Leading)
	s.endSessions(func(term uint64) bool { return !contact || !lead.Leading || lead.Term != term })
}

func (s *Server) setHealth(name string, serving bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(name, status)
}

func (s *Server) sleep(ctx context.Context, d time.Duration) error {
	if err := clock.Sleep(ctx, s.config.Timers, d); err != nil {
		return err
	}
	if s.stopping.Load() {
		return &Error{Kind: ShuttingDown}
	}
	return nil
}
