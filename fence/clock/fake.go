package clock

import (
	"sync"
	"time"
)

// Bubble is a clock on the time of package time, so that it follows the fake time of a testing/synctest bubble. It claims
// the class BootRaw.
type Bubble struct{ start time.Time }

// bubbleOrigin keeps readings away from zero, so that code which takes zero for "never" shows up in tests.
const bubbleOrigin = time.Hour

// NewBubble returns a clock whose origin is an hour before the moment of the call.
func NewBubble() *Bubble { return &Bubble{start: time.Now()} }

// Now reads the time since the clock was made.
func (b *Bubble) Now() Reading {
	d := bubbleOrigin + time.Since(b.start)
	return Reading{Boot: d, Raw: d}
}

// Class is BootRaw.
func (*Bubble) Class() Class { return BootRaw }

// Manual is a clock that moves only when it is told to. The zero value stands at the origin.
type Manual struct {
	mu  sync.Mutex
	now Reading
}

// Now returns where the clock stands.
func (m *Manual) Now() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Class is BootRaw.
func (*Manual) Class() Class { return BootRaw }

// Advance moves both clocks by d.
func (m *Manual) Advance(d time.Duration) { m.AdvanceBoth(d, d) }

// AdvanceBoth moves the two clocks by different amounts: a suspend moves boot alone.
func (m *Manual) AdvanceBoth(boot, raw time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Boot += boot
	m.now.Raw += raw
}

// Skewed shows another clock with an offset, at another rate, or not moving at all. It is the fault hook for clocks: an
// unsound clock that no lease can survive must still never get past a sink that checks tokens.
//
// A stall is what a paused virtual machine sees whose clock was paused with it: when the stall ends, the clock goes on
// from where it stood and never catches up. A stopped process whose clock runs on needs no stall, only a base clock that
// moves while nobody looks.
type Skewed struct {
	base Clock

	mu      sync.Mutex
	from    Reading // of the base at the last change
	shown   Reading // what this clock showed then
	rate    PPM
	stalled bool
}

// NewSkewed returns a clock that shows what base shows until it is told otherwise.
func NewSkewed(base Clock) *Skewed {
	now := base.Now()
	return &Skewed{base: base, from: now, shown: now}
}

// Class is that of the base: a skewed clock lies about its class, that is its purpose.
func (s *Skewed) Class() Class { return ClassOf(s.base) }

// Now reads the skewed clock.
func (s *Skewed) Now() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(s.base.Now())
}

// SetRate makes the clock run (1 + ppm/1e6) times as fast as its base from now on; ppm must be above -1,000,000.
func (s *Skewed) SetRate(ppm PPM) {
	s.change(func() { s.rate = ppm })
}

// Shift moves the clock by d at once. A negative d makes it go back, which a sound clock never does.
func (s *Skewed) Shift(d time.Duration) {
	s.change(func() { s.shown = s.shown.Add(d) })
}

// Stall stops the clock.
func (s *Skewed) Stall() {
	s.change(func() { s.stalled = true })
}

// Resume ends a stall.
func (s *Skewed) Resume() {
	s.change(func() { s.stalled = false })
}

func (s *Skewed) change(apply func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base.Now()
	s.shown = s.at(now)
	s.from = now
	apply()
}

func (s *Skewed) at(base Reading) Reading {
	if s.stalled {
		return s.shown
	}
	return Reading{
		Boot: s.shown.Boot + ScaleDown(max(0, base.Boot-s.from.Boot), Million+s.rate, Million),
		Raw:  s.shown.Raw + ScaleDown(max(0, base.Raw-s.from.Raw), Million+s.rate, Million),
	}
}
