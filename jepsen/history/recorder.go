package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Recorder collects operations while they happen. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	next     int
	open     map[int]*Operation
	done     []*Operation
	returned map[int]int64
	file     *os.File
	encoder  *json.Encoder
	err      error
}

// NewRecorder writes each finished operation to a file as it ends.
func NewRecorder(path string) (*Recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return &Recorder{open: map[int]*Operation{}, returned: map[int]int64{}, file: file, encoder: json.NewEncoder(file)}, nil
}

// Begin notes the call of an operation, of which Client, Spec, Request and the like are set.
func (r *Recorder) Begin(op Operation) *Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.ID = r.next
	r.next++
	op.Call = Now()
	r.open[op.ID] = &op
	return &op
}

// Try notes that a server is asked next.
func (r *Recorder) Try(op *Operation, server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Tries = append(op.Tries, server)
}

// Linger notes that a try ended without a verdict.
func (r *Recorder) Linger(op *Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.MayLinger = true
}

// End notes the return of an operation.
func (r *Recorder) End(op *Operation, answer Answer) {
	at := Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Return, op.Answer = at, answer
	delete(r.open, op.ID)
	r.returned[op.ID] = at
	r.done = append(r.done, op)
	if err := r.encoder.Encode(op); err != nil && r.err == nil {
		r.err = fmt.Errorf("write history: %w", err)
	}
}

// InFlight copies the operations that are open right now.
func (r *Recorder) InFlight() []Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Operation, 0, len(r.open))
	for _, op := range r.open {
		list = append(list, *op)
	}
	return list
}

// Close returns every operation. Those still open become unknown.
func (r *Recorder) Close() ([]*Operation, error) {
	r.mu.Lock()
	open := make([]*Operation, 0, len(r.open))
	for _, op := range r.open {
		open = append(open, op)
	}
	r.mu.Unlock()
	for _, op := range open {
		r.End(op, Answer{Outcome: Unknown, Reason: "STILL_OPEN"})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.file.Close(); r.err == nil && err != nil {
		r.err = fmt.Errorf("close history: %w", err)
	}
	return r.done, r.err
}

// Read returns the operations of a file.
func Read(path string) (list []*Operation, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	for {
		op := &Operation{}
		switch err := decoder.Decode(op); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("read history %s, operation %d: %w", path, len(list), err)
		}
		list = append(list, op)
	}
}

// Returned is when an operation returned, 0 if it is still open.
func (r *Recorder) Returned(id int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.returned[id]
}

// Count is how many operations have begun.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}
