package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-project/weir/api/weirv1"
	"github.com/weir-project/weir/cmd/weir/internal/plane"
	"github.com/weir-project/weir/cmd/weir/internal/show"
)

type operatorAdmitMany struct {
	Mutation

	File         string `arg:"" default:"-" help:"File with one operator a line, as JSON or as a table with a header; - is standard input."`
	AllOrNothing bool   `help:"Admit all of them, at most 256, or none."`
}

// maxManyLine bounds a line of the input.
const maxManyLine = 1 << 20

// Run carries the command out. It fails as refused if any of the operators is.
func (c *operatorAdmitMany) Run(x *call) error {
	text, err := c.input(x)
	if err != nil {
		return err
	}
	asks, err := readAsks(text)
	if err != nil {
		return err
	}
	specs := make([]*weirv1.OperatorSpec, 0, len(asks))
	for i := range asks {
		spec, err := asks[i].spec()
		if err != nil {
			return err
		}
		specs = append(specs, spec)
	}
	header, err := x.header(c.Mutation)
	if err != nil {
		return err
	}
	req := &weirv1.AdmitManyRequest{Header: header, Operators: specs, AllOrNothing: c.AllOrNothing}
	return x.change(c.Mutation, req, func(ctx context.Context, p plane.Plane) error {
		verdicts, err := p.AdmitMany(ctx, req)
		if printErr := x.admitted(asks[:len(verdicts)], verdicts, err); printErr != nil {
			return printErr
		}
		return err
	})
}

