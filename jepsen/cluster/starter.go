package cluster

import (
	"os/exec"
	"runtime"
	"syscall"
)

// starter is the one thread that starts children: they get SIGKILL when it ends.
type starter struct {
	requests chan startRequest
}

type startRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	// A group of its own keeps a Ctrl-C at the terminal from reaching the child before the harness has decided.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	r := startRequest{cmd: cmd, done: make(chan error, 1)}
	s.requests <- r
	return <-r.done
}

// close ends the thread, and with it every child that still lives.
func (s *starter) close() { close(s.requests) }
