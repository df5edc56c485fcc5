package fsm

import "strconv"

// Span is the key range [Start, End) of a table, in order-preserving key bytes. An empty Start is the lowest key, an
// empty End has no upper bound.
type Span struct {
	Start, End string
}

// WholeTable is the span of every key.
func WholeTable() Span { return Span{} }

// Contains says whether key lies in s.
func (s Span) Contains(key string) bool {
	return s.Start <= key && (s.End == "" || key < s.End)
}

// Overlaps says whether a key exists that lies in both.
func (s Span) Overlaps(t Span) bool {
	return (s.End == "" || t.Start < s.End) && (t.End == "" || s.Start < t.End)
}

// Valid says whether s holds at least one possible key.
func (s Span) Valid() bool { return s.End == "" || s.Start < s.End }

// String prints the quoted bounds.
func (s Span) String() string {
	end := "+inf"
	if s.End != "" {
		end = strconv.Quote(s.End)
	}
	return "[" + strconv.Quote(s.Start) + "," + end + ")"
}

// Tile says whether spans, in order, cover want exactly, without a gap or an overlap.
func Tile(want Span, spans []Span) bool {
	if len(spans) == 0 || spans[0].Start != want.Start || spans[len(spans)-1].End != want.End {
		return false
	}
	for i, s := range spans {
		if !s.Valid() || (i > 0 && (spans[i-1].End == "" || spans[i-1].End != s.Start)) {
			return false
		}
	}
	return true
}
