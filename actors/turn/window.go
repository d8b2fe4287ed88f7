package turn

import (
	"context"
	"fmt"
	"slices"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// maxWindow bounds the messages of a window, whatever their size.
const maxWindow = 2000

// window is the newest part of the conversation that fits into the model's context beside the instructions and the
// answer, oldest first, ending with the message to answer and beginning with one of the user's, as some models demand.
// The message to answer is always in it, even alone: then the model says that it is too long. How many tokens a text
// takes is package model's estimate: about 3.5 bytes of English each.
func (r *Runner) window(ctx context.Context, job Job, agent *agentpb.Agent, history bool) ([]model.Message, error) {
	newest := model.Message{Role: model.User, Content: job.UserMessage.GetContent()}
	if !history || job.HistoryBefore <= 1 {
		return []model.Message{newest}, nil
	}
	room := model.Window(agent, nil) - model.EstimateMessage(newest)
	var backwards []model.Message
	err := r.config.History.Before(ctx, job.ConversationID, job.HistoryBefore, func(m *conversationpb.Message) bool {
		said := said(m)
		for _, part := range said {
			room -= model.EstimateMessage(part)
		}
		if room < 0 || len(backwards)+len(said) > maxWindow {
			return false
		}
		slices.Reverse(said)
		backwards = append(backwards, said...)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	slices.Reverse(backwards)
	for len(backwards) > 0 && backwards[0].Role != model.User {
		backwards = backwards[1:]
	}
	return append(backwards, newest), nil
}

// said is a stored message as a model reads it. An answer without text is nothing that was said.
func said(m *conversationpb.Message) []model.Message {
	if m.GetRole() == conversationpb.Role_USER {
		return []model.Message{{Role: model.User, Content: m.GetContent()}}
	}
	var parts []model.Message
	if calls := m.GetToolCalls(); len(calls) > 0 {
		asked := model.Message{Role: model.Assistant}
		results := make([]model.Message, 0, len(calls))
		for _, call := range calls {
			asked.ToolCalls = append(asked.ToolCalls, model.ToolCall{
				ID: call.GetId(), Name: call.GetName(), Arguments: call.GetArguments(),
			})
			result := call.GetResult()
			if call.GetError() != "" {
				result = "error: " + call.GetError()
			}
			results = append(results, model.Message{Role: model.ToolRole, ToolID: call.GetId(), Content: result})
		}
		parts = append(append(parts, asked), results...)
	}
	if m.GetContent() != "" {
		parts = append(parts, model.Message{Role: model.Assistant, Content: m.GetContent()})
	}
	return parts
}
