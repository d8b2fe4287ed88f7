package catalog

import (
	"parley/actors/core/definition"
	"parley/proto/directorypb"
)

// GuardrailUse is a model or an agent that names a guardrail, for what goes in, for what comes out, or for both.
type GuardrailUse struct {
	Key, Name     string
	Input, Output bool
}

// ModelsOfGuardrail are the models of a project that name a guardrail, by key.
func (c *Catalog) ModelsOfGuardrail(projectID, key string) (uses []GuardrailUse, err error) {
	models, err := c.models.ByKey(Key(projectID, ""))
	for _, model := range models {
		use := GuardrailUse{Key: model.GetKey(), Name: model.GetName(), Input: model.GetInputGuardrail() == key, Output: model.GetOutputGuardrail() == key}
		if use.Input || use.Output {
			uses = append(uses, use)
		}
	}
	return uses, err
}

// AgentsOfGuardrail are the agents of a project that name a guardrail as they are saved or as they are published, by key.
func (c *Catalog) AgentsOfGuardrail(projectID, key string) (uses []GuardrailUse, err error) {
	agents, err := c.agents.ByKey(Key(projectID, ""))
	for _, agent := range agents {
		use := GuardrailUse{Key: agent.GetKey(), Name: agent.GetDraft().GetName()}
		use.of(agent.GetDraft(), key)
		use.of(c.versions.Known(VersionKey(Key(projectID, agent.GetKey()), agent.GetPublishedVersion())).GetDefinition(), key)
		if use.Input || use.Output {
			uses = append(uses, use)
		}
	}
	return uses, err
}

func (u *GuardrailUse) of(said *directorypb.Definition, key string) {
	if config, err := definition.Parse(said.GetConfig()); err == nil {
		u.Input, u.Output = u.Input || config.InputGuardrail == key, u.Output || config.OutputGuardrail == key
	}
}
