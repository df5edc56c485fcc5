package serve

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// openStream counts what passes.
type openStream struct{ sent, closed int }

func (s *openStream) Send(session.FromNode) error                { s.sent++; return nil }
func (s *openStream) Recv() (session.FromLeader, error)          { return session.FromLeader{}, nil }
func (s *openStream) Close()                                     { s.closed++ }
func (s *openStream) Goodbye(context.Context, fsm.Goodbye) error { return nil }
func (s *openStream) Register(context.Context, session.Registration) (session.Registered, error) {
	return session.Registered{}, nil
}

func (s *openStream) Open(context.Context, session.Hello) (session.NodeStream, error) { return s, nil }

// TestAServerThatLosesTheLeaderSilencesItsNode: no heartbeat leaves, so the node's gate closes at its deadline.
func TestAServerThatLosesTheLeaderSilencesItsNode(t *testing.T) {
	contact, under := true, &openStream{}
	d := tiedDialer{Dialer: under, contact: func() bool { return contact }}
	stream, err := d.Open(t.Context(), session.Hello{})
	require.NoError(t, err)
	require.NoError(t, stream.Send(session.FromNode{Heartbeat: &session.Heartbeat{Seq: 1}}))
	contact = false
	require.ErrorIs(t, stream.Send(session.FromNode{Heartbeat: &session.Heartbeat{Seq: 2}}), errServerFenced)
	require.Equal(t, &openStream{sent: 1, closed: 1}, under)
	_, err = d.Open(t.Context(), session.Hello{})
	require.ErrorIs(t, err, errServerFenced)
}
