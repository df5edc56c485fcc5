package checker

import "fmt"

// Report is what one check found.
type Report struct {
	// Check is the check's name.
	Check string `json:"check"`
	// Looked is how many things it compared.
	Looked int `json:"looked"`
	// Violations are the broken promises, in full sentences; at most maxViolations are kept, all are counted.
	Violations []string `json:"violations,omitempty"`
	Count      int      `json:"count"`
	// Figures are what it measured on the way, by name.
	Figures map[string]int64 `json:"figures,omitempty"`
}

const maxViolations = 20

func (r *Report) violate(format string, args ...any) {
	r.Count++
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
	}
}

func (r *Report) figure(name string, value int64) {
	if r.Figures == nil {
		r.Figures = map[string]int64{}
	}
	r.Figures[name] = value
}
