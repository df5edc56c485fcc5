package main

// callgrind steers the tool of the same name from inside, so that only what stands between toggles is counted. Outside
// of Valgrind, and on processors whose sequence is not known here, the requests do nothing.
type callgrind struct{}

// The requests of valgrind.h and callgrind.h.
const (
	runningOnValgrind = 0x1001

	callgrindBase        = 'C'<<24 | 'T'<<16
	callgrindToggle      = callgrindBase + 2
	callgrindStartInstrs = callgrindBase + 4
	callgrindStopInstrs  = callgrindBase + 5
)

func (callgrind) ask(request uint64) uint64 { return clientRequest(&[6]uint64{request}) }

// present says whether the process runs under Valgrind.
func (c callgrind) present() bool { return c.ask(runningOnValgrind) != 0 }

// start makes the tool look at every instruction from now on, stop ends that. Without it code runs several times faster.
func (c callgrind) start() { c.ask(callgrindStartInstrs) }
func (c callgrind) stop()  { c.ask(callgrindStopInstrs) }

// toggle begins or ends counting on this thread.
func (c callgrind) toggle() { c.ask(callgrindToggle) }
