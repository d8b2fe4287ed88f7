package agentpb

// Rules is the part of an agent that the rules of a conversation read, and all of it that a command carries to the conversation's
// owner: keys, headers and secrets stay in the process. Whoever runs a turn looks the agent up where the turn runs. nil = no agent.
func (x *Agent) Rules() *Agent {
	if x == nil {
		return nil
	}
	return &Agent{
		Id: x.GetId(), Name: x.GetName(), Model: &Model{Price: x.GetModel().GetPrice()}, DefaultBudget: x.GetDefaultBudget(),
		Experience: x.GetExperience(), Capabilities: &Capabilities{Attachments: x.GetCapabilities().GetAttachments()},
	}
}
