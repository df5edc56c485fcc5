// Package weirv1 is the generated Go code of the protobuf package weir.v1: the public API of Weir. The contract is
// written in api/proto/weir/v1; nothing here is edited by hand.
package weirv1
