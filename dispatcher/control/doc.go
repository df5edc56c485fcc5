// Package control is the leader's loop: what a server does for the nodes while it leads, and only then.
//
// It knows the applied state as views, the sessions of nodes, the server's half of the lease protocol, and the scheduler.
// It must not know gRPC or Raft: proposing, reading and leading come in through small interfaces.
//
// A [Leader] lives as long as its process; [Leader.Run] is one term. In a term
//
//   - a tick every period names exactly the incarnations whose heartbeats were heard, and releases their acks once it has
//     been applied here and its verdict accepts the name;
//   - orders are derived from the state, sent when they are new and repeated until the state changes; none is stored;
//   - reports go into the log, one entry a node, unless they would change nothing;
//   - words about events are counted in the log, one entry a node, unless the view shows what Apply would answer; whoever
//     an event waits for is asked again;
//   - watermarks are raised once a second, as far as the state and the nodes' minima allow;
//   - what a node holds beside the state is found out and stopped, pair by pair;
//   - incarnations whose lease is over, whatever their clocks say, are expired by compare-and-set;
//   - a drain is confirmed when the state has nothing on the node and the node says so itself;
//   - the scheduler plans where dispatchers go, and what is done about those that are stuck.
//
// # Invariants
//
//   - Everything of a term dies with it: trackers, timers, queues, progress. After Run has returned nothing of it sends
//     or proposes; the only message that a session still gets is the one that closes it.
//   - An ack goes out only after the tick that captured its heartbeat has been applied here and accepted the incarnation.
//   - Orders carry the term and index of the view that they come from, and a session sends them in that order. A message
//     that has not been sent when a newer state is looked at is derived anew.
//   - Only a node says that something has stopped. What the state has and a node does not hold is ordered to stop, so that
//     the node says so itself.
//   - A word about an event is answered without an entry only if Apply would give that answer and change nothing.
//   - A watermark is proposed only with a minimum for every set of the state, and none of them is above what has been
//     written by anything in its set.
//   - What Apply has refused is proposed again only when its subject has changed, or after a wait that doubles.
//   - A pair or generation above what this server has issued proves the server stale: it orders nothing and closes the
//     session.
//   - No queue and no map grows without bound, and no session, however slow, delays another or the loop.
package control
