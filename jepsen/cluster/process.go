package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/weir-project/weir/jepsen/history"
)

// Role says what a process is.
type Role string

// The roles.
const (
	ServerRole Role = "server"
	AgentRole  Role = "agent"
)

// Life is one run of a process.
type Life struct {
	Process string `json:"process"`
	PID     int    `json:"pid"`
	Started int64  `json:"started"`
	// Signalled is just before the signal that ended it, 0 if none was sent; Gone is when it was known to be gone.
	Signalled int64 `json:"signalled,omitempty"`
	Gone      int64 `json:"gone,omitempty"`
	// Status is how it ended.
	Status string `json:"status,omitempty"`
}

// Process is a server or an agent through all its lives.
type Process struct {
	Name string
	Role Role
	// LogFile keeps the output of every life.
	LogFile string

	binary string
	args   []string
	dir    string
	starts *starter

	mu    sync.Mutex
	cmd   *exec.Cmd
	gone  chan struct{}
	lives []Life
}

// errRuns says that a process lives already.
var errRuns = errors.New("it runs already")

// Start begins a life.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("start %s: %w", p.Name, errRuns)
	}
	out, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the harness names its own files
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.Name, err)
	}
	defer out.Close()                                                     //nolint:errcheck // the child has its own descriptor, and nothing was written here but the line below
	cmd := exec.CommandContext(context.Background(), p.binary, p.args...) //nolint:gosec // starting the named program is the job
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	if _, err := fmt.Fprintf(out, "==== %s starts at %d: %v\n", p.Name, history.Now(), cmd.Args); err != nil {
		return fmt.Errorf("write log of %s: %w", p.Name, err)
	}
	// Nothing is ever written to the pipe: its end tells a child that the harness is gone, where the kernel does not.
	if _, err := cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	if err := p.starts.start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.gone = cmd, make(chan struct{})
	p.lives = append(p.lives, Life{Process: p.Name, PID: cmd.Process.Pid, Started: history.Now()})
	go p.reap(cmd, p.gone)
	return nil
}

func (p *Process) reap(cmd *exec.Cmd, gone chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	life := &p.lives[len(p.lives)-1]
	life.Gone, life.Status = history.Now(), "exit status 0"
	if err != nil {
		life.Status = err.Error()
	}
	p.cmd = nil
	close(gone)
}

// signal sends a signal to the present life, and returns what closes when it is gone.
func (p *Process) signal(s syscall.Signal) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil, fmt.Errorf("signal %s: it does not run", p.Name)
	}
	life := &p.lives[len(p.lives)-1]
	if life.Signalled == 0 {
		life.Signalled = history.Now()
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return p.gone, nil
}

// Kill sends SIGKILL and returns when the process is gone.
func (p *Process) Kill() (Life, error) {
	gone, err := p.signal(syscall.SIGKILL)
	if err != nil {
		return Life{}, err
	}
	<-gone
	lives := p.Lives()
	return lives[len(lives)-1], nil
}

// Stop sends SIGTERM, and SIGKILL when that took too long; it reports whether the process ended by itself.
func (p *Process) Stop(patience time.Duration) bool {
	gone, err := p.signal(syscall.SIGTERM)
	if err != nil {
		return true
	}
	select {
	case <-gone:
		return true
	case <-time.After(patience):
	}
	if gone, err = p.signal(syscall.SIGKILL); err == nil {
		<-gone
	}
	return false
}

// Runs says whether the process lives.
func (p *Process) Runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil
}

// Lives returns every life so far.
func (p *Process) Lives() []Life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Life(nil), p.lives...)
}
