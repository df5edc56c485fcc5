package server

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
)

const (
	defaultPage = 500
	maxPage     = 5000
)

func pageSize(asked uint32) int {
	if asked == 0 {
		return defaultPage
	}
	return int(min(asked, maxPage))
}

// A page token names the list with its filters and the last key that was looked at. It holds no state of the server: the
// next page may come from another one.
//
//	| 8 bytes: hash of the filters | key |
type pageToken struct {
	filters uint64
	after   string
}

func filtersOf(words ...string) uint64 {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = h.Write([]byte(w)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

func (t pageToken) String() string {
	b := binary.BigEndian.AppendUint64(nil, t.filters)
	return base64.RawURLEncoding.EncodeToString(append(b, t.after...))
}

// parsePage returns the key after which the page begins; first is true for the first page.
func parsePage(token string, filters uint64) (after string, first bool, err error) {
	if token == "" {
		return "", true, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 8 {
		return "", false, malformed("page_token", "is not one that a list has given")
	}
	if binary.BigEndian.Uint64(b) != filters {
		return "", false, malformed("page_token", "belongs to a list with other filters")
	}
	return string(b[8:]), false, nil
}

// parseNumberPage is parsePage for lists whose key is a number; 0 begins at the start.
func parseNumberPage(token string, filters uint64) (uint64, error) {
	after, first, err := parsePage(token, filters)
	if err != nil || first {
		return 0, err
	}
	if len(after) != 8 {
		return 0, malformed("page_token", "is not one that a list has given")
	}
	return binary.BigEndian.Uint64([]byte(after)), nil
}

func numberPage(filters, after uint64) string {
	return pageToken{filters: filters, after: string(binary.BigEndian.AppendUint64(nil, after))}.String()
}
