package wal2json

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weir-project/weir/dispatcher"
)

const ddlPrefix = "ddl"

// ddlContent is the content of a message with prefix ddl. Content that is not such an object is taken as the statement.
type ddlContent struct {
	Tag    string `json:"tag"`
	Object string `json:"object"`
	SQL    string `json:"sql"`
}

func decodeDDL(content string) ddlContent {
	var d ddlContent
	if json.Unmarshal([]byte(content), &d) != nil || (d.SQL == "" && d.Object == "") {
		return ddlContent{SQL: content}
	}
	return d
}

// concerns says whether the schema change may touch table: it names it as its object, or as a whole word of the
// statement, with or without schema. It is meant to err on the side of stopping.
func (d ddlContent) concerns(table dispatcher.TableName) bool {
	object := strings.ReplaceAll(d.Object, `"`, "")
	schema, name, dotted := strings.Cut(object, ".")
	if !dotted {
		schema, name = schemaOf(table), object
	}
	if strings.EqualFold(name, table.Name) && strings.EqualFold(schema, schemaOf(table)) {
		return true
	}
	return hasWord(strings.ToLower(d.SQL), strings.ToLower(table.Name))
}

// hasWord says whether word stands in text with no letter, digit, underscore or dollar beside it.
func hasWord(text, word string) bool {
	if word == "" {
		return false
	}
	for from := 0; ; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(word)
		if (at == 0 || !inWord(text[at-1])) && (end == len(text) || !inWord(text[end])) {
			return true
		}
		from = at + 1
	}
}

func inWord(b byte) bool {
	return b == '_' || b == '$' || b >= 0x80 || (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')
}

// schemaChange is the problem that a line poses for table, if it is a schema change or truncate that concerns it.
func schemaChange(l *line, table dispatcher.TableName, at uint64) (problem, bool) {
	statement := ""
	switch {
	case l.Action == "T" && l.isOf(table):
		statement = "TRUNCATE " + table.String()
	case l.Action == "M" && l.Prefix == ddlPrefix:
		d := decodeDDL(l.Content)
		if !d.concerns(table) {
			return problem{}, false
		}
		statement = d.SQL
		if statement == "" {
			statement = d.Tag + " " + d.Object
		}
	default:
		return problem{}, false
	}
	return problem{ReasonDDL, fmt.Sprintf(
		"at position %d stands a schema change of %s: %q; this release does not replicate schema changes: run it at the sink, then create a changefeed that starts after this position",
		at, table, statement)}, true
}
