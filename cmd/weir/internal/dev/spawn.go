package dev

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one thread that lives as long as it does. On Linux the kernel is told to kill a child
// when the thread that started it ends, and the Go runtime ends threads as it likes: without this, children would die for
// no reason.
type spawner struct {
	requests chan spawn
	stopped  chan struct{}
}

type spawn struct {
	cmd    *exec.Cmd
	result chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawn), stopped: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(s.stopped)
		for r := range s.requests {
			r.result <- r.cmd.Start()
		}
	}()
	return s
}

// start starts the command.
func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawn{cmd: cmd, result: make(chan error, 1)}
	s.requests <- r
	return <-r.result
}

// close ends the thread; children that still run die with it. No start may be under way.
func (s *spawner) close() {
	close(s.requests)
	<-s.stopped
}
