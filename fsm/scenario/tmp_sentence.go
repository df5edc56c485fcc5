package scenario

import "github.com/weir-project/weir/fsm"

func sentence(v fsm.Verdict) string {
	if s, ok := any(v).(interface{ Sentence() string }); ok {
		return s.Sentence()
	}
	return v.Reason.String()
}
