package dev

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// The block below the ports that systems hand out to callers: a port from here that is free now is still free when a
// server that was killed comes back.
const (
	lowestPort  = 10_000
	highestPort = 32_000
)

// choosePorts finds free ports on loopback: the block from first on, else any.
func choosePorts(ctx context.Context, first, servers int) (grpc, raft []int, err error) {
	if first != 0 {
		for i := range servers {
			grpc, raft = append(grpc, first+i), append(raft, first+raftOffset+i)
		}
		if allFree(ctx, append(append([]int{}, grpc...), raft...)) {
			return grpc, raft, nil
		}
	}
	const most = 200
	for range most {
		at := lowestPort + rand.IntN(highestPort-lowestPort)
		grpc, raft = nil, nil
		for i := range servers {
			grpc, raft = append(grpc, at+i), append(raft, at+raftOffset+i)
		}
		if allFree(ctx, append(append([]int{}, grpc...), raft...)) {
			return grpc, raft, nil
		}
	}
	return nil, nil, errors.New("no free ports were found on 127.0.0.1; end what takes them")
}

func allFree(ctx context.Context, ports []int) bool {
	for _, p := range ports {
		if free(ctx, p) != nil {
			return false
		}
	}
	return true
}

func free(ctx context.Context, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address(port))
	if err != nil {
		return fmt.Errorf("port %d is taken: %w", port, err)
	}
	return l.Close()
}
