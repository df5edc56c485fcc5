package fsm

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/fsm/internal/wire"
)

// fill gives every field below v another value than zero, counting n up.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(*n%250 + 1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n)
	case reflect.Int64:
		v.SetInt(-int64(*n))
	default:
		panic("no filler for " + v.Kind().String())
	}
}

// leaves calls f with a copy of the filled row in which one field has been set back to zero, for each field.
func leaves(t *testing.T, v reflect.Value, path string, f func(path string)) {
	t.Helper()
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			leaves(t, v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	v.SetZero()
	f(path)
	v.Set(old)
}

// notRemembered are the parts of a verdict that answer the moment and are not kept.
var notRemembered = map[string]bool{
	"Request.Verdict.Replayed": true, "Request.Verdict.RefusedNames": true, "Request.Verdict.Reports": true,
}

func checkRow[R any](t *testing.T, section Section, code func(*R, *wire.Coder)) {
	t.Run(section.String(), func(t *testing.T) {
		var row R
		n := uint64(100)
		v := reflect.ValueOf(&row).Elem()
		fill(v, &n)
		digest := func(r *R) Digest {
			var c wire.Coder
			code(r, &c)
			return digestOf(uint8(section), c.Bytes())
		}
		full := digest(&row)
		leaves(t, v, v.Type().Name(), func(path string) {
			if notRemembered[path] {
				require.Equal(t, full, digest(&row), "%s is said not to be kept", path)
				return
			}
			require.NotEqual(t, full, digest(&row), "the state hash does not see %s", path)
			var c wire.Coder
			code(&row, &c)
			var back R
			d := wire.NewDecoder(c.Bytes())
			code(&back, &d)
			require.NoError(t, d.Finish(), path)
			var again wire.Coder
			code(&back, &again)
			require.Equal(t, c.Bytes(), again.Bytes(), "%s does not come back", path)
		})
	})
}

// TestField_B67_EveryFieldIsInTheSnapshotAndInTheHash fails when a field is added to a row and not to its code.
func TestField_B67_EveryFieldIsInTheSnapshotAndInTheHash(t *testing.T) {
	checkRow(t, SectionMeta, (*Meta).code)
	checkRow(t, SectionServers, (*Server).code)
	checkRow(t, SectionNodes, (*Node).code)
	checkRow(t, SectionChangefeeds, (*Changefeed).code)
	checkRow(t, SectionTables, (*Table).code)
	checkRow(t, SectionDispatchers, (*Dispatcher).code)
	checkRow(t, SectionOperators, (*Operator).code)
	checkRow(t, SectionFinished, (*Operator).code)
	checkRow(t, SectionRequests, (*Request).code)
	checkRow(t, SectionHistory, (*PlacementRecord).code)
	checkRow(t, SectionBarriers, (*Barrier).code)
	checkRow(t, SectionBarrierRecords, (*Barrier).code)
}

// TestEveryRowTypeOfTheStateIsASection fails when a kind of row is added to the state and not to snapshots.
func TestEveryRowTypeOfTheStateIsASection(t *testing.T) {
	rows := 1 // meta
	typ := reflect.TypeFor[data]()
	for field := range typ.Fields() {
		switch field.Name {
		case "meta", "hash", "derived":
		default:
			rows++
		}
	}
	require.Equal(t, int(SectionBarrierRecords), rows)
	require.Contains(t, Section(rows+1).String(), "unknown")
}

// TestEveryFieldOfEveryCommandIsInTheLog does for commands what the test above does for rows.
func TestEveryFieldOfEveryCommandIsInTheLog(t *testing.T) {
	for kind := KindBeginTerm; kind <= KindAdvanceCheckpoint; kind++ {
		cmd, ok := NewCommand(kind)
		require.True(t, ok, "kind %d", kind)
		require.Equal(t, kind, cmd.Kind())
		t.Run(kind.String(), func(t *testing.T) {
			n := uint64(100)
			v := reflect.ValueOf(cmd).Elem()
			fill(v, &n)
			encode := func(c Command) []byte {
				var w wire.Coder
				c.Code(&w)
				return append([]byte(nil), w.Bytes()...)
			}
			full := encode(cmd)
			back, _ := NewCommand(kind)
			d := wire.NewDecoder(full)
			back.Code(&d)
			require.NoError(t, d.Finish())
			require.Equal(t, cmd, back)
			leaves(t, v, kind.String(), func(path string) {
				require.NotEqual(t, full, encode(cmd), "%s is not in the log", path)
			})
		})
	}
	_, ok := NewCommand(KindAdvanceCheckpoint + 1)
	require.False(t, ok)
}
