package fsm

import (
	"fmt"
	"strconv"
	"strings"
)

// Tokens are numbers that are never issued twice, also not after a backup was restored: the high bits hold the
// generation (minutes of wall clock, raised by every restore), the low ones a sequence. All stay below 2^63, since SQL
// integers are signed. A sequence that overflows carries into the generation; that is harmless, because generations
// move one a minute and a sequence of 36 bits lasts longer.
//
//	63 62           36 35                 0
//	 0 | generation 27 |    sequence 36    |
const (
	// SequenceBits is the width of the sequence part of every token.
	SequenceBits = 36
	// GenerationBits is the width of the generation part; 2^27 minutes end in the year 2225.
	GenerationBits = 27
	// MaxGeneration is the largest generation that a token can carry.
	MaxGeneration Generation = 1<<GenerationBits - 1

	sequenceMask = 1<<SequenceBits - 1
)

// Generation counts lives of the cluster: bootstrap, restore and recovery each start a higher one.
type Generation uint64

// Epoch numbers a placement. Epochs come from one cluster-wide sequence, strictly increase per dispatcher and are never
// reused; an epoch is the first half of the fencing token at sinks. Zero means none.
type Epoch uint64

// OpID numbers an operator; from the same sequence as epochs. Zero means none.
type OpID uint64

// Incarnation numbers one life of a node, from a dense sequence of its own (so that ticks can name incarnations in a
// bitmap), never reused. Zero means none.
type Incarnation uint64

// DispatcherID numbers a dispatcher; kept on Move, new for each span that is created. Zero means none.
type DispatcherID uint64

// ChangefeedID numbers a changefeed; a name that is used again gets a new number. Zero means none.
type ChangefeedID uint64

// TableID numbers a table of a changefeed. The state machine issues it, and it stays when the table is renamed.
type TableID int64

// NodeName is the lasting name of a worker; its lives are incarnations.
type NodeName string

// ServerID is the lasting identity of a control-plane server.
type ServerID string

// RequestID names one request of one client for all its retries; at most [MaxRequestID] bytes. Empty means that the
// command is not remembered.
type RequestID string

// MaxRequestID is the longest request id, in bytes.
const MaxRequestID = 64

func token(g Generation, sequence uint64) uint64 { return uint64(g)<<SequenceBits + sequence }

func tokenString(v uint64) string {
	return strconv.FormatUint(v>>SequenceBits, 10) + "." + strconv.FormatUint(v&sequenceMask, 10)
}

// ParseToken reads an epoch, op id or incarnation as it is printed: GENERATION.SEQUENCE, or one plain number.
func ParseToken(s string) (uint64, error) {
	g, q, dotted := strings.Cut(s, ".")
	if !dotted {
		v, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return 0, fmt.Errorf("parse token %q: want GENERATION.SEQUENCE or a number below 2^63", s)
		}
		return v, nil
	}
	gen, gerr := strconv.ParseUint(g, 10, GenerationBits)
	seq, serr := strconv.ParseUint(q, 10, SequenceBits)
	if gerr != nil || serr != nil {
		return 0, fmt.Errorf("parse token %q: want GENERATION.SEQUENCE", s)
	}
	return token(Generation(gen), seq), nil
}

// String prints generation.sequence.
func (e Epoch) String() string { return tokenString(uint64(e)) }

// Generation is the generation in which e was issued.
func (e Epoch) Generation() Generation { return Generation(e >> SequenceBits) }

// String prints generation.sequence.
func (o OpID) String() string { return tokenString(uint64(o)) }

// String prints generation.sequence.
func (i Incarnation) String() string { return tokenString(uint64(i)) }

// Generation is the generation in which i was issued.
func (i Incarnation) Generation() Generation { return Generation(i >> SequenceBits) }
