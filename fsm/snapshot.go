package fsm

import (
	"errors"
	"fmt"
	"iter"

	"github.com/weir-project/weir/fsm/internal/wire"
)

// Rows yields every row of the state as (section, bytes), sections in order and rows in key order. The bytes are valid
// until the next one; equal states yield equal rows.
func (v *View) Rows() iter.Seq2[Section, []byte] {
	return func(yield func(Section, []byte) bool) {
		var c wire.Coder
		v.meta.code(&c)
		_ = yield(SectionMeta, c.Bytes()) &&
			emit(&v.servers, yield) && emit(&v.nodes, yield) && emit(&v.changefeeds, yield) && emit(&v.tables, yield) &&
			emitDispatchers(v, yield) && emit(&v.operators, yield) && emit(&v.finished, yield) &&
			emit(&v.requests, yield) && emit(&v.history, yield) &&
			emit(&v.barriers, yield) && emit(&v.records, yield)
	}
}

func emit[K, R any](t *rowset[K, R], yield func(Section, []byte) bool) bool {
	var c wire.Coder
	for row := range t.all() {
		c.Reset()
		t.code(&row, &c)
		if !yield(t.section, c.Bytes()) {
			return false
		}
	}
	return true
}

func emitDispatchers(v *View, yield func(Section, []byte) bool) bool {
	var c wire.Coder
	for row := range v.Dispatchers() {
		c.Reset()
		row.code(&c)
		if !yield(SectionDispatchers, c.Bytes()) {
			return false
		}
	}
	return true
}

// Builder puts a state together from rows.
type Builder struct {
	s       *State
	last    Section
	gotMeta bool
}

// ErrRows says that rows do not make a state.
var ErrRows = errors.New("rows do not make a state")

// NewBuilder starts with no rows.
func NewBuilder() *Builder { return &Builder{s: &State{data: newData()}} }

// Add reads one row. Rows come in the order in which Rows yields them.
func (b *Builder) Add(section Section, row []byte) error {
	if section < b.last || (section == SectionMeta && b.gotMeta) {
		return fmt.Errorf("%w: section %s after %s", ErrRows, section, b.last)
	}
	b.last = section
	c := wire.NewDecoder(row)
	if err := b.add(section, &c); err != nil {
		return fmt.Errorf("row of section %s: %w", section, err)
	}
	return nil
}

func (b *Builder) add(section Section, c *wire.Coder) error {
	s := b.s
	switch section {
	case SectionMeta:
		b.gotMeta = true
		s.meta.code(c)
		return c.Finish()
	case SectionServers:
		return read(s, &s.servers, c, nil)
	case SectionNodes:
		return read(s, &s.nodes, c, s.indexNode)
	case SectionChangefeeds:
		return read(s, &s.changefeeds, c, func(f Changefeed) { s.feeds.set(f.Name, f.ID) })
	case SectionTables:
		return read(s, &s.tables, c, s.indexTable)
	case SectionDispatchers:
		return b.addDispatcher(c)
	case SectionOperators:
		return read(s, &s.operators, c, s.indexRunning)
	case SectionFinished:
		return read(s, &s.finished, c, func(op Operator) { s.ended.add(op.Ended, uint64(op.ID)) })
	case SectionRequests:
		return read(s, &s.requests, c, func(r Request) { s.answers.set(r.Seq, r.ID) })
	case SectionHistory:
		return read(s, &s.history, c, func(r PlacementRecord) { s.past.set(r.Seq, recordKey{r.Dispatcher, r.Epoch}) })
	case SectionBarriers:
		return read(s, &s.barriers, c, func(b Barrier) { s.tallies.set(s.recount(b)) })
	case SectionBarrierRecords:
		return read(s, &s.records, c, func(b Barrier) { s.over.set(b.Seq, b.Key) })
	default:
		return fmt.Errorf("%w: unknown section %d", ErrRows, section)
	}
}

func read[K, R any](s *State, t *rowset[K, R], c *wire.Coder, index func(R)) error {
	var row R
	t.code(&row, c)
	if err := c.Finish(); err != nil {
		return err
	}
	if _, twice := t.put(&s.hash, row); twice {
		return fmt.Errorf("%w: a key stands twice", ErrRows)
	}
	if index != nil {
		index(row)
	}
	return nil
}

func (b *Builder) addDispatcher(c *wire.Coder) error {
	var row Dispatcher
	row.code(c)
	if err := c.Finish(); err != nil {
		return err
	}
	if _, twice := b.s.dispatchers.get(row.ID); twice {
		return fmt.Errorf("%w: dispatcher %d stands twice", ErrRows, row.ID)
	}
	// Neighbours come one after the other: one string for the bound that they have in common.
	if last, ok := b.s.dispatchers.get(row.ID - 1); ok && last.Span.End == row.Span.Start {
		row.Span.Start = last.Span.End
	}
	b.s.setDispatcher(row)
	return nil
}

// indexRunning restores what follows from a running operator: where it goes, and the range that a removal holds.
func (s *State) indexRunning(op Operator) {
	s.indexOperator(op)
	if row, ok := s.Dispatcher(op.Dispatcher); ok && op.Kind == OpRemove {
		s.removals.add(s.heldRange(row))
	}
}

// Finish checks that the rows make a whole state and returns it.
func (b *Builder) Finish() (*State, error) {
	if !b.gotMeta {
		return nil, fmt.Errorf("%w: the meta row is missing", ErrRows)
	}
	b.s.sealMeta()
	if err := b.s.CheckInvariants(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRows, err)
	}
	return b.s, nil
}
