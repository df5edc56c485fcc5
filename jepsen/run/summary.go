package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weir-project/weir/jepsen/checker"
	"github.com/weir-project/weir/jepsen/history"
)

// Count is a figure with the least that it must be.
type Count struct {
	Name  string  `json:"name"`
	Have  float64 `json:"have"`
	Floor float64 `json:"floor"`
}

// Summary is what a run did and found.
type Summary struct {
	Run      string            `json:"run"`
	Seed     uint64            `json:"seed"`
	Rerun    string            `json:"rerun"`
	Folder   string            `json:"folder"`
	Notes    []string          `json:"notes"`
	Outcomes map[string]int    `json:"outcomes"`
	Counts   []Count           `json:"counts"`
	Reports  []*checker.Report `json:"reports"`
	// Violations are those that no report has.
	Violations []string `json:"violations,omitempty"`
}

func (s *Summary) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

func (s *Summary) count(name string, have, floor float64) {
	s.Counts = append(s.Counts, Count{name, have, floor})
}

func (s *Summary) violate(format string, args ...any) {
	s.Violations = append(s.Violations, fmt.Sprintf(format, args...))
}

// add takes reports; those of one check become one.
func (s *Summary) add(reports ...*checker.Report) {
	for _, r := range reports {
		at := slices.IndexFunc(s.Reports, func(o *checker.Report) bool { return o.Check == r.Check })
		if at < 0 {
			s.Reports = append(s.Reports, r)
			continue
		}
		merge(s.Reports[at], r)
	}
}

// merge adds up; least figures stay the least, medians the larger.
func merge(into, r *checker.Report) {
	into.Looked += r.Looked
	into.Count += r.Count
	into.Violations = append(into.Violations, r.Violations...)
	for name, value := range r.Figures {
		old, there := into.Figures[name]
		switch {
		case !there:
			if into.Figures == nil {
				into.Figures = map[string]int64{}
			}
			into.Figures[name] = value
		case strings.HasPrefix(name, "least "):
			into.Figures[name] = min(old, value)
		case strings.HasPrefix(name, "median "):
			into.Figures[name] = max(old, value)
		default:
			into.Figures[name] = old + value
		}
	}
}

// outcomes counts operations by kind and outcome.
func (s *Summary) outcomes(ops []*history.Operation) {
	s.Outcomes = map[string]int{}
	for _, op := range ops {
		key := op.Answer.Outcome.String()
		if op.Answer.Reason != "" {
			key += " " + op.Answer.Reason
		}
		s.Outcomes[key]++
	}
}

// violations is how many there are in all.
func (s *Summary) violations() int {
	n := len(s.Violations)
	for _, r := range s.Reports {
		n += r.Count
	}
	return n
}

// short returns what is under its floor, checks that looked at nothing included.
func (s *Summary) short() []string {
	var list []string
	for _, c := range s.Counts {
		if c.Have < c.Floor {
			list = append(list, fmt.Sprintf("%s: %.6g, at least %.6g are needed", c.Name, c.Have, c.Floor))
		}
	}
	for _, r := range s.Reports {
		if r.Looked == 0 {
			list = append(list, fmt.Sprintf("check %q looked at nothing", r.Check))
		}
	}
	return list
}

// finish prints the summary, writes it into the folder, and returns ErrFailed if the run failed. A clean folder that
// nobody wants to keep is removed.
func (s *Summary) finish(o *Options) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.Folder, "summary.json"), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	short := s.short()
	s.print(o, short)
	if s.violations() > 0 || len(short) > 0 {
		return ErrFailed
	}
	if !o.Keep {
		if err := os.RemoveAll(s.Folder); err != nil {
			return fmt.Errorf("remove run folder: %w", err)
		}
	}
	return nil
}

func (s *Summary) print(o *Options, short []string) {
	p := o.say
	p("")
	p("%s, seed %d", s.Run, s.Seed)
	for _, n := range s.Notes {
		p("  %s", n)
	}
	p("operations by outcome")
	for _, name := range slices.Sorted(maps.Keys(s.Outcomes)) {
		p("  %7d  %s", s.Outcomes[name], name)
	}
	p("counts and floors")
	for _, c := range s.Counts {
		p("  %10.6g  %s (floor %.6g)", c.Have, c.Name, c.Floor)
	}
	p("checks")
	for _, r := range s.Reports {
		p("  %7d looked at, %d violations: %s", r.Looked, r.Count, r.Check)
		for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
			p("           %s: %d", name, r.Figures[name])
		}
		for _, v := range r.Violations {
			p("    VIOLATION %s", v)
		}
	}
	for _, v := range s.Violations {
		p("    VIOLATION %s", v)
	}
	for _, v := range short {
		p("    TOO LITTLE %s", v)
	}
	p("violations: %d", s.violations())
	if o.Keep || s.violations() > 0 || len(short) > 0 {
		p("folder: %s", s.Folder)
	} else {
		p("folder: removed, since all was well; --keep keeps it")
	}
	p("rerun: %s", s.Rerun)
}
