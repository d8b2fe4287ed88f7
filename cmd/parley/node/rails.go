package node

import (
	"context"
	"sync"

	"parley/actors/core/catalog"
	"parley/actors/core/guardrail"
	"parley/cmd/parley/node/registry"
	"parley/httpedge/gateway"
	"parley/proto/directorypb"
)

// rails implements gateway.Rails. It keeps guardrails that it has read, as long as their records do not change.
type rails struct {
	models  *registry.Registry
	catalog *catalog.Catalog

	mu    sync.Mutex
	known map[string]*guardrail.Guardrail // by id
}

var _ gateway.Rails = (*rails)(nil)

// maxRails bounds the guardrails that are kept; beyond that all are read anew.
const maxRails = 1024

// Keys implements gateway.Rails.
func (r *rails) Keys(projectID, model string) (input, output string) {
	_, record, _ := r.models.Model(projectID, model)
	return record.GetInputGuardrail(), record.GetOutputGuardrail()
}

// Guardrail implements gateway.Rails.
func (r *rails) Guardrail(ctx context.Context, projectID, key string) (*guardrail.Guardrail, error) {
	record, err := r.catalog.Guardrail(ctx, projectID, key)
	if err != nil {
		return nil, err
	}
	return r.read(record)
}

// Moderation implements gateway.Rails.
func (r *rails) Moderation(projectID string) (*guardrail.Guardrail, error) {
	all, err := r.catalog.ListGuardrails(projectID)
	if err != nil {
		return nil, err
	}
	for _, record := range all {
		if !record.GetEnabled() {
			continue
		}
		if rail, err := r.read(record); err != nil || rail.Moderates() {
			return rail, err
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

func (r *rails) read(record *directorypb.Guardrail) (*guardrail.Guardrail, error) {
	r.mu.Lock()
	known := r.known[record.GetId()]
	r.mu.Unlock()
	if known != nil && string(known.GetRules()) == string(record.GetRules()) && known.GetEnabled() == record.GetEnabled() &&
		known.GetAction() == record.GetAction() && known.GetMessage() == record.GetMessage() {
		return known, nil
	}
	made, wrong := guardrail.Of(record)
	if wrong != nil {
		return nil, wrong
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRails {
		r.known = map[string]*guardrail.Guardrail{}
	}
	r.known[record.GetId()] = made
	return made, nil
}
