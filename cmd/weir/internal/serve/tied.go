package serve

import (
	"context"
	"errors"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/session"
)

// errServerFenced keeps a hosted node silent.
var errServerFenced = errors.New("the server of this process has lost contact with the leader, so its node sends no heartbeat")

// tiedDialer ties a node to the server of its process: a server that has lost the leader sends no heartbeat of its node
// either, so that the node's gate closes at its deadline and both halves are fenced.
type tiedDialer struct {
	dispatcher.Dialer
	contact func() bool
}

// Open opens a session unless the server is out of contact.
func (d tiedDialer) Open(ctx context.Context, h session.Hello) (session.NodeStream, error) {
	if !d.contact() {
		return nil, errServerFenced
	}
	stream, err := d.Dialer.Open(ctx, h)
	if err != nil {
		return nil, err
	}
	return tiedStream{NodeStream: stream, contact: d.contact}, nil
}

type tiedStream struct {
	session.NodeStream
	contact func() bool
}

// Send sends unless the server is out of contact; the session is broken then.
func (s tiedStream) Send(m session.FromNode) error {
	if !s.contact() {
		s.Close()
		return errServerFenced
	}
	return s.NodeStream.Send(m)
}
