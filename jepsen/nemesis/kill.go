package nemesis

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/weir-project/weir/jepsen/cluster"
	"github.com/weir-project/weir/jepsen/evidence"
	"github.com/weir-project/weir/jepsen/history"
)

// Class says what a killed process was.
type Class string

// The classes.
const (
	Leader   Class = "leader"
	Follower Class = "follower"
	Owner    Class = "owner"
)

// Classes are all of them.
func Classes() []Class { return []Class{Leader, Follower, Owner} }

// Kill is one kill -9.
type Kill struct {
	N      int    `json:"n"`
	Class  Class  `json:"class"`
	Victim string `json:"victim"`
	// Signalled is just before the signal; Gone is when the process was known to be gone.
	Signalled int64 `json:"signalled"`
	Gone      int64 `json:"gone"`
	// Operations are the requests in flight that it cut into, Calls the sink calls that it cut off.
	Operations int `json:"operations"`
	Calls      int `json:"calls"`
	// Hit: it counts.
	Hit bool `json:"hit"`
	// Restarted is when the victim was started again.
	Restarted int64 `json:"restarted,omitempty"`
}

// Killer kills until enough kills of each class have hit.
type Killer struct {
	Cluster  *cluster.Cluster
	Recorder *history.Recorder
	// Leader names the server that leads now, "" if none is known to.
	Leader func(ctx context.Context) string
	Rand   *rand.Rand
	// Want is how many kills of each class must hit.
	Want map[Class]int
	// PauseMin and PauseMax bound the time between two kills, DownMax the time that a victim stays down.
	PauseMin, PauseMax, DownMax time.Duration
	// LogFile takes a line for each kill.
	LogFile string
	// Tell hears of each kill; may be nil.
	Tell func(Kill)

	mu    sync.Mutex
	kills []Kill
	errs  []error
}

// Run kills until every class has had its share, or the context ends, and returns when every victim runs again.
func (k *Killer) Run(ctx context.Context) ([]Kill, error) {
	var restarts sync.WaitGroup
	for n := 1; ctx.Err() == nil; n++ {
		class, ok := k.choose()
		if !ok {
			break
		}
		pause(ctx, k.between(k.PauseMin, k.PauseMax))
		victim := k.victim(ctx, class)
		if victim == nil {
			continue
		}
		kill, err := k.kill(ctx, n, class, victim)
		if err != nil {
			return k.done(&restarts, err)
		}
		if kill.Victim == "" {
			continue
		}
		k.note(kill)
		down := k.between(20*time.Millisecond, k.DownMax)
		restarts.Go(func() { k.restart(victim, kill.N, down) })
	}
	return k.done(&restarts, nil)
}

func (k *Killer) done(restarts *sync.WaitGroup, err error) ([]Kill, error) {
	restarts.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && len(k.errs) > 0 {
		err = k.errs[0]
	}
	if werr := k.write(); err == nil {
		err = werr
	}
	return k.kills, err
}

// choose picks a class that has not had its share, by how much it lacks.
func (k *Killer) choose() (Class, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lots []Class
	for _, c := range Classes() {
		lacks := k.Want[c]
		for _, kill := range k.kills {
			if kill.Hit && kill.Class == c {
				lacks--
			}
		}
		for range lacks {
			lots = append(lots, c)
		}
	}
	if len(lots) == 0 {
		return "", false
	}
	return lots[k.Rand.IntN(len(lots))], true
}

func (k *Killer) between(low, high time.Duration) time.Duration {
	return low + time.Duration(k.Rand.Int64N(int64(high-low)+1))
}

// victim picks a process of the class that runs; nil if there is none right now.
func (k *Killer) victim(ctx context.Context, class Class) *cluster.Process {
	if class == Owner {
		return k.pick(k.Cluster.Agents, func(p *cluster.Process) bool { return p.Runs() })
	}
	for _, p := range k.Cluster.Servers {
		if !p.Runs() {
			return nil // without this one more the cluster would have no quorum
		}
	}
	leader := k.Leader(ctx)
	if leader == "" {
		return nil
	}
	return k.pick(k.Cluster.Servers, func(p *cluster.Process) bool { return (p.Name == leader) == (class == Leader) })
}

func (k *Killer) pick(from []*cluster.Process, fits func(*cluster.Process) bool) *cluster.Process {
	var list []*cluster.Process
	for _, p := range from {
		if fits(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[k.Rand.IntN(len(list))]
}

// patience is how long a kill waits for something to be in flight.
const patience = 2 * time.Second

// kill waits for the moment and kills. The kill is empty if the moment did not come.
func (k *Killer) kill(ctx context.Context, n int, class Class, victim *cluster.Process) (Kill, error) {
	ledger := k.Cluster.Ledger(victim.Name)
	open, come, err := k.moment(ctx, class, victim.Name, ledger)
	if err != nil || !come {
		return Kill{}, err
	}
	life, err := victim.Kill()
	if err != nil {
		return Kill{}, fmt.Errorf("kill %s: %w", victim.Name, err)
	}
	kill := Kill{N: n, Class: class, Victim: victim.Name, Signalled: life.Signalled, Gone: life.Gone}
	if class == Owner {
		kill.Calls, err = evidence.CutOff(ledger, life.Started)
		kill.Hit = kill.Calls > 0
		return kill, err
	}
	kill.Operations = k.stillOpen(open, life.Signalled)
	kill.Hit = kill.Operations > 0
	return kill, nil
}

// moment waits until something is in flight that the kill would cut into; it reports whether that came.
func (k *Killer) moment(ctx context.Context, class Class, victim, ledger string) (open []history.Operation, come bool, err error) {
	for deadline := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(deadline); time.Sleep(200 * time.Microsecond) {
		if class == Owner {
			if come, err = evidence.LastIsAttempt(ledger); come || err != nil {
				return nil, come, err
			}
			continue
		}
		if open = k.inFlight(class, victim); len(open) > 0 {
			return open, true, nil
		}
	}
	return nil, false, nil
}

// inFlight returns the operations that a server works on: every one of them needs the leader; a follower, those that ask
// it.
func (k *Killer) inFlight(class Class, server string) []history.Operation {
	var list []history.Operation
	for _, op := range k.Recorder.InFlight() {
		if class == Leader || (len(op.Tries) > 0 && op.Tries[len(op.Tries)-1] == server) {
			list = append(list, op)
		}
	}
	return list
}

// stillOpen counts those that had not been answered when the signal was sent.
func (k *Killer) stillOpen(ops []history.Operation, signalled int64) int {
	n := 0
	for _, op := range ops {
		if end := k.Recorder.Returned(op.ID); end == 0 || end > signalled {
			n++
		}
	}
	return n
}

func (k *Killer) note(kill Kill) {
	k.mu.Lock()
	k.kills = append(k.kills, kill)
	k.mu.Unlock()
	if k.Tell != nil {
		k.Tell(kill)
	}
}

func (k *Killer) restart(victim *cluster.Process, n int, after time.Duration) {
	time.Sleep(after)
	err := victim.Start()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.errs = append(k.errs, err)
		return
	}
	for i := range k.kills {
		if k.kills[i].N == n {
			k.kills[i].Restarted = history.Now()
		}
	}
}

// write writes the log of all kills.
func (k *Killer) write() error {
	file, err := os.Create(k.LogFile)
	if err != nil {
		return fmt.Errorf("write nemesis log: %w", err)
	}
	encoder := json.NewEncoder(file)
	for i := range k.kills {
		if err == nil {
			err = encoder.Encode(k.kills[i])
		}
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write nemesis log: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
