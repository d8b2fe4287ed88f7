package config

import "parley/proto/agentpb"

// DefaultExperience returns the switches of an agent that sets none.
func DefaultExperience() *agentpb.Experience { return experienceRecord(&Experience{}) }

// DefaultPolicy returns the policy of a tool that sets none.
func (c *Config) DefaultPolicy() *agentpb.ToolPolicy {
	return c.policyRecord(&checker{}, "", &ToolPolicy{})
}

// DefaultModel returns a model with default limits.
func DefaultModel() *agentpb.Model {
	return &agentpb.Model{
		ContextTokens:       defaultContextTokens,
		FirstTokenTimeoutMs: defaultFirstTokenTimeout.Milliseconds(),
		IdleTimeoutMs:       defaultIdleTimeout.Milliseconds(),
		TotalTimeoutMs:      defaultTotalTimeout.Milliseconds(),
		MaxRetries:          defaultRetries,
	}
}

// DefaultAttachments returns the limits of an agent that accepts files and sets no limits.
func DefaultAttachments() *agentpb.Attachments {
	return capabilityRecord(&Capabilities{Attachments: Attachments{Enabled: true}}).GetAttachments()
}
