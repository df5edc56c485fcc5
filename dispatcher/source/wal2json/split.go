package wal2json

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

const (
	// sampleKeys bounds the keys held while a table is split.
	sampleKeys = 32 << 10
	// MaxSplit is the most spans that SplitKeys cuts a table into; far below the sample, so that quantiles mean something.
	MaxSplit = 1024
)

// SplitKeys returns k-1 keys, in order, which cut a table into k spans with about the same number of distinct keys of
// the log. The same log gives the same keys. It holds a bounded sample: the keys with the lowest hashes. It refuses,
// with the number there are, when the log has fewer than k distinct keys.
func SplitKeys(ctx context.Context, uri string, table dispatcher.TableName, k int) ([]string, error) {
	if k < 1 || k > MaxSplit {
		return nil, &dispatcher.StopError{Reason: ReasonTooFewKeys, Text: fmt.Sprintf("cannot split %s into %d spans; choose 1 to %d", table, k, MaxSplit)}
	}
	s := newSample(sampleKeys)
	rows := 0
	err := eachLine(ctx, uri, func(g *log, l *line) error {
		if !l.isOf(table) || l.Action == "T" {
			return nil
		}
		decoded, p := decodeRow(l)
		if p != nil {
			return g.stop(*p)
		}
		rows++
		if l.Action != "I" {
			s.add(decoded.old.bytes)
		}
		if l.Action != "D" {
			s.add(decoded.now.bytes)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case rows == 0:
		return nil, &dispatcher.StopError{Reason: ReasonUnknownTable, Text: fmt.Sprintf("the log %s has no row of table %s; look at its tables and spell the name as SCHEMA.NAME", uri, table)}
	case len(s.held) < k:
		return nil, &dispatcher.StopError{Reason: ReasonTooFewKeys, Text: fmt.Sprintf("table %s has %d distinct keys in the log, too few for %d spans; split it less", table, len(s.held), k)}
	}
	return s.quantiles(k), nil
}

// sample keeps the most keys with the lowest hashes: a uniform sample of the distinct keys, which depends on nothing but
// them.
type sample struct {
	most int
	held map[string]struct{}
	top  hashHeap // the same keys, highest hash first
}

type hashedKey struct {
	hash uint64
	key  string
}

func newSample(most int) *sample { return &sample{most: most, held: make(map[string]struct{})} }

func (s *sample) add(key string) {
	if _, ok := s.held[key]; ok {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // a hash never fails
	item := hashedKey{mix(h.Sum64()), key}
	if len(s.top) == s.most {
		if item.hash >= s.top[0].hash {
			return
		}
		delete(s.held, s.top[0].key)
		heap.Pop(&s.top)
	}
	s.held[key] = struct{}{}
	heap.Push(&s.top, item)
}

// mix spreads FNV's weak high bits, so that "lowest hashes" does not mean "similar keys".
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// quantiles are k-1 distinct keys at equal distances; there are at least k keys.
func (s *sample) quantiles(k int) []string {
	keys := make([]string, 0, len(s.held))
	for _, item := range s.top {
		keys = append(keys, item.key)
	}
	slices.Sort(keys)
	cuts := make([]string, 0, k-1)
	for i := 1; i < k; i++ {
		cuts = append(cuts, keys[i*len(keys)/k])
	}
	return cuts
}

// Spans are the spans between the cuts of a table, in order.
func Spans(cuts []string) []fsm.Span {
	spans := make([]fsm.Span, 0, len(cuts)+1)
	start := ""
	for _, cut := range cuts {
		spans = append(spans, fsm.Span{Start: start, End: cut})
		start = cut
	}
	return append(spans, fsm.Span{Start: start})
}

type hashHeap []hashedKey

func (h hashHeap) Len() int           { return len(h) }
func (h hashHeap) Less(i, j int) bool { return h[i].hash > h[j].hash }
func (h hashHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds x, a hashedKey.
func (h *hashHeap) Push(x any) {
	item, ok := x.(hashedKey)
	if ok {
		*h = append(*h, item)
	}
}

// Pop removes the last item.
func (h *hashHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
