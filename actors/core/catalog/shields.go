package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley/actors/core/aegis"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/actors/core/routing"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxShields bounds the shields of a project.
const maxShields = 200

// ShieldInput is what to create or change of a shield. What is nil or empty stays as it is.
type ShieldInput struct {
	Name, Description, Mode *string
	Rules, DLP              json.RawMessage // each replaces what is stored
	LLM                     json.RawMessage // as well; null = none
}

// CreateShield creates a shield, by default one that enforces and redacts.
func (c *Catalog) CreateShield(ctx context.Context, caller Caller, in ShieldInput) (*directorypb.Shield, error) {
	shield := aegis.Default(caller.TenantID, caller.ProjectID)
	shield.Id, shield.Name, shield.CreatedBy, shield.CreatedAt = c.env.NewID("shd"), "", caller.UserID, c.env.Now().UnixMilli()
	if in.Mode != nil && *in.Mode == "" {
		in.Mode = nil
	}
	if err := c.judgeable(caller.ProjectID, in.LLM); err != nil {
		return nil, err
	}
	if err := c.applyShield(in, shield); err != nil {
		return nil, err
	}
	return shield, c.shields.Create(ctx, shield, nil, limit("shields", projectTerm(caller.ProjectID), maxShields))
}

// ListShields returns the shields of a project: the default one, then the others by age.
func (c *Catalog) ListShields(tenantID, projectID string) ([]*directorypb.Shield, error) {
	all, err := c.shields.ByKey(Key(projectID, ""))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *directorypb.Shield) int { return int(a.GetCreatedAt() - b.GetCreatedAt()) })
	at := slices.IndexFunc(all, func(s *directorypb.Shield) bool { return s.GetId() == aegis.DefaultID })
	first := aegis.Default(tenantID, projectID)
	if at >= 0 {
		first = all[at]
		all = slices.Delete(all, at, at+1)
	}
	return append([]*directorypb.Shield{first}, all...), nil
}

// Shield finds a shield of a project; every project has the default one.
func (c *Catalog) Shield(ctx context.Context, tenantID, projectID, id string) (*directorypb.Shield, error) {
	if !isKey(id) {
		return nil, noShield()
	}
	shield, err := c.shields.Get(ctx, Key(projectID, id))
	if _, none := errors.AsType[*collection.MissingError](err); none {
		if id == aegis.DefaultID {
			return aegis.Default(tenantID, projectID), nil
		}
		return nil, noShield()
	}
	return shield, err
}

func noShield() error { return failure.New(failurepb.Code_NOT_FOUND, failure.ShieldNotFound) }

// UpdateShield changes what the input names of a shield; the default one is recorded by its first change.
func (c *Catalog) UpdateShield(ctx context.Context, caller Caller, id string, in ShieldInput) (*directorypb.Shield, error) {
	stored, err := c.Shield(ctx, caller.TenantID, caller.ProjectID, id)
	if err == nil {
		err = c.judgeable(caller.ProjectID, in.LLM)
	}
	if err != nil {
		return nil, err
	}
	if stored.GetCreatedAt() == 0 {
		stored.CreatedAt, stored.CreatedBy = c.env.Now().UnixMilli(), caller.UserID
		if err := c.applyShield(in, stored); err != nil {
			return nil, err
		}
		err := c.shields.Create(ctx, stored, nil)
		if _, there := errors.AsType[*collection.ExistsError](err); !there {
			return stored, err
		}
	}
	return c.shields.Change(ctx, Key(caller.ProjectID, id), func(shield *directorypb.Shield) error { return c.applyShield(in, shield) })
}

// DeleteShield deletes a shield; the default one stays.
func (c *Catalog) DeleteShield(ctx context.Context, caller Caller, id string) error {
	if id == aegis.DefaultID {
		return failure.New(failurepb.Code_FORBIDDEN, failure.ShieldFixed)
	}
	if _, err := c.Shield(ctx, caller.TenantID, caller.ProjectID, id); err != nil {
		return err
	}
	return c.shields.Delete(ctx, Key(caller.ProjectID, id), nil)
}

// applyShield puts an input into a shield.
func (c *Catalog) applyShield(in ShieldInput, shield *directorypb.Shield) error {
	shield.UpdatedAt = c.env.Now().UnixMilli()
	if in.Name != nil {
		shield.Name = strings.TrimSpace(naming.Plain(*in.Name))
	}
	if in.Description != nil {
		shield.Description = strings.TrimSpace(*in.Description)
	}
	if in.Mode != nil {
		shield.Mode = *in.Mode
	}
	if len(in.Rules) > 0 {
		shield.Rules = in.Rules
	}
	if len(in.DLP) > 0 {
		if wrong := aegis.CheckDLP(in.DLP); wrong != nil {
			return wrong
		}
		shield.Dlp = in.DLP
	}
	if len(in.LLM) > 0 {
		if shield.Llm = in.LLM; string(in.LLM) == "null" {
			shield.Llm = nil
		}
	}
	read, wrong := aegis.Of(shield)
	if wrong != nil {
		return wrong
	}
	if len(shield.GetLlm()) > 0 {
		shield.Llm = read.LLM.Text()
	}
	check := c.env.CheckSchema
	if check == nil {
		check = func([]byte) error { return nil }
	}
	if wrong := read.Validate(check); wrong != nil {
		return wrong
	}
	return nil
}

// judgeable refuses a model that cannot judge. One that is deleted or changed later gives no verdicts: the shield says what that means.
func (c *Catalog) judgeable(projectID string, llm json.RawMessage) error {
	read, wrong := aegis.Of(&directorypb.Shield{Llm: llm})
	if string(llm) == "null" || wrong != nil || read.LLM.ModelKey == "" { // what is wrong is said by applyShield
		return nil //nolint:nilerr // as said
	}
	checker := routing.NewChecker(func(key string) (routing.Found, bool) {
		if !isKey(key) {
			return routing.Found{}, false
		}
		return c.routed(projectID, key)
	})
	if _, refused := checker.Model("llm.modelKey", read.LLM.ModelKey, "llm"); refused != nil {
		return refused
	}
	return nil
}
