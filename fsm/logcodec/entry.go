package logcodec

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/internal/wire"
)

// EntryVersion is the format of entries that this version writes and reads. Until the first release the format changes
// in place.
const EntryVersion = 2

// preRelease is the newest format that was never released: what it wrote cannot be read.
const preRelease = 1

// versionRefused says why a format version is not read.
func versionRefused(got, reads uint8) string {
	if got <= preRelease {
		return fmt.Sprintf("is of a build from before the first release (format version %d), which no later one reads: "+
			"start with an empty data folder", got)
	}
	return fmt.Sprintf("has format version %d, this version reads %d: run a newer version", got, reads)
}

// MaxProposals bounds a batch; a count beyond it was not written by any version.
const MaxProposals = 4096

// ErrEntry says that an entry's bytes cannot be understood; the server must stop before it applies anything of it.
var ErrEntry = errors.New("log entry cannot be understood")

// UnknownCommandError names a command of a later version.
type UnknownCommandError struct {
	Kind     fsm.CommandKind
	Index    uint64 // of the entry
	Position int    // within the entry, from 0
}

// Error says what to do.
func (e *UnknownCommandError) Error() string {
	return fmt.Sprintf("log entry %d holds a command of kind %d (command %d of the entry) that this version does not know: "+
		"run a version that understands it; nothing of the entry was applied", e.Index, e.Kind, e.Position+1)
}

// Unwrap makes it an ErrEntry.
func (e *UnknownCommandError) Unwrap() error { return ErrEntry }

// AppendEntry appends the bytes of an entry to dst.
func AppendEntry(dst []byte, proposals []fsm.Proposal) ([]byte, error) {
	if len(proposals) == 0 || len(proposals) > MaxProposals {
		return dst, fmt.Errorf("encode entry: %d proposals, want 1 to %d", len(proposals), MaxProposals)
	}
	c := wire.NewEncoder(nil)
	version, count := uint8(EntryVersion), uint64(len(proposals))
	wire.Uint8(&c, &version)
	c.Uint64(&count)
	body := wire.NewEncoder(nil)
	for i := range proposals {
		p := proposals[i]
		if p.Command == nil {
			return dst, fmt.Errorf("encode entry: proposal %d has no command", i)
		}
		body.Reset()
		codeProposal(&body, &p)
		p.Command.Code(&body)
		kind, raw := p.Command.Kind(), body.Bytes()
		wire.Uint8(&c, &kind)
		c.Blob(&raw)
	}
	return append(dst, c.Bytes()...), nil
}

// Size is the number of bytes that a proposal takes in an entry.
func Size(p fsm.Proposal) int {
	body := wire.NewEncoder(nil)
	codeProposal(&body, &p)
	p.Command.Code(&body)
	return len(body.Bytes()) + 6
}

func codeProposal(c *wire.Coder, p *fsm.Proposal) {
	c.Uint64(&p.Term)
	wire.Uint32(c, &p.Level)
	wire.Str(c, &p.Request)
	c.Uint64(&p.RequestTimeMS)
	wire.Int(c, &p.WallMS)
	wire.Str(c, &p.By)
}

// DecodeEntry reads a whole entry. Every error is an ErrEntry.
func DecodeEntry(index, term uint64, data []byte) (fsm.Entry, error) {
	e := fsm.Entry{Index: index, Term: term}
	c := wire.NewDecoder(data)
	var version uint8
	var count uint64
	wire.Uint8(&c, &version)
	c.Uint64(&count)
	if c.Err() == nil && version != EntryVersion {
		return e, fmt.Errorf("%w: entry %d %s", ErrEntry, index, versionRefused(version, EntryVersion))
	}
	if c.Err() == nil && (count == 0 || count > MaxProposals) {
		return e, fmt.Errorf("%w: entry %d holds %d commands", ErrEntry, index, count)
	}
	for i := range int(count) {
		p, err := decodeProposal(&c, index, i)
		if err != nil {
			return e, err
		}
		e.Proposals = append(e.Proposals, p)
	}
	if err := c.Finish(); err != nil {
		return e, fmt.Errorf("%w: entry %d: %w", ErrEntry, index, err)
	}
	return e, nil
}

func decodeProposal(c *wire.Coder, index uint64, i int) (fsm.Proposal, error) {
	var p fsm.Proposal
	var kind fsm.CommandKind
	var raw []byte
	wire.Uint8(c, &kind)
	c.Blob(&raw)
	if err := c.Err(); err != nil {
		return p, fmt.Errorf("%w: entry %d, command %d: %w", ErrEntry, index, i+1, err)
	}
	cmd, ok := fsm.NewCommand(kind)
	if !ok {
		return p, &UnknownCommandError{Kind: kind, Index: index, Position: i}
	}
	body := wire.NewDecoder(raw)
	codeProposal(&body, &p)
	cmd.Code(&body)
	if err := body.Finish(); err != nil {
		return p, fmt.Errorf("%w: entry %d, command %d (%s): %w", ErrEntry, index, i+1, kind, err)
	}
	p.Command = cmd
	return p, nil
}
