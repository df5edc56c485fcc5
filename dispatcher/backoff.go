package dispatcher

import (
	"hash/fnv"
	"strconv"
	"time"
)

// backoff is how long to wait before attempt n (from 1) is repeated: doubling, bounded, and spread over the upper half by
// who asks, so that many nodes or dispatchers that lost the same thing do not come back at one instant. It is a function
// of its arguments: a trace can be repeated.
func backoff(who string, n int, least, most time.Duration) time.Duration {
	d := most
	if shift := max(n-1, 0); shift < 20 {
		d = min(least<<shift, most)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(who + "/" + strconv.Itoa(n)))
	half := d / 2
	return d - half + time.Duration(h.Sum64()%uint64(half+1))
}
