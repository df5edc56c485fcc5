package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-project/weir/fsm"
)

const defaultSchema = "public"

// Message is what a change log says of a schema change.
type Message struct {
	// Tag is the command's tag, such as CREATE TABLE; empty if it is not told.
	Tag string `json:"tag"`
	// Object is the name of what was changed, as it is called afterwards, with its schema; empty if it is not told.
	Object string `json:"object"`
	// SQL is the text that the client sent.
	SQL string `json:"sql"`
}

// ParseMessage reads the content of a message: a JSON object, or else the bare statement.
func ParseMessage(content string) Message {
	var m Message
	if json.Unmarshal([]byte(content), &m) != nil || (m.SQL == "" && m.Object == "") {
		return Message{SQL: content}
	}
	return m
}

// Text is the event in words, never empty.
func (m Message) Text() string {
	for _, text := range []string{m.SQL, m.Tag + " " + m.Object} {
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
	return "(a message without a statement)"
}

// Change is what the message means. It never fails: what cannot be read is unsupported.
func (m Message) Change() Change {
	if harmlessTag(m.Tag) {
		return Change{Kind: KindNothing}
	}
	list, err := parse(m.SQL)
	if err != nil {
		return m.orDropped(unsupported("it cannot be read: " + err.Error()))
	}
	s, why := m.choose(list)
	if why != "" {
		return m.orDropped(unsupported(why))
	}
	return m.resolve(s.change)
}

// harmlessTag says whether a command tag belongs to a statement that needs nothing, whatever statement it came from: a
// table with a sequence of its own is several commands, and the message of each carries the whole statement.
func harmlessTag(tag string) bool {
	verb, object, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(tag)), " ")
	alike := []string{
		"INDEX", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "FUNCTION", "PROCEDURE", "ROUTINE", "AGGREGATE", "TRIGGER", "RULE",
		"POLICY", "OPERATOR", "OPERATOR CLASS", "OPERATOR FAMILY", "CAST", "STATISTICS", "PUBLICATION", "SUBSCRIPTION", "CONVERSION",
		"TRANSFORM", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY", "TEXT SEARCH PARSER", "TEXT SEARCH TEMPLATE",
	}
	switch verb {
	case "COMMENT", "GRANT", "REVOKE", "SECURITY", "REFRESH", "REINDEX":
		return true
	case "CREATE":
		return slices.Contains(append(alike, "TYPE", "DOMAIN", "EXTENSION", "SERVER", "USER MAPPING", "COLLATION", "LANGUAGE", "FOREIGN DATA WRAPPER"), object)
	case "ALTER", "DROP":
		return slices.Contains(alike, object)
	default:
		return false
	}
}

// choose finds the statement that the message is about; why says what is wrong if there is none.
func (m Message) choose(list []statement) (s statement, why string) {
	tag := strings.ToUpper(strings.TrimSpace(m.Tag))
	about := slices.Contains([]string{tagCreate, tagAlter, tagDrop, tagTruncate}, tag)
	if len(list) > 1 {
		var fitting []statement
		for _, one := range list {
			if one.change.Kind != KindNothing && (!about || one.tag == tag) {
				fitting = append(fitting, one)
			}
		}
		if len(fitting) > 1 {
			fitting = slices.DeleteFunc(fitting, func(one statement) bool { return !m.names(one.change) })
		}
		switch {
		case len(fitting) == 1:
			return fitting[0], ""
		case len(fitting) > 1:
			return statement{}, "it is one of several statements that were sent together, and which one cannot be told; send them one by one"
		case !about || slices.ContainsFunc(list, func(one statement) bool { return one.tag == tag }):
			return nothing(), ""
		}
		list = list[:1]
	}
	switch {
	case len(list) == 0:
		return statement{}, "it holds no statement"
	case about && list[0].tag != tag:
		return statement{}, fmt.Sprintf("the log says %s, but the statement is another one that did so inside; run it as a statement of its own", tag)
	default:
		return list[0], ""
	}
}

// names says whether the message's object is what the change leaves.
func (m Message) names(c Change) bool {
	object, ok := m.object()
	if !ok {
		return false
	}
	for _, t := range c.Influenced() {
		if t.Name == object.Name && (t.Schema == "" || t.Schema == object.Schema) {
			return c.Kind != KindRename || t.Name == c.To.Name
		}
	}
	return false
}

// object reads the message's object, if it is the name of one table.
func (m Message) object() (fsm.TableRef, bool) {
	tokens, err := tokenize(m.Object)
	if err != nil {
		return fsm.TableRef{}, false
	}
	c := cursor{text: m.Object, tokens: tokens}
	ref, err := c.qualified()
	return ref, err == nil && c.done()
}

// orDropped is the drop of the object if the message says that it was dropped: then its statement matters little.
func (m Message) orDropped(c Change) Change {
	object, ok := m.object()
	if !ok || !strings.EqualFold(strings.TrimSpace(m.Tag), tagDrop) {
		return c
	}
	if object.Schema == "" {
		object.Schema = defaultSchema
	}
	return Change{Kind: KindDrop, Tables: []fsm.TableRef{object}}
}

// resolve gives every name its schema. The search path by which the object was found has found the other tables, too,
// as far as can be told: it is not known to where some are written with a schema other than public.
func (m Message) resolve(c Change) Change {
	object, known := m.object()
	if known && object.Schema == "" {
		object.Schema = defaultSchema
	}
	onePath := !slices.ContainsFunc(c.Tables, func(t fsm.TableRef) bool { return t.Schema != "" }) || object.Schema == defaultSchema
	moved := c.Kind == KindRename && c.To.Schema != "" && c.Tables[0].Schema != c.To.Schema
	for i := range c.Tables {
		t := &c.Tables[i]
		switch {
		case t.Schema != "":
		case !known || moved: // the object tells only the schema to which a table was moved
			t.Schema = defaultSchema
		case t.Name == object.Name || onePath:
			t.Schema = object.Schema
		default:
			return unsupported(fmt.Sprintf("in which schema table %s is cannot be told; write the schemas of all tables", t.Name))
		}
	}
	if c.Kind == KindRename && c.To.Schema == "" {
		c.To.Schema = c.Tables[0].Schema
	}
	if c.Kind == KindDrop && known && !slices.Contains(c.Tables, object) && strings.EqualFold(strings.TrimSpace(m.Tag), tagDrop) {
		c.Tables = append(c.Tables, object) // a partition, which goes with its table
	}
	c.Tables = distinct(c.Tables)
	return c
}

func distinct(tables []fsm.TableRef) []fsm.TableRef {
	var once []fsm.TableRef
	seen := make(map[fsm.TableRef]bool, len(tables))
	for _, t := range tables {
		if !seen[t] {
			once = append(once, t)
		}
		seen[t] = true
	}
	return once
}

// Same says whether two changes are the same.
func (c *Change) Same(o *Change) bool { return reflect.DeepEqual(c, o) }
