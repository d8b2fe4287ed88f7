package convapi

import (
	"context"
	"encoding/json"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type rateMessageIn struct {
	ID        string          `path:"id"`
	MessageID string          `path:"messageId" doc:"An answer"`
	Rating    rated[string]   `json:"rating" required:"true" enum:"up,down" doc:"null takes the rating back"`
	Reasons   rated[[]string] `json:"reasons" doc:"With down only, of the agent's list"`
	Comment   rated[string]   `json:"comment" doc:"Plain text, as long as the agent allows"`
}

// rated is a field of a rating: a value of the wrong type is an invalid rating, not a malformed request.
type rated[T any] struct {
	Set   bool
	Value T
}

// UnmarshalJSON is called only for fields that are present.
func (r *rated[T]) UnmarshalJSON(raw []byte) error {
	r.Set = true
	if !body.IsNull(raw) && json.Unmarshal(raw, &r.Value) != nil {
		return failure.New(failurepb.Code_INVALID_FEEDBACK, failure.FeedbackTypes)
	}
	return nil
}

// Described implements openapi.Described.
func (r rated[T]) Described() (value any, nullable bool) { return r.Value, true }

// Validate implements endpoint.Validator.
func (in *rateMessageIn) Validate() *failure.Failure {
	switch {
	case !in.Rating.Set:
		return failure.New(failurepb.Code_INVALID_FEEDBACK, failure.RatingRequired).In("rating")
	case in.Rating.Value != "" && in.Rating.Value != "up" && in.Rating.Value != "down":
		return failure.New(failurepb.Code_INVALID_FEEDBACK, failure.RatingChoice).In("rating")
	}
	return nil
}

// rateMessage stores a user's rating of an answer; it replaces the previous one.
func (a *API) rateMessage(ctx context.Context, in *rateMessageIn) (*body.FeedbackResult, error) {
	reply, err := a.about(ctx, in.ID, in.MessageID, func(view *nodepb.MessageReply) (*conversationpb.Reply, error) {
		command := a.command(ctx, in.ID)
		command.Body = &conversationpb.Command_Rate{Rate: &conversationpb.Rate{
			Target: target(view), Rating: in.Rating.Value, Reasons: in.Reasons.Value, Comment: in.Comment.Value,
			Agent: a.agentOf(view.State),
		}}
		return a.ask(ctx, command)
	})
	if err != nil {
		return nil, err
	}
	return &body.FeedbackResult{Rated: reply.GetRated()}, nil
}
