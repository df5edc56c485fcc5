package plane

// Class says what became of a command that did not do what it was asked.
type Class uint8

// The classes. Each has an exit code of its own.
const (
	// Failed: a fault, or a check that found something wrong.
	Failed Class = iota + 1
	// Usage: the command makes no sense as written.
	Usage
	// Rejected: a rule of the state machine said no; nothing was changed.
	Rejected
	// NotReached: nobody could be asked, or nothing was proposed; it may be tried again.
	NotReached
	// Unknown: it may have been carried out; it may be tried again with the same request id only.
	Unknown
)

// String is the word that -o json prints.
func (c Class) String() string {
	switch c {
	case Failed:
		return "failed"
	case Usage:
		return "usage"
	case Rejected:
		return "rejected"
	case NotReached:
		return "not_reached"
	case Unknown:
		return "unknown"
	default:
		return "unset"
	}
}

// Error is what a command tells about an error.
type Error struct {
	Class Class
	// Reason is a stable code; empty for errors without one.
	Reason string
	// Text is the sentence: what happened, who holds the thing, what to do.
	Text string
	// Facts are those of the verdict, by name.
	Facts map[string]string
	// RequestTimeMS is the log time at which the request was built, to be kept when it is sent again; 0 if not known.
	RequestTimeMS uint64
	Err           error
}

// Error is the reason and the sentence.
func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Text
	}
	return e.Reason + ": " + e.Text
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }
