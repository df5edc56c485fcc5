// Package caller is a client that tells the truth: every operation ends as ok, rejected, not proposed or unknown, and is
// recorded with its times.
//
// It speaks weir.v1 by the generated stubs and classifies answers itself, so that a mistake of the product's own client
// shows. It knows neither what an answer should be nor who is killed meanwhile.
//
// Invariants: every try of an operation carries the same request id and time. A try that was sent and brought no verdict
// makes the operation linger: it is never called not proposed afterwards, whatever later tries say.
package caller
