package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// tail reads the end of a file, from the beginning of a line.
func tail(path string, most int64) (raw []byte, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at ledger: %w", err)
	}
	from := max(0, info.Size()-most)
	raw, err = io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	if cut := bytes.IndexByte(raw, '\n'); from > 0 {
		raw = raw[cut+1:]
	}
	return raw, nil
}

// LastIsAttempt says whether the newest line of an agent's ledger is a call that has begun and not ended.
func LastIsAttempt(path string) (bool, error) {
	raw, err := tail(path, 4<<10)
	if err != nil {
		return false, err
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	return bytes.HasPrefix(raw[bytes.LastIndexByte(raw, '\n')+1:], []byte(`{"event":"attempt"`)), nil
}

// CutOff counts the calls since an instant that an agent's ledger shows as begun and not ended.
func CutOff(path string, since int64) (int, error) {
	raw, err := tail(path, 1<<20)
	if err != nil {
		return 0, err
	}
	n := 0
	seen := map[string]bool{}
	lines := bytes.Split(raw, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var l Line
		if len(line) == 0 || unmarshal(line, &l) != nil || l.At < since {
			continue
		}
		key := fmt.Sprint(l.Incarnation, l.Dispatcher, l.Epoch, l.Claim, l.Call, l.Begun)
		switch {
		case l.Event == "outcome":
			seen[key] = true
		case l.Event == "attempt" && !seen[key]:
			n++
		}
	}
	return n, nil
}
