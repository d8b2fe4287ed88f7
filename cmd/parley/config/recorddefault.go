package config

import "parley/proto/agentpb"

// DefaultExperience is the switches of an agent that sets none.
func DefaultExperience() *agentpb.Experience { return experienceRecord(&Experience{}) }

// DefaultPolicy is how a tool may be run that says nothing of it.
func (c *Config) DefaultPolicy() *agentpb.ToolPolicy {
	return c.policyRecord(&checker{}, "", &ToolPolicy{})
}

// DefaultModel is a model with the limits of one that sets none.
func DefaultModel() *agentpb.Model {
	return &agentpb.Model{
		ContextTokens:       defaultContextTokens,
		FirstTokenTimeoutMs: defaultFirstTokenTimeout.Milliseconds(),
		IdleTimeoutMs:       defaultIdleTimeout.Milliseconds(),
		TotalTimeoutMs:      defaultTotalTimeout.Milliseconds(),
		MaxRetries:          defaultRetries,
	}
}

// DefaultAttachments is what an agent takes that takes files and does not say how many and how large.
func DefaultAttachments() *agentpb.Attachments {
	return capabilityRecord(&Capabilities{Attachments: Attachments{Enabled: true}}).GetAttachments()
}
