package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// StateFile is the file in the folder of weir dev that tells other commands where its servers are.
const StateFile = "weir-dev.json"

// State is what StateFile holds.
type State struct {
	// PID is the process that started everything.
	PID int `json:"pid"`
	// Servers are the addresses of the servers' API, Raft those for each other, in the order of their names.
	Servers []string `json:"servers"`
	Raft    []string `json:"raft"`
	// Processes are the children as they were last started.
	Processes []ProcessState `json:"processes"`
}

// ProcessState is one child.
type ProcessState struct {
	Name string `json:"name"`
	Role string `json:"role"`
	PID  int    `json:"pid"`
	Log  string `json:"log"`
}

// ReadState reads the state of the weir dev that uses, or last used, the folder.
func ReadState(dir string) (State, error) {
	raw, err := os.ReadFile(filepath.Join(dir, StateFile))
	if errors.Is(err, os.ErrNotExist) {
		return State{}, fmt.Errorf("it holds no %s", StateFile)
	}
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(raw, &s); err != nil || len(s.Servers) == 0 || len(s.Servers) != len(s.Raft) {
		return State{}, fmt.Errorf("its %s is damaged; remove it and start weir dev anew", StateFile)
	}
	return s, nil
}

// write replaces the file at once, so that a reader never sees half of it.
func (s *State) write(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", StateFile, err)
	}
	path := filepath.Join(dir, StateFile)
	if err := os.WriteFile(path+".new", append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", StateFile, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", StateFile, err)
	}
	return nil
}
