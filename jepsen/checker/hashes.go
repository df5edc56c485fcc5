package checker

import (
	"cmp"
	"slices"
)

// Hash is a server's state hash right after a log entry. Life numbers the server's starts, from 1.
type Hash struct {
	Server string `json:"server"`
	Life   int    `json:"life"`
	Index  uint64 `json:"index"`
	A      uint64 `json:"a"`
	B      uint64 `json:"b"`
	At     int64  `json:"at"`
}

// Hashes checks that the state hash at an index is the same on every server and in every life.
func Hashes(samples []Hash) *Report {
	r := &Report{Check: "equal log, equal state"}
	sorted := slices.Clone(samples)
	slices.SortStableFunc(sorted, func(a, b Hash) int { return cmp.Compare(a.Index, b.Index) })
	var common, across int64
	for i := 0; i < len(sorted); {
		end := i
		servers, lives := map[string]bool{}, map[string]int{}
		restarted := false
		for end < len(sorted) && sorted[end].Index == sorted[i].Index {
			h := sorted[end]
			if life, seen := lives[h.Server]; seen && life != h.Life {
				restarted = true
			}
			servers[h.Server], lives[h.Server] = true, h.Life
			if h.A != sorted[i].A || h.B != sorted[i].B {
				r.violate("at entry %d, %s (life %d) has state hash %016x%016x and %s (life %d) has %016x%016x",
					h.Index, sorted[i].Server, sorted[i].Life, sorted[i].A, sorted[i].B, h.Server, h.Life, h.A, h.B)
			}
			end++
		}
		r.Looked += end - i - 1
		if len(servers) > 2 {
			common++
		}
		if restarted {
			across++
		}
		i = end
	}
	r.figure("indexes compared on three servers", common)
	r.figure("indexes compared across a restart", across)
	return r
}
