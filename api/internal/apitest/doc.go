// Package apitest builds small control planes for tests of the API: real servers and clients over in-memory connections,
// a real state machine, and a log that is a slice. Leadership, contact, losses and hangs are set by the test. It is
// imported by tests only.
package apitest
