package dev

import (
	"context"
	"iter"

	"github.com/weir-project/weir/api/weirv1"
)

// plane is what is asked of the control plane.
type plane interface {
	Status(ctx context.Context, probe bool, read *weirv1.ReadOptions) (*weirv1.GetStatusResponse, error)
	Nodes(ctx context.Context, read *weirv1.ReadOptions) ([]*weirv1.Node, error)
}

// workPlane is what a demo asks of it beyond that.
type workPlane interface {
	plane
	CreateChangefeed(ctx context.Context, r *weirv1.CreateChangefeedRequest) (*weirv1.CreateChangefeedResponse, error)
	Dispatchers(ctx context.Context, filter *weirv1.ListDispatchersRequest) iter.Seq2[*weirv1.Dispatcher, error]
	Operators(ctx context.Context, filter *weirv1.ListOperatorsRequest) iter.Seq2[*weirv1.Operator, error]
	AdmitOperator(ctx context.Context, operator *weirv1.OperatorSpec) (*weirv1.Admission, error)
	WaitOperator(ctx context.Context, id uint64) (*weirv1.Operator, error)
	Barriers(ctx context.Context, filter *weirv1.ListBarriersRequest) iter.Seq2[*weirv1.Barrier, error]
	History(ctx context.Context, id uint64, read *weirv1.ReadOptions) (*weirv1.GetHistoryResponse, error)
}
