package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/core/naming"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxGuardrails bounds the guardrails of a project.
const maxGuardrails = 200

// GuardrailInput is what to create or change of a guardrail. What is nil or empty stays as it is.
type GuardrailInput struct {
	Key                                string // of a new one; made of the name when empty
	Name, Description, Action, Message *string
	Enabled                            *bool
	Rules                              json.RawMessage // replaces what is stored
}

// CreateGuardrail creates a guardrail, by default one that is enabled and blocks.
func (c *Catalog) CreateGuardrail(ctx context.Context, caller Caller, in GuardrailInput) (*directorypb.Guardrail, error) {
	made := &directorypb.Guardrail{
		Id: c.env.NewID("grd"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: in.Key, Enabled: true, Action: guardrail.Block,
		CreatedBy: caller.UserID, CreatedAt: c.env.Now().UnixMilli(),
	}
	if made.Key == "" {
		made.Key = c.newKey(value(in.Name), "guardrail")
	}
	if !isKey(made.Key) || made.Key == "default" || made.Key == "evaluate" { // the built-in one of POST /moderations, and a path
		return nil, invalid(failure.BadKey).In("key")
	}
	if err := c.applyGuardrail(in, made); err != nil {
		return nil, err
	}
	return made, c.guardrails.Create(ctx, made, nil, limit("guardrails", projectTerm(caller.ProjectID), maxGuardrails))
}

// ListGuardrails returns the guardrails of a project by age.
func (c *Catalog) ListGuardrails(projectID string) ([]*directorypb.Guardrail, error) {
	all, err := c.guardrails.ByKey(Key(projectID, ""))
	slices.SortStableFunc(all, func(a, b *directorypb.Guardrail) int { return int(a.GetCreatedAt() - b.GetCreatedAt()) })
	return all, err
}

// Guardrail finds a guardrail of a project by key.
func (c *Catalog) Guardrail(ctx context.Context, projectID, key string) (*directorypb.Guardrail, error) {
	if !isKey(key) {
		return nil, noGuardrail()
	}
	found, err := c.guardrails.Get(ctx, Key(projectID, key))
	if _, none := errors.AsType[*collection.MissingError](err); none {
		return nil, noGuardrail()
	}
	return found, err
}

func noGuardrail() error { return failure.New(failurepb.Code_NOT_FOUND, failure.GuardrailNotFound) }

// UpdateGuardrail changes what the input names of a guardrail.
func (c *Catalog) UpdateGuardrail(ctx context.Context, caller Caller, key string, in GuardrailInput) (*directorypb.Guardrail, error) {
	if _, err := c.Guardrail(ctx, caller.ProjectID, key); err != nil {
		return nil, err
	}
	return c.guardrails.Change(ctx, Key(caller.ProjectID, key), func(one *directorypb.Guardrail) error { return c.applyGuardrail(in, one) })
}

// DeleteGuardrail deletes a guardrail. Models and agents that name it are refused until they name another.
func (c *Catalog) DeleteGuardrail(ctx context.Context, caller Caller, key string) error {
	if _, err := c.Guardrail(ctx, caller.ProjectID, key); err != nil {
		return err
	}
	return c.guardrails.Delete(ctx, Key(caller.ProjectID, key), nil)
}

// applyGuardrail puts an input into a guardrail.
func (c *Catalog) applyGuardrail(in GuardrailInput, one *directorypb.Guardrail) error {
	one.UpdatedAt = c.env.Now().UnixMilli()
	for _, text := range []struct{ from, to *string }{
		{in.Description, &one.Description}, {in.Action, &one.Action}, {in.Message, &one.Message},
	} {
		if text.from != nil {
			*text.to = strings.TrimSpace(*text.from)
		}
	}
	if in.Name != nil {
		one.Name = strings.TrimSpace(naming.Plain(*in.Name))
	}
	if one.GetAction() == "" {
		one.Action = guardrail.Block
	}
	if in.Enabled != nil {
		one.Enabled = *in.Enabled
	}
	if len(in.Rules) > 0 {
		one.Rules = in.Rules
	}
	if _, wrong := guardrail.Of(one); wrong != nil {
		return wrong
	}
	return nil
}
