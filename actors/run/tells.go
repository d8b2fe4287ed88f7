package run

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/proto/runpb"
)

// runData is what webhooks are told of a run (document 1, "Events").
type runData struct {
	RunID          string `json:"runId"`
	ConversationID string `json:"conversationId"`
	AgentKey       string `json:"agentKey"`
}

// tells says what webhooks may be told of a change: the states that somebody may wait for, whether or not the run has a callback.
func tells(before, after proto.Message, events []proto.Message) []kit.Notice {
	was, _ := before.(*runpb.State)
	is, _ := after.(*runpb.State)
	if is == nil || len(events) == 0 || is.GetStatus() == was.GetStatus() {
		return nil
	}
	kind := toldAs(is.GetStatus())
	if kind == "" {
		return nil
	}
	return []kit.Notice{{
		TenantID: is.GetTenantId(), ProjectID: is.GetProjectId(), Type: kind, About: is.GetConversationId(), At: is.GetUpdatedAt(),
		Data: runData{RunID: is.GetId(), ConversationID: is.GetConversationId(), AgentKey: is.GetAgentId()},
	}}
}

func toldAs(status runpb.Status) string {
	switch status {
	case runpb.Status_SUCCEEDED:
		return subscription.RunSucceeded
	case runpb.Status_FAILED:
		return subscription.RunFailed
	case runpb.Status_CANCELED:
		return subscription.RunCanceled
	case runpb.Status_REQUIRES_ACTION:
		return subscription.RunRequiresAction
	default:
		return ""
	}
}
