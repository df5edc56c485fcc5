//go:build !linux

package dev

import (
	"os"
	"syscall"
)

// withParent adds nothing: on this system a child finds out that its parent is gone by the end of its standard input.
func withParent() *syscall.SysProcAttr { return nil }

// killed says whether the process ended otherwise than by itself.
func killed(s *os.ProcessState) bool { return !s.Exited() }
