package conversation

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	ratingUp   = "up"
	ratingDown = "down"

	defaultCommentRunes = 1000 // document 2, "Limits"
)

// defaultReasons are offered by an agent that does not say (document 2, "Limits").
func defaultReasons() []string {
	return []string{"inaccurate", "incomplete", "off_topic", "too_long", "unsafe", "other"}
}

// rate keeps one rating of an answer; a new one replaces the old (document 2, "Rules for sending a message"). It needs
// no lease: it may come while another turn runs. The same rating again stores nothing and tells nobody.
func (r *request) rate(c *conversationpb.Rate) (machine.Decision, *machine.Failure) {
	if f := r.access(); f != nil {
		return machine.Decision{}, f
	}
	experience := c.GetAgent().GetExperience()
	if experience != nil && !experience.GetFeedbackEnabled() {
		return refuse(failurepb.Code_FEEDBACK_DISABLED, "the agent takes no feedback")
	}
	feedback, f := rating(c, experience)
	if f != nil {
		return machine.Decision{}, f
	}
	if f = r.ratable(c.GetTarget()); f != nil {
		return machine.Decision{}, f
	}
	feedback.UserId, feedback.CreatedAt, feedback.UpdatedAt = clean(r.command.GetCaller().GetUserId()), r.now, r.now
	message := c.GetTarget().GetMessage()
	was := message.GetFeedback()
	if was != nil {
		feedback.CreatedAt = was.GetCreatedAt()
	}
	reply := &conversationpb.Rated{MessageId: message.GetId(), Feedback: feedback}
	decision := machine.Decision{Reply: &conversationpb.Reply{Body: &conversationpb.Reply_Rated{Rated: reply}}}
	if was == nil && feedback.GetRating() == "" {
		return decision, nil // nothing to take back
	}
	if sameRating(was, feedback) {
		reply.Feedback = was
		return decision, nil
	}
	rated := proto.CloneOf(message)
	rated.Feedback = feedback
	r.emit(message.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_MessageChanged{
		MessageChanged: &conversationpb.MessageChanged{Message: rated},
	}})
	decision.Events = r.events
	decision.Effects = []machine.Effect{TellFeedback{
		ConversationID: r.state.GetId(), ProjectID: r.state.GetProjectId(), AgentID: r.state.GetAgentId(),
		Message: rated, Feedback: feedback,
	}}
	return decision, nil
}

func sameRating(a, b *conversationpb.Feedback) bool {
	return a != nil && a.GetRating() == b.GetRating() && slices.Equal(a.GetReasons(), b.GetReasons()) &&
		a.GetComment() == b.GetComment() && a.GetUserId() == b.GetUserId()
}

// ratable refuses what is no answer, or not the last word of its turn yet.
func (r *request) ratable(target *conversationpb.Target) *machine.Failure {
	if f := r.current(target); f != nil {
		return f
	}
	message := target.GetMessage()
	if message.GetRole() != conversationpb.Role_ASSISTANT {
		return machine.Fail(failurepb.Code_INVALID_MESSAGE_TARGET, "only an answer can be rated")
	}
	run := message.GetRunId()
	if run != "" && (run == r.state.GetLease().GetRunId() || run == r.state.GetPaused().GetRunId()) {
		return machine.Fail(failurepb.Code_INVALID_MESSAGE_TARGET, "the answer is not complete yet")
	}
	return nil
}

// rating checks what was said against what the agent takes.
func rating(c *conversationpb.Rate, experience *agentpb.Experience) (*conversationpb.Feedback, *machine.Failure) {
	bad := func(format string, args ...any) (*conversationpb.Feedback, *machine.Failure) {
		return nil, machine.Fail(failurepb.Code_INVALID_FEEDBACK, format, args...)
	}
	if value := c.GetRating(); value != ratingUp && value != ratingDown && value != "" {
		return bad("rating is %s, %s or null", ratingUp, ratingDown)
	}
	if len(c.GetReasons()) > 0 && c.GetRating() != ratingDown {
		return bad("reasons go with the rating %s only", ratingDown)
	}
	allowed := experience.GetFeedbackReasons()
	if len(allowed) == 0 {
		allowed = defaultReasons()
	}
	var reasons []string
	for _, reason := range c.GetReasons() {
		if !slices.Contains(allowed, reason) || !utf8.ValidString(reason) {
			return bad("reasons are of: %s", clean(strings.Join(allowed, ", ")))
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	comment := strings.TrimSpace(c.GetComment())
	longest := int(experience.GetFeedbackMaxCommentLength())
	if longest <= 0 {
		longest = defaultCommentRunes
	}
	switch {
	case comment == "":
	case c.GetRating() == "":
		return bad("a comment needs a rating")
	case experience != nil && !experience.GetFeedbackComments():
		return bad("the agent takes no comments")
	case !utf8.ValidString(comment):
		return bad("comment is not valid UTF-8")
	case utf8.RuneCountInString(comment) > longest:
		return bad("comment is longer than %d characters", longest)
	}
	return &conversationpb.Feedback{Rating: c.GetRating(), Reasons: reasons, Comment: comment}, nil
}
