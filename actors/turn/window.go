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

// windowNeeds is what else a window depends on.
type windowNeeds struct {
	history bool // the model wants to read what was said before
	tools   []model.Tool
	admit   func(ctx context.Context, file *conversationpb.FileRef, text string) (left, note string) // judges a document's text
}

// window is the newest part of the conversation that fits into the model's context beside the instructions, the tools and
// the answer, oldest first, ending with the message to answer and beginning with one of the user's, as some models
// demand. The message to answer is always in it, even alone: then the model says that it is too long. How many tokens
// a text takes is package model's estimate: about 3.5 bytes of English each.
func (r *Runner) window(ctx context.Context, job Job, agent *agentpb.Agent, needs windowNeeds) ([]model.Message, error) {
	newest := model.Message{Role: model.User, Content: job.UserMessage.GetContent()}
	room := model.Window(agent, needs.tools)
	attached := &attachments{
		files: r.config.Files, documents: r.config.Documents, tenant: job.TenantID, texts: r.texts, agent: agent, log: r.config.Logger,
		admit: needs.admit,
	}
	if err := attached.to(ctx, &newest, job.UserMessage.GetFiles(), room-room/4); err != nil {
		return nil, err
	}
	if !needs.history || job.HistoryBefore <= 1 {
		return []model.Message{newest}, nil
	}
	room -= model.EstimateMessage(newest)
	past, err := r.past(ctx, job, room)
	if err != nil {
		return nil, err
	}
	return attached.window(ctx, past, newest, room)
}

// past is what was said before, newest first, until the room is full.
func (r *Runner) past(ctx context.Context, job Job, room int) ([]*conversationpb.Message, error) {
	var backwards []*conversationpb.Message
	parts := 0
	err := r.config.History.Before(ctx, job.ConversationID, job.HistoryBefore, func(m *conversationpb.Message) bool {
		said := said(m)
		for _, part := range said {
			room -= model.EstimateMessage(part)
		}
		if parts += len(said); room < 0 || parts > maxWindow {
			return false
		}
		backwards = append(backwards, m)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return backwards, nil
}

// window puts earlier messages, newest first, and the message to answer together. Files of the earlier ones are read
// too, in place of what is oldest.
func (a *attachments) window(
	ctx context.Context, past []*conversationpb.Message, newest model.Message, room int,
) ([]model.Message, error) {
	backwards := []model.Message{newest}
	for _, message := range past {
		said := said(message)
		if message.GetRole() == conversationpb.Role_USER && len(message.GetFiles()) > 0 {
			if err := a.to(ctx, &said[0], message.GetFiles(), room/4); err != nil {
				return nil, err
			}
		}
		for _, part := range said {
			room -= model.EstimateMessage(part)
		}
		if room < 0 {
			break
		}
		slices.Reverse(said)
		backwards = append(backwards, said...)
	}
	slices.Reverse(backwards)
	for backwards[0].Role != model.User {
		backwards = backwards[1:]
	}
	return backwards, nil
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
			if call.GetResult() == "" && call.GetError() == "" && m.GetStatus() != "completed" {
				continue // never run; the provider's own form says so
			}
			results = append(results, resultMessage(call))
		}
		parts = append(append(parts, asked), results...)
	}
	if m.GetContent() != "" {
		parts = append(parts, model.Message{Role: model.Assistant, Content: m.GetContent()})
	}
	return parts
}
