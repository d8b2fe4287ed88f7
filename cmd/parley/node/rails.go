package node

import (
	"context"
	"net/http"
	"sync"

	"parley/actors/core/catalog"
	"parley/actors/core/guardrail"
	"parley/actors/core/routing"
	"parley/cmd/parley/node/registry"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/proto/directorypb"
)

// rails implements gateway.Rails, and finds guardrails for agents. It keeps guardrails that it has read, as long as their records do not change.
type rails struct {
	models  *registry.Registry
	catalog *catalog.Catalog

	mu    sync.Mutex
	known map[string]*guardrail.Guardrail // by id
}

var _ gateway.Rails = (*rails)(nil)

// maxRails bounds the guardrails that are kept; beyond that all are read anew.
const maxRails = 1024

// Keys implements gateway.Rails. What may be called in the place of a dynamic model is not known yet: its own guardrails count, and where it
// names none, those of the models that it names, which must then have the same.
func (r *rails) Keys(projectID, model string) (input, output string, err error) {
	_, record, _ := r.models.Model(projectID, model)
	input, output = record.GetInputGuardrail(), record.GetOutputGuardrail()
	if (input != "" && output != "") || catalog.Dynamic(record) == nil {
		return input, output, nil
	}
	inputs, outputs := map[string]bool{}, map[string]bool{}
	r.named(projectID, record, routing.MaxNesting, func(target *directorypb.Model) {
		inputs[target.GetInputGuardrail()], outputs[target.GetOutputGuardrail()] = true, true
	})
	if input == "" {
		input, err = r.only(model, "input", inputs)
	}
	if output == "" && err == nil {
		output, err = r.only(model, "output", outputs)
	}
	return input, output, err
}

// named visits the models that may be called in the place of a dynamic one.
func (r *rails) named(projectID string, record *directorypb.Model, depth int, visit func(*directorypb.Model)) {
	settings := catalog.Dynamic(record)
	if settings == nil || depth < 0 {
		visit(record)
		return
	}
	for _, key := range settings.Models() {
		if _, target, _ := r.models.Model(projectID, key); target != nil { // a dynamic one is no model that is called
			r.named(projectID, target, depth-1, visit)
		}
	}
}

// only is the one guardrail of several models, "" if none names one.
func (*rails) only(model, side string, keys map[string]bool) (string, error) {
	delete(keys, "")
	if len(keys) > 1 {
		return "", &endpoint.Problem{
			Status: http.StatusForbidden, Code: "guardrail_ambiguous",
			Message: "The models that `" + model + "` chooses from name different " + side + " guardrails; name one at `" + model + "`",
		}
	}
	for key := range keys {
		return key, nil
	}
	return "", nil
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
		known.GetName() == record.GetName() && known.GetAction() == record.GetAction() && known.GetMessage() == record.GetMessage() {
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
