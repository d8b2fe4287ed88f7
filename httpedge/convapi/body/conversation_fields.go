package body

import (
	"encoding/json"
	"strconv"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// All fields of a conversation on this surface are here: how they are set, changed, rendered, and described in the API document.

// CreateConversationIn is the body of a new conversation.
type CreateConversationIn struct {
	AgentID  string      `json:"agentId" required:"true"`
	UserID   string      `json:"userId" doc:"Owner; used only when no identity was established"`
	Title    string      `json:"title" doc:"At most 200 characters"`
	Metadata Metadata    `json:"metadata"`
	Budget   BudgetInput `json:"budget"`
}

// Validate implements endpoint.Validator.
func (in *CreateConversationIn) Validate() *failure.Failure {
	if in.AgentID == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("agentId")
	}
	return nil
}

// Create returns what the rules are asked for.
func (in *CreateConversationIn) Create(agent *agentpb.Agent) *conversationpb.Create {
	return &conversationpb.Create{Agent: agent.Rules(), Title: in.Title, Metadata: in.Metadata, Budget: in.Budget.Budget}
}

// UpdateConversationIn is the body of a change.
type UpdateConversationIn struct {
	ID       string             `path:"id"`
	Title    Optional[string]   `json:"title" doc:"At most 200 characters; empty or null clears it"`
	Pinned   Optional[bool]     `json:"pinned"`
	Metadata Optional[Metadata] `json:"metadata" doc:"Replaces the whole object; keys of the server survive"`
	Budget   BudgetInput        `json:"budget" doc:"null removes it"`
}

// Validate implements endpoint.Validator.
func (in *UpdateConversationIn) Validate() *failure.Failure {
	if in.Pinned.Null {
		return failure.New(failurepb.Code_VALIDATION, failure.MustBeBoolean).In("pinned")
	}
	if in.Metadata.Null {
		return failure.New(failurepb.Code_VALIDATION, failure.MustBeObject).In("metadata")
	}
	return nil
}

// Patch returns what is to change.
func (in *UpdateConversationIn) Patch() *conversationpb.Patch {
	patch := &conversationpb.Patch{Budget: in.Budget.Budget, RemoveBudget: in.Budget.Null}
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

// AppendConversation appends a conversation as JSON.
func AppendConversation(dst []byte, state *conversationpb.State) []byte {
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
