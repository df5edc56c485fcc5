package logcodec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/internal/wire"
)

// SnapshotVersion is the format of snapshots that this version writes and reads. Until the first release the format
// changes in place.
const SnapshotVersion = 2

// maxRow bounds a row, so that a damaged length does not allocate without limit.
const maxRow = 16 << 20

const magic = "WEIRSNAP"

// ErrSnapshot says that a snapshot cannot be used: it is damaged, cut off, or of another version.
var ErrSnapshot = errors.New("snapshot cannot be used")

// Header describes a snapshot without reading it.
type Header struct {
	Cluster     string
	Index, Term uint64
	Level       uint32
	Dispatchers uint64
}

func (h *Header) code(c *wire.Coder) {
	wire.Str(c, &h.Cluster)
	c.Uint64(&h.Index)
	c.Uint64(&h.Term)
	wire.Uint32(c, &h.Level)
	c.Uint64(&h.Dispatchers)
}

// WriteSnapshot writes the view. It only reads it, and may run while the state goes on.
func WriteSnapshot(w io.Writer, v *fsm.View) error {
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	if err := writeHeader(out, v); err != nil {
		return err
	}
	rows := uint64(0)
	for section, row := range v.Rows() {
		rows++
		if err := writeRecord(out, section, row); err != nil {
			return fmt.Errorf("write snapshot row: %w", err)
		}
	}
	return writeTrailer(out, sum, rows, v.Hash())
}

func writeHeader(out *bufio.Writer, v *fsm.View) error {
	m := v.Meta()
	h := Header{Cluster: m.Cluster, Index: m.Index, Term: m.RaftTerm, Level: m.Level, Dispatchers: uint64(v.DispatcherCount())}
	c := wire.NewEncoder(nil)
	h.code(&c)
	buf := append([]byte(magic), SnapshotVersion)
	buf = binary.AppendUvarint(buf, uint64(len(c.Bytes())))
	if _, err := out.Write(append(buf, c.Bytes()...)); err != nil {
		return fmt.Errorf("write snapshot header: %w", err)
	}
	return nil
}

func writeRecord(out *bufio.Writer, section fsm.Section, row []byte) error {
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = byte(section)
	n := 1 + binary.PutUvarint(head[1:], uint64(len(row)))
	if _, err := out.Write(head[:n]); err != nil {
		return err
	}
	_, err := out.Write(row)
	return err
}

func writeTrailer(out *bufio.Writer, sum hash.Hash64, rows uint64, digest fsm.Digest) error {
	tail := binary.AppendUvarint([]byte{0}, rows)
	tail = binary.BigEndian.AppendUint64(tail, digest.A)
	tail = binary.BigEndian.AppendUint64(tail, digest.B)
	if _, err := out.Write(tail); err != nil {
		return fmt.Errorf("write snapshot trailer: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if _, err := out.Write(binary.BigEndian.AppendUint64(nil, sum.Sum64())); err != nil {
		return fmt.Errorf("write snapshot checksum: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ReadSnapshot reads a snapshot completely, verifies its checksum, its state hash and every invariant, and only then
// returns the state. Every error is an ErrSnapshot.
func ReadSnapshot(r io.Reader) (*fsm.State, error) {
	in := &summed{in: bufio.NewReaderSize(r, 1<<16), sum: crc64.New(crc64.MakeTable(crc64.ECMA))}
	s, err := readSnapshot(in)
	if err != nil && !errors.Is(err, ErrSnapshot) {
		err = fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return s, err
}

func readSnapshot(in *summed) (*fsm.State, error) {
	header, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	if header.Level > fsm.HighestLevel {
		return nil, fmt.Errorf("%w: it has feature level %d, this version understands %d: run a newer version", ErrSnapshot, header.Level, fsm.HighestLevel)
	}
	b := fsm.NewBuilder()
	rows := uint64(0)
	for {
		section, row, err := readRecord(in)
		if err != nil {
			return nil, fmt.Errorf("after %d rows: %w", rows, err)
		}
		if section == 0 {
			break
		}
		rows++
		if err := b.Add(section, row); err != nil {
			return nil, err
		}
	}
	digest, err := readTrailer(in, rows)
	if err != nil {
		return nil, err
	}
	s, err := b.Finish()
	if err != nil {
		return nil, err
	}
	if s.Hash() != digest || s.Meta().Index != header.Index {
		return nil, fmt.Errorf("%w: its rows have state hash %s, its trailer says %s", ErrSnapshot, s.Hash(), digest)
	}
	return s, nil
}

func readHeader(in *summed) (Header, error) {
	var h Header
	var head [len(magic) + 1]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || string(head[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: it does not begin as a Weir snapshot does", ErrSnapshot)
	}
	if v := head[len(magic)]; v != SnapshotVersion {
		return h, fmt.Errorf("%w: it %s", ErrSnapshot, versionRefused(v, SnapshotVersion))
	}
	raw, err := readBlob(in)
	if err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	c := wire.NewDecoder(raw)
	h.code(&c)
	if err := c.Finish(); err != nil {
		return h, fmt.Errorf("header: %w", err)
	}
	return h, nil
}

// ReadHeader reads only what a snapshot says of itself.
func ReadHeader(r io.Reader) (Header, error) {
	return readHeader(&summed{in: bufio.NewReader(r), sum: crc64.New(crc64.MakeTable(crc64.ECMA))})
}

func readRecord(in *summed) (fsm.Section, []byte, error) {
	section, err := in.ReadByte()
	if err != nil || section == 0 {
		return 0, nil, unexpected(err)
	}
	row, err := readBlob(in)
	return fsm.Section(section), row, err
}

func readBlob(in *summed) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, unexpected(err)
	}
	if n > maxRow {
		return nil, fmt.Errorf("%w: a length of %d bytes", ErrSnapshot, n)
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 1<<12)))
	if _, err := io.CopyN(buf, in, int64(n)); err != nil {
		return nil, unexpected(err)
	}
	return buf.Bytes(), nil
}

func readTrailer(in *summed, rows uint64) (fsm.Digest, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return fsm.Digest{}, unexpected(err)
	}
	if n != rows {
		return fsm.Digest{}, fmt.Errorf("%w: it holds %d rows, its trailer says %d", ErrSnapshot, rows, n)
	}
	var raw [16]byte
	if _, err := io.ReadFull(in, raw[:]); err != nil {
		return fsm.Digest{}, unexpected(err)
	}
	digest := fsm.Digest{A: binary.BigEndian.Uint64(raw[:8]), B: binary.BigEndian.Uint64(raw[8:])}
	want := in.sum.Sum64()
	if _, err := io.ReadFull(in, raw[:8]); err != nil {
		return fsm.Digest{}, unexpected(err)
	}
	if got := binary.BigEndian.Uint64(raw[:8]); got != want {
		return fsm.Digest{}, fmt.Errorf("%w: checksum is %016x, should be %016x", ErrSnapshot, got, want)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return fsm.Digest{}, fmt.Errorf("%w: bytes follow its end", ErrSnapshot)
	}
	return digest, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// summed reads and sums.
type summed struct {
	in  *bufio.Reader
	sum hash.Hash64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	_, _ = s.sum.Write(p[:n]) // a hash never fails
	return n, err
}

func (s *summed) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err == nil {
		_, _ = s.sum.Write([]byte{b}) // a hash never fails
	}
	return b, err
}
