package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/proto/conversationpb"
)

// Data of events that webhooks are told of (document 1, "Events"): ids and small fields, never what was said.
type (
	idledData struct {
		ConversationID string `json:"conversationId"`
		AgentKey       string `json:"agentKey"`
		StopReason     string `json:"stopReason"`
	}
	workDoneData struct {
		ConversationID string `json:"conversationId"`
		AgentKey       string `json:"agentKey"`
	}
	actionData struct {
		ConversationID string `json:"conversationId"`
		AgentKey       string `json:"agentKey"`
		ActionID       string `json:"actionId"`
		Kind           string `json:"kind"`
	}
	budgetData struct {
		ConversationID string  `json:"conversationId"`
		AgentKey       string  `json:"agentKey"`
		SpentUSD       float64 `json:"spentUsd"`
		MaxCostUSD     float64 `json:"maxCostUsd"`
	}
	feedbackData struct {
		ConversationID string   `json:"conversationId"`
		AgentKey       string   `json:"agentKey"`
		MessageID      string   `json:"messageId"`
		MessageIndex   uint64   `json:"messageIndex"`
		Rating         *string  `json:"rating"`
		Reasons        []string `json:"reasons"`
		HasComment     bool     `json:"hasComment"`
		Channel        string   `json:"channel"`
		PortalID       *string  `json:"portalId"`
		Withdrawn      bool     `json:"withdrawn,omitempty"`
	}
)

// actionKind is how webhooks name what a person, or a page, must do.
func actionKind(kind string) string {
	if kind == "user_question" {
		return kind
	}
	return "tool_approval"
}

// Tells says what webhooks may be told of a change.
func Tells(_, after proto.Message, events []proto.Message) (notices []kit.Notice) {
	state, _ := after.(*conversationpb.State)
	if state == nil {
		return nil
	}
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		notices = tell(notices, state, event)
	}
	return notices
}

func tell(notices []kit.Notice, s *conversationpb.State, event *conversationpb.Event) []kit.Notice {
	add := func(kind string, data any) {
		notices = append(notices, kit.Notice{
			TenantID: s.GetTenantId(), ProjectID: s.GetProjectId(), Type: kind, About: s.GetId(), At: event.GetCreatedAt(), Data: data,
		})
	}
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_TurnEnded:
		reason := body.TurnEnded.GetStopReason()
		add(subscription.SessionIdled, idledData{s.GetId(), s.GetAgentId(), stopText(reason)})
		if reason == conversationpb.StopReason_END_TURN {
			add(subscription.SessionWorkDone, workDoneData{s.GetId(), s.GetAgentId()})
		}
	case *conversationpb.Event_TurnPaused:
		add(subscription.SessionIdled, idledData{s.GetId(), s.GetAgentId(), stopText(conversationpb.StopReason_REQUIRES_ACTION)})
	case *conversationpb.Event_ActionRequested:
		action := body.ActionRequested.GetAction()
		add(subscription.ActionRequired, actionData{s.GetId(), s.GetAgentId(), action.GetId(), actionKind(action.GetKind())})
	case *conversationpb.Event_BudgetReached:
		const nano = 1e9
		add(subscription.BudgetReached, budgetData{
			s.GetId(), s.GetAgentId(), float64(body.BudgetReached.GetSpentNanoUsd()) / nano,
			float64(body.BudgetReached.GetBudget().GetMaxCostNanoUsd()) / nano,
		})
	case *conversationpb.Event_MessageChanged:
		add(subscription.FeedbackRecorded, newFeedbackData(s, body.MessageChanged.GetMessage()))
	}
	return notices
}

// newFeedbackData tells of a rating without its comment.
func newFeedbackData(s *conversationpb.State, rated *conversationpb.Message) feedbackData {
	feedback := rated.GetFeedback()
	data := feedbackData{
		ConversationID: s.GetId(), AgentKey: s.GetAgentId(), MessageID: rated.GetId(), MessageIndex: max(rated.GetNumber(), 1) - 1,
		Reasons: append([]string{}, feedback.GetReasons()...), HasComment: feedback.GetComment() != "", Channel: "api",
	}
	if rating := feedback.GetRating(); rating != "" {
		data.Rating = &rating
	} else {
		data.Withdrawn = true
	}
	return data
}

func stopText(reason conversationpb.StopReason) string {
	switch reason {
	case conversationpb.StopReason_END_TURN:
		return "end_turn"
	case conversationpb.StopReason_REQUIRES_ACTION:
		return "requires_action"
	case conversationpb.StopReason_CANCELLED:
		return "cancelled"
	case conversationpb.StopReason_MAX_TURNS, conversationpb.StopReason_LIMIT:
		return "limit"
	case conversationpb.StopReason_BUDGET_REACHED:
		return "budget_reached"
	default:
		return "error"
	}
}
