package control

import (
	"fmt"

	"github.com/weir-project/weir/dispatcher/session"
	"github.com/weir-project/weir/fsm"
)

// Reasons for closing a session.
const (
	// CloseNotLeader: this server does not lead (any more).
	CloseNotLeader = "NOT_LEADER"
	// CloseStaleIncarnation: the incarnation has ended; the node registers anew.
	CloseStaleIncarnation = "STALE_INCARNATION"
	// CloseStaleServer: the node knows numbers that this server has not issued.
	CloseStaleServer = "STALE_SERVER"
	// CloseWrongCluster: the node belongs to another cluster.
	CloseWrongCluster = "WRONG_CLUSTER"
	// CloseGenerationTooOld: the node has seen a newer generation than this server's.
	CloseGenerationTooOld = "GENERATION_TOO_OLD"
	// CloseServerStopping: this server stops.
	CloseServerStopping = "SERVER_STOPPING"
	// CloseReplaced: the incarnation has opened a newer session.
	CloseReplaced = "REPLACED"
	// CloseProtocol: the node speaks a version of the session that this server does not know.
	CloseProtocol = "PROTOCOL_UNKNOWN"
)

func notLeader(leader string) session.Close {
	text := "this server does not lead; ask the other servers who does"
	if leader != "" {
		text = "this server does not lead; open the session at the leader, " + leader
	}
	return session.Close{Reason: CloseNotLeader, Text: text, Leader: leader}
}

func staleIncarnation(hello session.Hello, node fsm.Node, known bool) session.Close {
	now := "the state does not know the node"
	switch {
	case known && node.Incarnation != hello.Incarnation:
		now = fmt.Sprintf("the node's newest incarnation is %v", node.Incarnation)
	case known:
		now = "it is " + node.Status.String()
	}
	return session.Close{Reason: CloseStaleIncarnation, Text: fmt.Sprintf(
		"incarnation %v of node %s has ended (%s); drop its work and register anew", hello.Incarnation, hello.Node, now)}
}

func staleServer(what string, have, issued fmt.Stringer) session.Close {
	return session.Close{Reason: CloseStaleServer, Text: fmt.Sprintf(
		"the node knows %s %v, above %v, the last that this server has issued: this server's state is older than the node's; "+
			"find the leader of the cluster", what, have, issued)}
}

func generationTooOld(node, own fsm.Generation) session.Close {
	return session.Close{Reason: CloseGenerationTooOld, Text: fmt.Sprintf(
		"the node has seen generation %d and this server is of generation %d: its state is from before a restore; "+
			"find the servers of the newer generation, or recover this one", node, own)}
}

func wrongCluster(node, own string) session.Close {
	return session.Close{Reason: CloseWrongCluster, Text: fmt.Sprintf(
		"the node belongs to cluster %q and this server to %q; give the node the addresses of its own cluster", node, own)}
}

func unknownProtocol(version uint32) session.Close {
	return session.Close{Reason: CloseProtocol, Text: fmt.Sprintf(
		"the node speaks session protocol %d and this server %d; run the same release on both", version, session.Protocol)}
}

func replaced() session.Close {
	return session.Close{Reason: CloseReplaced, Text: "the node has opened a newer session; use that one"}
}

func serverStopping() session.Close {
	return session.Close{Reason: CloseServerStopping, Text: "this server stops; open the session at another one"}
}
