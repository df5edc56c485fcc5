package plane

import (
	"context"

	"github.com/weir-project/weir/api/weirv1"
)

// AllNodes lists every node, page by page.
func AllNodes(ctx context.Context, p Nodes, read *weirv1.ReadOptions) (all []*weirv1.Node, err error) {
	err = Each(func(token string) (string, error) {
		r, err := p.ListNodes(ctx, &weirv1.ListNodesRequest{Read: read, PageToken: token})
		all = append(all, r.GetNodes()...)
		return r.GetNextPageToken(), err
	})
	return all, err
}

// AllChangefeeds lists every changefeed, page by page.
func AllChangefeeds(ctx context.Context, p Changefeeds, read *weirv1.ReadOptions) (all []*weirv1.Changefeed, err error) {
	err = Each(func(token string) (string, error) {
		r, err := p.ListChangefeeds(ctx, &weirv1.ListChangefeedsRequest{Read: read, PageToken: token})
		all = append(all, r.GetChangefeeds()...)
		return r.GetNextPageToken(), err
	})
	return all, err
}

// AllTables lists every table of a changefeed, page by page.
func AllTables(ctx context.Context, p Tables, read *weirv1.ReadOptions, changefeed string) (all []*weirv1.Table, err error) {
	err = Each(func(token string) (string, error) {
		r, err := p.ListTables(ctx, &weirv1.ListTablesRequest{Read: read, Changefeed: changefeed, PageToken: token})
		all = append(all, r.GetTables()...)
		return r.GetNextPageToken(), err
	})
	return all, err
}

// AllDispatchers lists every dispatcher that fits the filters of the request, page by page, at most limit of them; more
// says that there are others. Limit 0 is no limit.
func AllDispatchers(ctx context.Context, p Dispatchers, filters *weirv1.ListDispatchersRequest, limit int) (all []*weirv1.Dispatcher, more bool, err error) {
	token := ""
	for {
		filters.PageToken = token
		r, err := p.ListDispatchers(ctx, filters)
		if err != nil {
			return nil, false, err
		}
		all, token = append(all, r.GetDispatchers()...), r.GetNextPageToken()
		if limit > 0 && len(all) > limit {
			return all[:limit], true, nil
		}
		if token == "" {
			return all, false, nil
		}
	}
}

// AllOperators lists every operator that fits the filters of the request, page by page, at most limit of them; more says
// that there are others. Limit 0 is no limit.
func AllOperators(ctx context.Context, p Operators, filters *weirv1.ListOperatorsRequest, limit int) (all []*weirv1.Operator, more bool, err error) {
	token := ""
	for {
		filters.PageToken = token
		r, err := p.ListOperators(ctx, filters)
		if err != nil {
			return nil, false, err
		}
		all, token = append(all, r.GetOperators()...), r.GetNextPageToken()
		if limit > 0 && len(all) > limit {
			return all[:limit], true, nil
		}
		if token == "" {
			return all, false, nil
		}
	}
}
