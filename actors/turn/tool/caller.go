package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/actors/schema"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// WithCallers adds the client tools that the caller of a turn supplies to a set. nil = no set. The error is the
// caller's: an invalid tool, or one whose name is taken.
func WithCallers(agents Set, specs []*agentpb.Tool) (Set, error) {
	joined := &callers{agents: agents, own: make(map[string]*Tool, len(specs))}
	if agents != nil {
		joined.definitions = slices.Clone(agents.Definitions())
	}
	check := new(schema.Checker)
	for _, spec := range specs {
		tool, err := callerTool(spec, check)
		if err != nil {
			return nil, fmt.Errorf("the tool %.64q: %w", spec.GetName(), err)
		}
		if _, taken := joined.Find(tool.Name); taken {
			return nil, fmt.Errorf("the tool %q: there is another one of that name", tool.Name)
		}
		joined.own[tool.Name] = tool
		joined.definitions = append(joined.definitions, model.Tool{
			Name: tool.Name, Description: tool.Description, Schema: tool.Schema, Strict: spec.Strict,
		})
	}
	slices.SortFunc(joined.definitions, func(a, b model.Tool) int { return strings.Compare(a.Name, b.Name) })
	return joined, nil
}

type callers struct {
	agents      Set // nil = none
	own         map[string]*Tool
	definitions []model.Tool
}

// Definitions implements Set.
func (c *callers) Definitions() []model.Tool { return c.definitions }

// Find implements Set.
func (c *callers) Find(name string) (*Tool, bool) {
	if own := c.own[name]; own != nil {
		return own, true
	}
	if c.agents == nil {
		return nil, false
	}
	return c.agents.Find(name)
}

func callerTool(spec *agentpb.Tool, check *schema.Checker) (*Tool, error) {
	if !validName(spec.GetName()) {
		return nil, errors.New("a name is 1 to 64 letters, digits, _ and -")
	}
	definition := spec.GetSchema()
	if len(definition) == 0 {
		definition = []byte(anyObject)
	}
	if err := checkDefinition(definition, check); err != nil {
		return nil, err
	}
	return &Tool{
		Name: spec.GetName(), Description: spec.GetDescription(), Schema: definition, Kind: Client, OfCaller: true,
		Policy: cmp.Or(spec.GetPolicy(), &agentpb.ToolPolicy{}),
	}, nil
}

// Checks are the checks of schemas that the edge has made before it sends a command.
type Checks struct{}

// Tools reports what is wrong with the tools that a caller supplies, as far as they show it.
func (Checks) Tools(specs []*agentpb.Tool) error {
	_, err := WithCallers(nil, specs)
	return err
}

// Args reports what of a call's arguments does not fit the schema of its tool. The error is the context's when that ends.
func (Checks) Args(ctx context.Context, definition, args []byte) error {
	return schema.Validate(ctx, definition, args)
}

// Format reports whether the schema of an output format is too complex for anyone to check. What else may be wrong with it the
// model's provider says, whose dialect is not ours.
func (Checks) Format(definition []byte) error {
	if err := schema.Check(definition); errors.Is(err, schema.ErrTooComplex) {
		return err
	}
	return nil
}
