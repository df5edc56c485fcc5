package dev

import (
	"os"
	"syscall"
)

// withParent makes a child die with the thread that starts it, and keeps the terminal's Ctrl-C from it: the parent stops
// its children in order.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// killed says whether SIGKILL ended the process.
func killed(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
