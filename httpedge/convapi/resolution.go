package convapi

import (
	"encoding/json"

	"parley/httpedge/convapi/body"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
)

// resolutionInput is a decision in one of its three forms (document 2, POST /conversations/:id/actions/:actionId).
type resolutionInput struct{ resolve *conversationpb.Resolve }

// resolutionSchema has the fields of all three forms.
type resolutionSchema struct {
	Type               string          `json:"type" enum:"tool_approval,user_question,client_tool"`
	Decision           string          `json:"decision" enum:"allow,deny" doc:"tool_approval"`
	RememberForSession bool            `json:"rememberForSession" doc:"tool_approval: the tool needs no approval any more in this conversation"`
	ApprovedArgs       json.RawMessage `json:"approvedArgs" doc:"tool_approval: run the tool with these arguments instead"`
	Comment            string          `json:"comment" doc:"tool_approval: shown to the model with a denial"`
	Answers            json.RawMessage `json:"answers" doc:"user_question: question to answer"`
	Cancelled          bool            `json:"cancelled" doc:"user_question: the person will not answer"`
	Output             json.RawMessage `json:"output" any:"true" doc:"client_tool: any JSON value"`
	Error              string          `json:"error" doc:"client_tool: why the tool failed"`
}

// Described implements openapi.Described.
func (r resolutionInput) Described() (value any, nullable bool) { return resolutionSchema{}, false }

// UnmarshalJSON implements json.Unmarshaler.
func (r *resolutionInput) UnmarshalJSON(raw []byte) error {
	if body.IsNull(raw) {
		return nil
	}
	var in resolutionSchema
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if unknown := turns.KnownFields("resolution", raw, in); unknown != nil {
		return unknown
	}
	resolve, failure := turns.Resolution(in).Read()
	if failure != nil {
		return failure
	}
	r.resolve = resolve
	return nil
}
