package client

import (
	"context"

	"github.com/weir-project/weir/api/internal/conns"
	"github.com/weir-project/weir/api/weirv1"
)

// Nodes lists the nodes by name.
func (c *Client) Nodes(ctx context.Context, read *weirv1.ReadOptions) ([]*weirv1.Node, error) {
	var all []*weirv1.Node
	for token, more := "", true; more; more = token != "" {
		page, err := c.nodes.ListNodes(ctx, &weirv1.ListNodesRequest{Read: read, PageToken: token})
		if err != nil {
			return nil, err
		}
		all, token = append(all, page.GetNodes()...), page.GetNextPageToken()
	}
	return all, nil
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string, read *weirv1.ReadOptions) (*weirv1.Node, error) {
	resp, err := c.nodes.GetNode(ctx, &weirv1.GetNodeRequest{Read: read, Name: name})
	return resp.GetNode(), err
}

// FenceNode ends an incarnation's acks; 0 means the live one. It returns the incarnation that was fenced.
func (c *Client) FenceNode(ctx context.Context, name string, incarnation uint64, why string) (uint64, error) {
	resp, err := c.nodes.FenceNode(ctx, &weirv1.FenceNodeRequest{Name: name, Incarnation: incarnation, Why: why})
	return resp.GetIncarnation(), err
}

// Status tells who leads and how the cluster is; with probe also what each member says of itself.
func (c *Client) Status(ctx context.Context, probe bool, read *weirv1.ReadOptions) (*weirv1.GetStatusResponse, error) {
	return c.cluster.GetStatus(ctx, &weirv1.GetStatusRequest{Read: read, ProbeMembers: probe})
}

// ServerStatus asks the server at one address about itself; nobody else is asked.
func (c *Client) ServerStatus(ctx context.Context, address string) (*weirv1.GetServerStatusResponse, error) {
	var resp *weirv1.GetServerStatusResponse
	err := c.at(ctx, address, func(ctx context.Context, server weirv1.ClusterClient) (err error) {
		resp, err = server.GetServerStatus(ctx, &weirv1.GetServerStatusRequest{})
		return err
	})
	return resp, err
}

// HashAt asks the server at one address for its state hash right after the entry at index.
func (c *Client) HashAt(ctx context.Context, address string, index uint64) (*weirv1.Digest, error) {
	var resp *weirv1.HashAtResponse
	err := c.at(ctx, address, func(ctx context.Context, server weirv1.ClusterClient) (err error) {
		resp, err = server.HashAt(ctx, &weirv1.HashAtRequest{Index: index})
		return err
	})
	return resp.GetHash(), err
}

// at calls the server at one address, once.
func (c *Client) at(
	ctx context.Context, address string, ask func(context.Context, weirv1.ClusterClient) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, min(c.config.Try, c.config.Call))
	defer cancel()
	cc, err := c.conns.Get(address)
	if err != nil {
		return unreachable(address, err)
	}
	if err := conns.Ready(ctx, cc); err != nil {
		return unreachable(address, err)
	}
	if err := ask(ctx, weirv1.NewClusterClient(cc)); err != nil {
		return decode(err, address, false)
	}
	return nil
}

// StartDrain takes a node's work away step by step; Node tells the progress.
func (c *Client) StartDrain(ctx context.Context, name string) (*weirv1.ResponseHeader, error) {
	resp, err := c.nodes.StartDrain(ctx, &weirv1.StartDrainRequest{Name: name})
	return resp.GetHeader(), err
}

// ClearDrain ends a drain.
func (c *Client) ClearDrain(ctx context.Context, name string) (*weirv1.ResponseHeader, error) {
	resp, err := c.nodes.ClearDrain(ctx, &weirv1.ClearDrainRequest{Name: name})
	return resp.GetHeader(), err
}

// Policy returns the replicated limits.
func (c *Client) Policy(ctx context.Context, read *weirv1.ReadOptions) (*weirv1.Policy, error) {
	resp, err := c.cluster.GetPolicy(ctx, &weirv1.GetPolicyRequest{Read: read})
	return resp.GetPolicy(), err
}

// SetPolicy replaces the replicated limits, all of them. The header may be left out.
func (c *Client) SetPolicy(ctx context.Context, req *weirv1.SetPolicyRequest) (*weirv1.ResponseHeader, error) {
	resp, err := c.cluster.SetPolicy(ctx, req)
	return resp.GetHeader(), err
}
