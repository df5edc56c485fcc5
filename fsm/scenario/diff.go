package scenario

import (
	"fmt"
	"slices"
)

// String shows where the output is another one: - lines were expected, + lines came.
func (m Mismatch) String() string {
	var p printer
	p.line("%s:%d: the output is not the expected one (- expected, + came)", m.Name, m.Line)
	for _, d := range diff(m.Want, m.Got) {
		p.line("%s", d)
	}
	return p.text()
}

// diff compares lines by their longest common subsequence.
func diff(want, got []string) []string {
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i, w := range slices.Backward(want) {
		for j, g := range slices.Backward(got) {
			if w == g {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []string
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			lines = append(lines, fmt.Sprintf("  %s", want[i]))
			i, j = i+1, j+1
		case j >= len(got) || (i < len(want) && common[i+1][j] >= common[i][j+1]):
			lines = append(lines, "- "+want[i])
			i++
		default:
			lines = append(lines, "+ "+got[j])
			j++
		}
	}
	return lines
}
