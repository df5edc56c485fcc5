package cast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weir-project/weir/dispatcher"
	"github.com/weir-project/weir/dispatcher/keycode"
	"github.com/weir-project/weir/dispatcher/schema"
)

func TestBetween(t *testing.T) {
	const stays, unknown = "(stays)", "(unknown)"
	for _, c := range []struct{ from, to, value, want string }{
		{"integer", "bigint", "5", stays},
		{"bigint", "integer", "5", stays},
		{"integer", "numeric", "5", stays},
		{"integer", "numeric(12,2)", "-5", "-5.00"},
		{"numeric(12,2)", "numeric(14,2)", "1.50", "1.50"},
		{"numeric(12,2)", "numeric(12,4)", "1.50", "1.5000"},
		{"numeric(12,2)", "numeric", "1.50", stays},
		{"numeric", "numeric(5,1)", "1.25", "1.3"},
		{"numeric", "numeric(5,1)", "-1.25", "-1.3"},
		{"numeric", "numeric(5,1)", "0.04", "0.0"},
		{"numeric", "numeric(5,1)", "-0.04", "0.0"},
		{"numeric", "numeric(5,0)", "9.5", "10"},
		{"numeric", "numeric(5,2)", "NaN", "NaN"},
		{"numeric", "integer", "2.5", "3"},
		{"numeric", "bigint", "-2.49", "-2"},
		{"double precision", "integer", "2.5", "2"},
		{"double precision", "numeric", "2.5", unknown},
		{"double precision", "text", "2.5", unknown},
		{"real", "double precision", "0.1", "0.10000000149011612"},
		{"double precision", "real", "0.1", "0.1"},
		{"integer", "double precision", "7", "7"},
		{"numeric(5,2)", "real", "1.50", "1.5"},
		{"boolean", "integer", "true", "1"},
		{"boolean", "text", "true", "true"},
		{"integer", "boolean", "2", "true"},
		{"text", "boolean", " Yes ", "true"},
		{"text", "boolean", "maybe", "(error)"},
		{"integer", "text", "12", "12"},
		{"numeric(5,2)", "character varying(20)", "1.50", "1.50"},
		{"text", "integer", " 12 ", "12"},
		{"text", "integer", "x", "(error)"},
		{"text", "numeric(5,2)", "1.5", "1.50"},
		{"text", "numeric", "007.50", "7.50"},
		{"character(5)", "text", "ab   ", "ab"},
		{"text", "character(5)", "ab", "ab   "},
		{"character(5)", "character(3)", "ab   ", "ab "},
		{"character(3)", "char", "a  ", "a"},
		{"text", "character varying(2)", "äöü", "äö"},
		{"character varying(9)", "text", "a ", "a "},
		{"uuid", "text", "u", "u"},
		{"jsonb", "text", `{"a": 1}`, `{"a": 1}`},
		{"text", "json", "{}", "{}"},
		{"text", "jsonb", "{}", unknown},
		{"json", "jsonb", "{}", unknown},
		{"mood", "text", "sad", "sad"},
		{"text", "app.mood", "sad", "sad"},
		{"mood", "mood2", "sad", "sad"},
		{"timestamp(3) without time zone", "timestamp without time zone", "2026-01-02 03:04:05.678", stays},
		{"timestamp without time zone", "timestamp(0) without time zone", "2026-01-02 03:04:05.678", unknown},
		{"timestamp without time zone", "timestamp with time zone", "2026-01-02 03:04:05", unknown},
		{"timestamp with time zone", "text", "2026-01-02 03:04:05+00", unknown},
		{"inet", "text", "10.0.0.1", unknown},
		{"date", "text", "2026-01-02", "2026-01-02"},
		{"date", "timestamp without time zone", "2026-01-02", unknown},
		{"bytea", "text", "\x00", unknown},
		{"text", "bytea", "x", unknown},
		{"bytea", "bytea", "x", stays},
		{"integer[]", "bigint[]", "{1}", unknown},
		{"character varying(5)[]", "character varying[]", "{a}", stays},
		{"integer", "integer[]", "1", unknown},
		{"text", "text", "x", stays},
	} {
		got := func() string {
			convert, err := Between(c.from, c.to)
			switch {
			case err != nil:
				return unknown
			case convert == nil:
				return stays
			}
			v, err := convert(dispatcher.Value{Kind: dispatcher.KindText, Text: c.value})
			if err != nil {
				return "(error)"
			}
			_, err = keycode.Encode([]dispatcher.Column{{Name: "c", Type: c.to, Value: v}})
			require.NoError(t, err, "what is returned is a value of the type")
			return v.Text
		}()
		require.Equal(t, c.want, got, "%s to %s: %s", c.from, c.to, c.value)
	}
}

func TestFill(t *testing.T) {
	num, str := schema.LiteralNumber, schema.LiteralString
	for _, c := range []struct {
		declared string
		kind     schema.LiteralKind
		text     string
		want     string
		known    bool
	}{
		{"integer", num, "-3", "-3", true},
		{"integer", str, " 7 ", "7", true},
		{"integer", num, "3.5", "", false},
		{"integer", schema.LiteralBool, "true", "", false},
		{"numeric(12,2)", num, "0", "0.00", true},
		{"numeric(12,2)", num, "1.005", "1.01", true},
		{"numeric", num, ".50", "0.50", true},
		{"numeric", num, "1e5", "", false},
		{"double precision", num, "1.50", "1.5", true},
		{"real", num, "0.1", "0.1", true},
		{"boolean", schema.LiteralBool, "false", "false", true},
		{"boolean", str, "t", "true", true},
		{"bytea", str, `\xCAFE`, "\xca\xfe", true},
		{"bytea", str, "abc", "", false},
		{"text", str, "ä", "ä", true},
		{"text", num, "5", "5", true},
		{"character(3)", str, "a", "a  ", true},
		{"json", str, `{"a":1}`, `{"a":1}`, true},
		{"jsonb", str, "{}", "{}", true},
		{"jsonb", str, `{"a":1}`, "", false},
		{"uuid", str, "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000", true},
		{"uuid", str, "00000000000000000000000000000000", "", false},
		{"date", str, "2026-02-28", "2026-02-28", true},
		{"date", str, "2026-02-30", "", false},
		{"date", str, "today", "", false},
		{"timestamp without time zone", str, "2026-02-28 01:02:03", "2026-02-28 01:02:03", true},
		{"timestamp with time zone", str, "2026-02-28 01:02:03", "", false},
		{"integer[]", str, "{}", "{}", true},
		{"integer[]", str, "{1, 2}", "", false},
		{"mood", str, "sad", "sad", true},
		{"inet", str, "10.0.0.1", "", false},
	} {
		v, err := Fill(schema.Column{Name: "c", Type: c.declared, Default: &schema.Literal{Kind: c.kind, Text: c.text}})
		if !c.known {
			require.ErrorContains(t, err, "column c of type "+c.declared)
			continue
		}
		require.NoError(t, err, "%s %s", c.declared, c.text)
		require.Equal(t, c.want, v.Text, "%s %s", c.declared, c.text)
	}
	for _, c := range []schema.Column{{Name: "c", Type: "text"}, {Name: "c", Type: "text", Default: &schema.Literal{Kind: schema.LiteralNull}}} {
		v, err := Fill(c)
		require.NoError(t, err)
		require.Equal(t, dispatcher.KindNull, v.Kind)
	}
	_, err := Fill(schema.Column{Name: "c", Type: "text", Computed: true})
	require.ErrorContains(t, err, "computed the value of column c")
}
