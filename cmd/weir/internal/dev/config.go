package dev

import (
	"io"
	"strconv"
	"time"
)

// Config says what to run.
type Config struct {
	// Dir holds all files; empty: a new temporary folder, removed at the end unless Keep.
	Dir  string
	Keep bool
	// Servers and Agents are how many to start.
	Servers, Agents int
	// FirstPort is the first of the servers' ports; 0, or a port of the block being taken: any free ones.
	FirstPort int
	// Demo names a demo: "shop", or empty.
	Demo string
	// Exit ends the run after the demo.
	Exit bool
	// Pace is how long the demo stretches its change log.
	Pace time.Duration
	// Seed chooses what is moved and when is killed.
	Seed int64
	// Profile is the timing of servers and agents.
	Profile string
	// Program is the binary that children run; empty: this one.
	Program string

	Stdout io.Writer
	// Terminal: Stdout is one, so that the view may be redrawn.
	Terminal bool
}

// DefaultPort is the first port of the servers' API if the whole block of ports is free.
const DefaultPort = 7401

// raftOffset is how far the ports of Raft are above those of the API.
const raftOffset = 20

// DefaultAddresses are where a weir dev with three servers serves if its ports were free.
func DefaultAddresses() []string {
	addresses := make([]string, 3)
	for i := range addresses {
		addresses[i] = address(DefaultPort + i)
	}
	return addresses
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
