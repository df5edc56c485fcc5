package client

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
)

// CreateChangefeed starts a replication job. The header may be left out.
func (c *Client) CreateChangefeed(
	ctx context.Context, req *weirv1.CreateChangefeedRequest,
) (*weirv1.CreateChangefeedResponse, error) {
	return c.changefeeds.CreateChangefeed(ctx, req)
}

// Changefeeds lists every changefeed, oldest first.
func (c *Client) Changefeeds(ctx context.Context, read *weirv1.ReadOptions) ([]*weirv1.Changefeed, error) {
	var all []*weirv1.Changefeed
	for token, more := "", true; more; more = token != "" {
		page, err := c.changefeeds.ListChangefeeds(ctx, &weirv1.ListChangefeedsRequest{Read: read, PageToken: token})
		if err != nil {
			return nil, err
		}
		all, token = append(all, page.GetChangefeeds()...), page.GetNextPageToken()
	}
	return all, nil
}

// Changefeed returns one changefeed by name.
func (c *Client) Changefeed(ctx context.Context, name string, read *weirv1.ReadOptions) (*weirv1.Changefeed, error) {
	resp, err := c.changefeeds.GetChangefeed(ctx, &weirv1.GetChangefeedRequest{Read: read, Name: name})
	return resp.GetChangefeed(), err
}

// PauseChangefeed stops every dispatcher of a changefeed and keeps its state.
func (c *Client) PauseChangefeed(ctx context.Context, name string) (*weirv1.ResponseHeader, error) {
	resp, err := c.changefeeds.PauseChangefeed(ctx, &weirv1.PauseChangefeedRequest{Name: name})
	return resp.GetHeader(), err
}

// ResumeChangefeed lets the dispatchers of a paused changefeed be placed again.
func (c *Client) ResumeChangefeed(ctx context.Context, name string) (*weirv1.ResponseHeader, error) {
	resp, err := c.changefeeds.ResumeChangefeed(ctx, &weirv1.ResumeChangefeedRequest{Name: name})
	return resp.GetHeader(), err
}

// RemoveChangefeed drops everything of a changefeed.
func (c *Client) RemoveChangefeed(ctx context.Context, name string) (*weirv1.ResponseHeader, error) {
	resp, err := c.changefeeds.RemoveChangefeed(ctx, &weirv1.RemoveChangefeedRequest{Name: name})
	return resp.GetHeader(), err
}

// AddTables adds tables to a changefeed. The header may be left out.
func (c *Client) AddTables(ctx context.Context, req *weirv1.AddTablesRequest) (*weirv1.ResponseHeader, error) {
	resp, err := c.tables.AddTables(ctx, req)
	return resp.GetHeader(), err
}

// DropTables takes tables out of a changefeed. The header may be left out.
func (c *Client) DropTables(ctx context.Context, req *weirv1.DropTablesRequest) (*weirv1.ResponseHeader, error) {
	resp, err := c.tables.DropTables(ctx, req)
	return resp.GetHeader(), err
}

// Tables lists the tables of a changefeed, oldest first.
func (c *Client) Tables(ctx context.Context, changefeed string, read *weirv1.ReadOptions) ([]*weirv1.Table, error) {
	var all []*weirv1.Table
	for token, more := "", true; more; more = token != "" {
		page, err := c.tables.ListTables(ctx, &weirv1.ListTablesRequest{Read: read, Changefeed: changefeed, PageToken: token})
		if err != nil {
			return nil, err
		}
		all, token = append(all, page.GetTables()...), page.GetNextPageToken()
	}
	return all, nil
}

// UpdateChangefeed changes settings of a paused or failed changefeed. The header may be left out.
func (c *Client) UpdateChangefeed(
	ctx context.Context, req *weirv1.UpdateChangefeedRequest,
) (*weirv1.ResponseHeader, error) {
	resp, err := c.changefeeds.UpdateChangefeed(ctx, req)
	return resp.GetHeader(), err
}

// ResumeFrom is ResumeChangefeed with a position of the caller's. The header may be left out.
func (c *Client) ResumeFrom(
	ctx context.Context, req *weirv1.ResumeChangefeedRequest,
) (*weirv1.ResumeChangefeedResponse, error) {
	return c.changefeeds.ResumeChangefeed(ctx, req)
}
