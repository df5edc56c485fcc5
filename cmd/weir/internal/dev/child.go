package dev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// role says what a child is.
type role uint8

const (
	roleServer role = iota + 1
	roleAgent
)

// String is the command that runs the role.
func (r role) String() string {
	switch r {
	case roleServer:
		return "server"
	case roleAgent:
		return "agent"
	default:
		return "unset"
	}
}

// child is a process that can be started again under the same name.
type child struct {
	role      role
	name      string
	args      []string
	log       string
	addresses string // what it binds, for display

	mu sync.Mutex // guards what follows
	// cmd is the newest process; done is closed when it has been waited for.
	cmd  *exec.Cmd
	done chan struct{}
	// pipe is the end of its standard input that this process holds; the child stops when it closes.
	pipe *os.File
	// expected: it is being ended by this process, so its end is no news.
	expected bool
}

// start starts a process for the child; the one before must have ended.
func (c *child) start(s *spawner, program string) error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s %s: %w", c.role, c.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start %s %s: %w", c.role, c.name, err)
	}
	defer func() { _ = read.Close() }()                                  // the child has its own descriptor
	cmd := exec.CommandContext(context.Background(), program, c.args...) // children are ended in order, never by a context
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, log, log
	cmd.SysProcAttr = withParent()
	if err := s.start(cmd); err != nil {
		_ = write.Close() // nobody reads it
		return fmt.Errorf("start %s %s: %w", c.role, c.name, err)
	}
	done := make(chan struct{})
	c.mu.Lock()
	c.cmd, c.done, c.pipe, c.expected = cmd, done, write, false
	c.mu.Unlock()
	go func() {
		_ = cmd.Wait() // the state tells
		_ = write.Close()
		close(done)
	}()
	return nil
}

// pid is the newest process's.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// ended is closed when the newest process has ended.
func (c *child) ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// running says whether the newest process has not ended.
func (c *child) running() bool {
	done := c.ended()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// how says how the newest process ended.
func (c *child) how() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd.ProcessState.String()
}

// wanted says whether this process brought the end about.
func (c *child) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expected
}

// kill ends the process at once, like kill -9, and says whether it was running and that is what ended it.
func (c *child) kill() bool {
	if !c.running() {
		return false
	}
	c.mu.Lock()
	c.expected = true
	cmd, done := c.cmd, c.done
	c.mu.Unlock()
	_ = cmd.Process.Kill() // it fails only if the process has ended
	<-done
	return killed(cmd.ProcessState)
}

// stop asks the process to stop and kills it when the time is over; it says whether it stopped by itself.
func (c *child) stop(limit time.Duration) bool {
	if !c.running() {
		return true
	}
	c.mu.Lock()
	c.expected = true
	cmd, done := c.cmd, c.done
	c.mu.Unlock()
	if cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = c.pipe.Close() // a system without signals: the end of the pipe says the same
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		_ = cmd.Process.Kill()
		<-done
		return false
	}
}
