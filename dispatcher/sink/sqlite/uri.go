package sqlite

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/dispatcher"
)

// Scheme is the first part of the URIs of this sink.
const Scheme = "sqlite"

type location struct {
	path   string // absolute
	ledger bool
}

func parseURI(uri string) (location, error) {
	rest, ok := strings.CutPrefix(uri, Scheme+":")
	if !ok {
		return location{}, invalid(uri, "it does not begin with "+Scheme+":")
	}
	path, query, _ := strings.Cut(rest, "?")
	if path == "" || path == ":memory:" {
		return location{}, invalid(uri, "it names no file")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return location{}, invalid(uri, "its options cannot be read")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return location{}, fmt.Errorf("sink %s: %w", uri, err)
	}
	loc := location{path: absolute}
	for name := range values {
		if name != "ledger" {
			return location{}, invalid(uri, fmt.Sprintf("option %q is unknown", name))
		}
		if loc.ledger, err = strconv.ParseBool(values.Get(name)); err != nil {
			return location{}, invalid(uri, "ledger is neither true nor false")
		}
	}
	return loc, nil
}

func invalid(uri, why string) error {
	return &dispatcher.StopError{
		Reason: ReasonInvalidSink,
		Text:   fmt.Sprintf("sink %q: %s; write %s:PATH", uri, why, Scheme),
	}
}

// dsn is the data source name of the driver for a file.
func dsn(path string, busy time.Duration) string {
	u := url.URL{Scheme: "file", Path: path}
	// FULL: a commit that was reported survives a power cut, also of the write-ahead log.
	u.RawQuery = url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), "synchronous(FULL)"}}.Encode()
	return u.String()
}
