package convapi

import (
	"encoding/json"
	"strconv"

	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/httpedge/endpoint/wire"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// All fields of a conversation on this surface are here: how they are set, changed, rendered, and described in the API document.

type createConversationIn struct {
	AgentID  string      `json:"agentId" required:"true"`
	UserID   string      `json:"userId" doc:"Owner; used only when no identity was established"`
	Title    string      `json:"title" doc:"At most 200 characters"`
	Metadata metadata    `json:"metadata"`
	Budget   budgetInput `json:"budget"`
}

// Validate implements endpoint.Validator.
func (in *createConversationIn) Validate() *machine.Failure {
	if in.AgentID == "" {
		return machine.Fail(failurepb.Code_VALIDATION, "agentId is required")
	}
	return nil
}

func (in *createConversationIn) create(agent *agentpb.Agent) *conversationpb.Create {
	return &conversationpb.Create{Agent: agent, Title: in.Title, Metadata: in.Metadata, Budget: in.Budget.budget}
}

type updateConversationIn struct {
	ID       string             `path:"id"`
	Title    optional[string]   `json:"title" doc:"At most 200 characters; empty or null clears it"`
	Pinned   optional[bool]     `json:"pinned"`
	Metadata optional[metadata] `json:"metadata" doc:"Replaces the whole object; keys of the server survive"`
	Budget   budgetInput        `json:"budget" doc:"null removes it"`
}

// Validate implements endpoint.Validator.
func (in *updateConversationIn) Validate() *machine.Failure {
	if in.Pinned.Null {
		return machine.Fail(failurepb.Code_VALIDATION, "pinned must be true or false")
	}
	if in.Metadata.Null {
		return machine.Fail(failurepb.Code_VALIDATION, "metadata must be an object")
	}
	return nil
}

func (in *updateConversationIn) patch() *conversationpb.Patch {
	patch := &conversationpb.Patch{Budget: in.Budget.budget, RemoveBudget: in.Budget.Null}
	if in.Title.Set {
		patch.Title = &in.Title.Value
	}
	if in.Pinned.Set {
		patch.Pinned = &in.Pinned.Value
	}
	if in.Metadata.Set {
		patch.Metadata = in.Metadata.Value
	}
	return patch
}

type conversationSchema struct {
	ID          string          `json:"id"`
	AgentID     string          `json:"agentId"`
	AgentName   string          `json:"agentName,omitempty"`
	UserID      string          `json:"userId,omitempty" doc:"Owner"`
	Title       string          `json:"title,omitempty"`
	Metadata    json.RawMessage `json:"metadata"`
	State       json.RawMessage `json:"state"`
	Pinned      bool            `json:"pinned"`
	Budget      *budgetSchema   `json:"budget"`
	SpentUSD    usd             `json:"spentUsd"`
	Runtime     runtimeSchema   `json:"runtime"`
	Continuable bool            `json:"continuable" doc:"A turn cut short by the budget waits for continue"`
	CreatedAt   isoTime         `json:"createdAt" format:"date-time"`
	UpdatedAt   isoTime         `json:"updatedAt" format:"date-time"`
}

func appendConversation(dst []byte, state *conversationpb.State) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, state.GetId())
	dst = append(dst, `,"agentId":`...)
	dst = wire.AppendString(dst, state.GetAgentId())
	dst = wire.AppendOptional(dst, `,"agentName":`, state.GetAgentName())
	dst = wire.AppendOptional(dst, `,"userId":`, state.GetUserId())
	dst = wire.AppendOptional(dst, `,"title":`, state.GetTitle())
	dst = append(dst, `,"metadata":`...)
	dst = appendMerged(dst, state.GetMetadata(), serverMetadata(state))
	dst = append(dst, `,"state":`...)
	dst = wire.AppendObject(dst, state.GetState())
	dst = append(dst, `,"pinned":`...)
	dst = strconv.AppendBool(dst, state.GetPinned())
	dst = append(dst, `,"budget":`...)
	dst = appendBudget(dst, state.GetBudget())
	dst = append(dst, `,"spentUsd":`...)
	dst = money.Append(dst, state.GetSpentNanoUsd())
	dst = append(dst, `,"runtime":`...)
	dst = appendRuntime(dst, state)
	dst = append(dst, `,"continuable":`...)
	dst = strconv.AppendBool(dst, state.GetContinuable())
	dst = append(dst, `,"createdAt":`...)
	dst = wire.AppendTime(dst, state.GetCreatedAt())
	dst = append(dst, `,"updatedAt":`...)
	dst = wire.AppendTime(dst, state.GetUpdatedAt())
	return append(dst, '}')
}
