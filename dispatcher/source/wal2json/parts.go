package wal2json

import (
	"fmt"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/fsm"
)

// maxParts is how many parts a transaction may have. Positions of the log are multiples of 8 and a commit record takes
// at least 32 bytes, so that the 24 numbers below a transaction's ts belong to nobody else.
const maxParts = 24

// part is a piece of a transaction that ends with a schema change, or the rows behind the last one.
type part struct {
	changes []dispatcher.Change
	stop    error   // what was met in its rows
	ddl     *change // nil: only in the last part
}

// parts are a transaction cut behind each schema change. How it is cut depends on its lines alone, not on what a reader
// wants of them.
type parts []part

// current is the part to which a row belongs that comes now.
func (p *parts) current() *part {
	if n := len(*p); n == 0 || (*p)[n-1].ddl != nil {
		*p = append(*p, part{})
	}
	return &(*p)[len(*p)-1]
}

// add ends the current part with a schema change.
func (p *parts) add(c *change) {
	if n := len(*p); n > 0 && (*p)[n-1].ddl != nil && (*p)[n-1].ddl.absorb(c) {
		return
	}
	p.current().ddl = c
}

// ts is the number of part i of a transaction at last.
func (p parts) ts(i int, last uint64) uint64 { return last - uint64(len(p)-1-i) }

// check says what is wrong with a transaction that has to be numbered; before is the ts of the transaction before it, 0
// if that is not known.
func (p parts) check(last, before uint64) *problem {
	n := uint64(len(p))
	switch {
	case n <= 1:
		return nil
	case n > maxParts:
		return &problem{ReasonDDL, fmt.Sprintf("the transaction has %d schema changes; this release replicates at most %d in one transaction: spread them over several, and take a new log", n, maxParts)}
	case last < before+n:
		return &problem{ReasonMalformed, fmt.Sprintf("the transaction at %d has %d parts, but the one before it is at %d, which leaves too few positions; take a fresh log", last, n, before)}
	default:
		return nil
	}
}

// rowsAt is the position of the rows of a part, eventAt that of its schema change.
func rowsAt(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageRows} }

func eventAt(ts uint64) fsm.Position { return fsm.Position{TS: ts, Stage: fsm.StageDDL} }
