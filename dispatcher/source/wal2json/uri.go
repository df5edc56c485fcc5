package wal2json

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-project/weir/dispatcher"
)

// Scheme is the first part of the URIs of this source.
const Scheme = "wal2json"

const gzipSuffix = ".gz"

// location is what a URI says.
type location struct {
	path   string
	follow bool
}

// parseURI reads wal2json:PATH or wal2json:PATH?follow=true.
func parseURI(uri string) (location, error) {
	rest, ok := strings.CutPrefix(uri, Scheme+":")
	if !ok {
		return location{}, invalid(uri, "it does not begin with "+Scheme+":")
	}
	path, query, _ := strings.Cut(rest, "?")
	if path == "" {
		return location{}, invalid(uri, "the path is empty")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return location{}, invalid(uri, "its options cannot be read")
	}
	loc := location{path: path}
	for name := range values {
		if name != "follow" {
			return location{}, invalid(uri, fmt.Sprintf("option %q is unknown", name))
		}
		if loc.follow, err = strconv.ParseBool(values.Get(name)); err != nil {
			return location{}, invalid(uri, "follow is neither true nor false")
		}
	}
	if loc.follow && loc.zipped() {
		return location{}, invalid(uri, "a gzip file cannot be followed; unpack it, or leave follow away")
	}
	return loc, nil
}

func (l location) zipped() bool { return strings.HasSuffix(l.path, gzipSuffix) }

func invalid(uri, why string) error {
	return &dispatcher.StopError{
		Reason: ReasonInvalidSource,
		Text:   fmt.Sprintf("source %q: %s; write %s:PATH or %s:PATH?follow=true", uri, why, Scheme, Scheme),
	}
}
