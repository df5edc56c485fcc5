package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/sink/sqlite"
	"github.com/weir-project/weir/dispatcher/source/wal2json"
	"github.com/weir-project/weir/fence/clock"
)

// pollPeriod is how often a followed change log is looked at again.
const pollPeriod = 20 * time.Millisecond

// pipes are the sources and sinks that this binary links.
type pipes struct {
	wal2json *wal2json.Source
	sqlite   *sqlite.Sink
}

func newPipes(c clock.Clock, timers clock.Timers) (*pipes, error) {
	source, err := wal2json.New(wal2json.Config{Poll: func() (<-chan time.Time, func()) {
		t := timers.NewTicker(pollPeriod)
		return t.C(), t.Stop
	}})
	if err != nil {
		return nil, fmt.Errorf("prepare wal2json source: %w", err)
	}
	sink, err := sqlite.New(sqlite.Config{Clock: func() int64 { return int64(c.Now().Boot) }})
	if err != nil {
		return nil, fmt.Errorf("prepare SQLite sink: %w", err)
	}
	return &pipes{wal2json: source, sqlite: sink}, nil
}

// Source finds the implementation for a URI.
func (p *pipes) Source(uri string) (dispatcher.Source, error) {
	if scheme, _, _ := strings.Cut(uri, ":"); scheme != "wal2json" {
		return nil, unsupported("source", uri, "wal2json:PATH")
	}
	return p.wal2json, nil
}

// Sink finds the implementation for a URI.
func (p *pipes) Sink(uri string) (dispatcher.Sink, error) {
	if scheme, _, _ := strings.Cut(uri, ":"); scheme != "sqlite" {
		return nil, unsupported("sink", uri, "sqlite:PATH")
	}
	return p.sqlite, nil
}

func unsupported(what, uri, known string) error {
	return &dispatcher.StopError{
		Reason: "UNSUPPORTED_" + strings.ToUpper(what),
		Text:   fmt.Sprintf("this agent has no %s for %q; it knows %s", what, uri, known),
	}
}