func (c *operatorAdmitMany) input(x *call) ([]byte, error) {
	if c.File == "-" {
		text, err := io.ReadAll(x.env.Stdin)
		if err != nil {
			return nil, usage("standard input cannot be read: %v", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, usage("file %s cannot be read: %v; check the path", c.File, err)
	}
	return text, nil
}

// ask is one operator as a line asks for it.
type ask struct {
	line        int
	Op          string   `json:"op"`
	Dispatcher  uint64   `json:"dispatcher,omitempty"`
	From        string   `json:"from,omitempty"`
	To          string   `json:"to,omitempty"`
	ExpectEpoch string   `json:"expect_epoch,omitempty"`
	Sources     []uint64 `json:"sources,omitempty"`
	SplitKeys   []string `json:"split_keys,omitempty"`
	Targets     []string `json:"targets,omitempty"`
}

func readAsks(text []byte) ([]ask, error) {
	var asks []ask
	var head []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxManyLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		a := ask{line: n}
		var err error
		switch {
		case strings.HasPrefix(line, "{"):
			err = a.readJSON(line)
		case head == nil:
			head = strings.Fields(strings.ToLower(line))
			err = checkHead(head)
		default:
			err = a.readRow(head, strings.Fields(line))
		}
		if err != nil {
			return nil, usage("line %d: %v", n, err)
		}
		if a.Op != "" {
			asks = append(asks, a)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, usage("the input cannot be read: %v", err)
	}
	if len(asks) == 0 {
		return nil, usage("the input names no operators; want one a line, for example: %s", `{"op":"move","dispatcher":3,"to":"n2"}`)
	}
	return asks, nil
}

func (a *ask) readJSON(line string) error {
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(a); err != nil {
		return err
	}
	if a.Op == "" {
		return fmt.Errorf("op is missing: want one of %s", strings.Join(manyOps(), ", "))
	}
	return nil
}

// columns are those that a table may have.
func columns() []string {
	return []string{"op", "dispatcher", "from", "to", "epoch", "sources", "keys", "targets"}
}

func checkHead(head []string) error {
	for _, name := range head {
		if !slices.Contains(columns(), name) {
			return fmt.Errorf("%q is no column: want a header of %s, or JSON", name, strings.Join(columns(), ", "))
		}
	}
	if !slices.Contains(head, "op") {
		return fmt.Errorf("the header has no column op: want a header of %s", strings.Join(columns(), ", "))
	}
	return nil
}

func (a *ask) readRow(head, cells []string) error {
	if len(cells) != len(head) {
		return fmt.Errorf("it has %d columns, the header has %d; write - for nothing", len(cells), len(head))
	}
	for i, cell := range cells {
		if cell == noNode {
			continue
		}
		if err := a.set(head[i], cell); err != nil {
			return err
		}
	}
	if a.Op == "" {
		return fmt.Errorf("op is missing: want one of %s", strings.Join(manyOps(), ", "))
	}
	return nil
}

func (a *ask) set(column, cell string) (err error) {
	switch column {
	case "op":
		a.Op = cell
	case "dispatcher":
		a.Dispatcher, err = strconv.ParseUint(cell, 10, 64)
	case "from":
		a.From = cell
	case "to":
		a.To = cell
	case "epoch":
		a.ExpectEpoch = cell
	case "keys":
		a.SplitKeys = strings.Split(cell, ",")
	case "targets":
		a.Targets = strings.Split(cell, ",")
	case "sources":
		for id := range strings.SplitSeq(cell, ",") {
			var n uint64
			if n, err = strconv.ParseUint(id, 10, 64); err != nil {
				break
			}
			a.Sources = append(a.Sources, n)
		}
	}
	if err != nil {
		return fmt.Errorf("column %s: %q is no number", column, cell)
	}
	return nil
}

func manyOps() []string { return []string{"add", "move", "remove", "split", "merge"} }

// spec is the operator as the API asks for it. A move without an origin takes whichever node owns the dispatcher.
func (a *ask) spec() (*weirv1.OperatorSpec, error) {
	kinds := map[string]weirv1.OperatorKind{
		"add": weirv1.OperatorKind_OPERATOR_KIND_ADD, "move": weirv1.OperatorKind_OPERATOR_KIND_MOVE,
		"remove": weirv1.OperatorKind_OPERATOR_KIND_REMOVE, "split": weirv1.OperatorKind_OPERATOR_KIND_SPLIT,
		"merge": weirv1.OperatorKind_OPERATOR_KIND_MERGE,
	}
	kind, ok := kinds[a.Op]
	if !ok {
		return nil, usage("line %d: %q is no operator: want one of %s", a.line, a.Op, strings.Join(manyOps(), ", "))
	}
	spec := &weirv1.OperatorSpec{
		Kind: kind, Dispatcher: a.Dispatcher, From: a.From, FromAny: a.Op == "move" && a.From == "", To: a.To, Sources: a.Sources,
		Targets: targets(a.Targets),
	}
	if a.ExpectEpoch != "" {
		epoch, err := token(fmt.Sprintf("line %d: epoch", a.line), a.ExpectEpoch)
		if err != nil {
			return nil, err
		}
		spec.ExpectEpoch = epoch
	}
	for _, text := range a.SplitKeys {
		key, err := hex.DecodeString(strings.TrimPrefix(text, hexKey))
		if err != nil || len(key) == 0 {
			return nil, usage("line %d: split key %q: want key bytes in hexadecimal, as weir dispatcher get -o json prints them", a.line, text)
		}
		spec.SplitKeys = append(spec.SplitKeys, key)
	}
	return spec, nil
}

// ManyVerdict is what was decided of one operator.
type ManyVerdict struct {
	Line       int               `json:"line"`
	Op         string            `json:"op"`
	Dispatcher uint64            `json:"dispatcher"`
	Admitted   bool              `json:"admitted"`
	Operator   string            `json:"operator"`
	Epoch      string            `json:"epoch"`
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	Facts      map[string]string `json:"facts"`
}

// admitted prints the verdicts; failed, which may be nil, is why there are no more.
func (x *call) admitted(asks []ask, verdicts []*weirv1.AdmitVerdict, failed error) error {
	if len(verdicts) == 0 {
		return failed
	}
	rows, refused := make([]ManyVerdict, 0, len(verdicts)), 0
	g := show.NewGrid("LINE", "OP", "DISPATCHER", "VERDICT", "OPERATOR", "IN WORDS")
	for i, v := range verdicts {
		row := manyVerdict(&asks[i], v)
		rows = append(rows, row)
		verdict := "admitted"
		if !row.Admitted {
			verdict = row.Reason
			refused++
		}
		g.Add(strconv.Itoa(row.Line), row.Op, unlessZero(row.Dispatcher), verdict, row.Operator, row.Message)
	}
	var err error
	if x.asJSON() {
		err = x.json(map[string]any{"request_id": x.sent.id, "verdicts": rows, "refused": refused})
	} else {
		err = x.table(g, "")
	}
	if err != nil || failed != nil || refused == 0 {
		return err
	}
	return &plane.Error{
		Class: plane.Rejected, Reason: "ITEMS_REFUSED", Facts: map[string]string{},
		Text: fmt.Sprintf("%d of %d operators were refused, each for the reason beside it; the others are admitted", refused, len(verdicts)),
	}
}

func manyVerdict(a *ask, v *weirv1.AdmitVerdict) ManyVerdict {
	row := ManyVerdict{Line: a.line, Op: a.Op, Dispatcher: a.Dispatcher, Facts: map[string]string{}}
	if ok := v.GetAdmission(); ok != nil {
		row.Admitted, row.Operator, row.Epoch = true, show.Token(ok.GetOpId()), show.Token(ok.GetEpoch())
		row.Dispatcher = max(row.Dispatcher, ok.GetDispatcher())
		return row
	}
	row.Reason, row.Message = v.GetRefusal().GetReason(), v.GetRefusal().GetMessage()
	for name, value := range v.GetRefusal().GetFacts() {
		row.Facts[name] = factValue(name, value)
	}
	return row
}
