package sqltoken

// row is a fence row.
type row struct {
	span     Range
	token    Token
	owner    Owner
	resume   Position
	released bool
}

// plan is what a claim does to the fence rows of its table.
type plan struct {
	remove []row // the overlapping rows
	insert []row // what is left of them, and the own row
	resume Position
}

// planClaim decides a claim. overlapping are all rows that overlap own.span, by start key, none overlapping another.
// own.resume is the start that was ordered; the plan's resume is later than it only if the rows cover the whole span
// without a gap and belong to the same run.
func planClaim(table string, own row, overlapping []row) (plan, error) {
	// A stranger's row first: its token, from another sequence, says nothing, and "a newer owner took over" would send
	// whoever schedules this span round in circles.
	for _, r := range overlapping {
		if !r.released && (r.owner.Cluster != own.owner.Cluster || r.owner.Changefeed != own.owner.Changefeed) {
			return plan{}, &OtherOwnerError{Table: table, Owner: r.owner}
		}
	}
	for _, r := range overlapping {
		if r.token.Compare(own.token) > 0 {
			return plan{}, &StaleError{Table: table, Own: own.token, Found: r.token, Holder: r.owner.Session}
		}
	}
	p := plan{remove: overlapping}
	for _, r := range overlapping {
		p.insert = append(p.insert, remainders(r, own.span)...)
	}
	own.resume = resumeAt(own, overlapping)
	p.insert = append(p.insert, own)
	p.resume = own.resume
	return p, nil
}

// remainders are the parts of r outside of cut. They keep token, owner and resume position, so a later claim over them
// neither loses progress nor lets an older token in.
func remainders(r row, cut Range) []row {
	var left []row
	if r.span.Start < cut.Start {
		part := r
		part.span.End = cut.Start
		left = append(left, part)
	}
	if cut.End != "" && (r.span.End == "" || cut.End < r.span.End) {
		part := r
		part.span.Start = cut.End
		left = append(left, part)
	}
	return left
}

func resumeAt(own row, overlapping []row) Position {
	lowest, first := Position{}, true
	cursor, covered := own.span.Start, false
	for _, r := range overlapping {
		if covered || r.released || r.owner.Run != own.owner.Run || r.span.Start > cursor {
			break
		}
		if first || r.resume.Compare(lowest) < 0 {
			lowest, first = r.resume, false
		}
		cursor = r.span.End
		covered = cursor == "" || (own.span.End != "" && cursor >= own.span.End)
	}
	if covered && lowest.Compare(own.resume) > 0 {
		return lowest
	}
	return own.resume
}
