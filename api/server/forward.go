package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/internal/outcome"
	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/fsm"
)

// connectWait bounds how long a forwarded call waits for a connection; it must leave the caller time to ask elsewhere.
const connectWait = 500 * time.Millisecond

// relayedError is the leader's answer to a forwarded call; it goes back as it came.
type relayedError struct{ status *status.Status }

func (e *relayedError) Error() string { return "the leader answered: " + e.status.Message() }

// forward sends a call on to the leader, once: a call that was sent on already is answered with who leads instead, so
// that two servers which each take the other for the leader cannot pass it to and fro. Deadline and request id travel;
// the term is stamped by the server that calls Raft.
func (s *Server) forward(ctx context.Context, req any, method string, lead Leadership) (any, error) {
	address := s.addressOf(lead.Leader)
	if forwarded(ctx) {
		return nil, s.notLeader(lead)
	}
	switch {
	case lead.Leader == "":
		return nil, &Error{Kind: NoLeader}
	case lead.Leader == s.config.ID:
		return nil, &Error{Kind: NoLeader, Text: "this server has been elected and its term has not begun yet; try again in a moment"}
	case address == "":
		return nil, &Error{
			Kind: NoLeader, Leader: lead.Leader,
			Text: fmt.Sprintf("the leader %s has not announced its address yet; try again in a moment", lead.Leader),
		}
	}
	cc, err := s.peers.Get(address)
	if err != nil {
		return nil, &Error{Kind: LeaderUnreachable, Leader: lead.Leader, Address: address, Err: err}
	}
	ready, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	if err := conns.Ready(ready, cc); err != nil {
		return nil, &Error{Kind: LeaderUnreachable, Leader: lead.Leader, Address: address, Err: err}
	}
	resp := s.answers[method].New().Interface()
	out := metadata.AppendToOutgoingContext(ctx, outcome.MetaForwarded, string(s.config.ID))
	if err := cc.Invoke(out, method, req, resp); err != nil {
		return nil, relayed(err, req, lead, address)
	}
	return resp, nil
}

// relayed tells an answer of the leader from a broken call. A broken call may have changed something.
func relayed(err error, req any, lead Leadership, address string) error {
	st := status.Convert(err)
	if isOurs(st) || st.Code() == codes.Unimplemented {
		return &relayedError{status: st}
	}
	if _, mutates := req.(mutation); mutates {
		return &Error{Kind: UnknownOutcome, Leader: lead.Leader, Address: address, Err: err}
	}
	return &Error{Kind: LeaderUnreachable, Leader: lead.Leader, Address: address, Err: err}
}

// notLeader is the answer that names the leader, if one is known that is not this server.
func (s *Server) notLeader(lead Leadership) *Error {
	if lead.Leader == "" || lead.Leader == s.config.ID {
		return &Error{Kind: NoLeader}
	}
	address := s.addressOf(lead.Leader)
	text := fmt.Sprintf("this server does not lead; the leader is %s", lead.Leader)
	if address != "" {
		text += " at " + address
	}
	return &Error{Kind: NotLeader, Text: text, Leader: lead.Leader, Address: address}
}

// addressOf is where a server has announced that it can be called; empty if it has not.
func (s *Server) addressOf(id fsm.ServerID) string {
	view, _, ok := s.config.Reader.Local()
	if !ok {
		return ""
	}
	server, _ := view.Server(id)
	return server.Address
}

// answerTypes finds the message that each method answers with.
func answerTypes() (map[string]protoreflect.MessageType, error) {
	types := map[string]protoreflect.MessageType{}
	for _, file := range []protoreflect.FileDescriptor{
		weirv1.File_weir_v1_changefeeds_proto, weirv1.File_weir_v1_tables_proto, weirv1.File_weir_v1_dispatchers_proto,
		weirv1.File_weir_v1_operators_proto, weirv1.File_weir_v1_nodes_proto, weirv1.File_weir_v1_cluster_proto,
		weirv1.File_weir_v1_session_proto, weirv1.File_weir_v1_barriers_proto, weirv1.File_weir_v1_explain_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				answer, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
				if err != nil {
					return nil, fmt.Errorf("find the answer of %s: %w", method.FullName(), err)
				}
				types["/"+string(service.FullName())+"/"+string(method.Name())] = answer
			}
		}
	}
	return types, nil
}
