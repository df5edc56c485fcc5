package fsm

import (
	"slices"
	"strings"
)

// What an event concerns, and what it changes.

// concerns says whether the event concerns the dispatchers of a table.
func (b *BarrierSpec) concerns(t Table) bool {
	switch {
	case t.Trigger:
		return b.TriggerTakesPart()
	case b.Influence == InfluenceAll:
		return true
	case b.Influence == InfluenceSchema:
		return t.Schema == b.Schema
	default:
		return slices.Contains(b.Tables, TableRef{t.Schema, t.Name})
	}
}

// maxStatement bounds what an event may leave in the state, in bytes.
const maxStatement = 64 << 10

// checkSpec says what is wrong with the spec of an event that would be opened; empty for nothing.
func (s *State) checkSpec(r *BarrierReport) string {
	spec := &r.Spec
	sync := SyncPointSpec()
	switch {
	case r.Key.At.Stage == StageSyncPoint && !spec.Equal(&sync):
		return "a sync point concerns everything and changes nothing"
	case spec.Influence < InfluenceTables || spec.Influence > InfluenceAll:
		return "the influence is not known"
	case len(spec.Statement) > maxStatement:
		return "the statement is longer than 64 KiB"
	}
	leaving := spec.Drop
	for _, r := range spec.Rename {
		leaving = append(slices.Clip(leaving), r.From)
	}
	for _, ref := range leaving {
		if !spec.concerns(Table{Schema: ref.Schema, Name: ref.Name}) {
			return "table " + ref.String() + " would leave, and is not in the influence"
		}
	}
	for i := range spec.Add {
		if v := s.checkTableShape(spec.Add, i); !v.OK() {
			return v.Facts.Detail
		}
	}
	return ""
}

// applyEffects drops, renames and adds tables as the event says; what comes starts at the event. It cannot be refused
// any more, so what does not fit is left out and told: a name that somebody else replicates into. What is done already,
// as in a later run, is no news.
func (s *State) applyEffects(b Barrier, x entryContext) string {
	feed, _ := s.ChangefeedByID(b.Key.Changefeed)
	if feed.Status == ChangefeedIsRemoving { // its tables go already, and one that was added would keep it for ever
		return "the changefeed is being removed: nothing was changed"
	}
	var notes []string
	var adds []TableSpec
	for _, ref := range b.Spec.Drop {
		if t, ok := s.TableNamed(feed, ref.Schema, ref.Name); ok {
			s.startDrop(t, x)
		}
	}
	for _, r := range b.Spec.Rename {
		if t, ok := s.TableNamed(feed, r.From.Schema, r.From.Name); ok {
			adds = append(adds, TableSpec{Schema: r.To.Schema, Name: r.To.Name, SplitKeys: s.splitKeysOf(t)})
			s.startDrop(t, x)
		}
	}
	for _, spec := range append(adds, b.Spec.Add...) {
		ref := TableRef{spec.Schema, spec.Name}
		if id, taken := s.targets.get(target{feed.Sink, spec.Schema, spec.Name}); taken {
			if t, _ := s.Table(id); t.Changefeed != feed.ID {
				other, _ := s.ChangefeedByID(t.Changefeed)
				notes = append(notes, "table "+ref.String()+" was not added: changefeed "+other.Name+" replicates into it")
			}
			continue
		}
		s.addTable(feed, spec, b.Key.At, x)
	}
	return strings.Join(notes, "; ")
}

// splitKeysOf lists the inner bounds of a table's wanted spans.
func (s *State) splitKeysOf(t Table) []string {
	var keys []string
	for row := range s.DispatchersOfTable(t.ID) {
		if row.Span.Start != "" && !row.Leaving {
			keys = append(keys, row.Span.Start)
		}
	}
	return keys
}
