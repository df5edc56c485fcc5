package scenario

import (
	"bytes"
	"fmt"

	"github.com/weir-project/weir/fsm"
	"github.com/weir-project/weir/fsm/logcodec"
)

// roundTrip restores a state from its own snapshot.
func roundTrip(v *fsm.View) (*fsm.State, error) {
	var stream bytes.Buffer
	if err := logcodec.WriteSnapshot(&stream, v); err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	s, err := logcodec.ReadSnapshot(&stream)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot back: %w", err)
	}
	return s, nil
}
