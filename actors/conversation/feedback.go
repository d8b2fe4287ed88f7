package conversation

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
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
func (r *request) rate(c *conversationpb.Rate) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	experience := c.GetAgent().GetExperience()
	if experience != nil && !experience.GetFeedbackEnabled() {
		return failure.New(failurepb.Code_FEEDBACK_DISABLED, failure.FeedbackDisabled)
	}
	feedback, f := rating(c, experience)
	if f != nil {
		return f
	}
	if f = r.ratable(c.GetTarget()); f != nil {
		return f
	}
	feedback.UserId, feedback.CreatedAt, feedback.UpdatedAt = clean(r.Command.GetCaller().GetUserId()), r.Now, r.Now
	message := c.GetTarget().GetMessage()
	was := message.GetFeedback()
	if was != nil {
		feedback.CreatedAt = was.GetCreatedAt()
	}
	reply := &conversationpb.Rated{MessageId: message.GetId(), Feedback: feedback}
	r.Decision.Reply = &conversationpb.Reply{Body: &conversationpb.Reply_Rated{Rated: reply}}
	if was == nil && feedback.GetRating() == "" {
		return nil // nothing to take back
	}
	if sameRating(was, feedback) {
		reply.Feedback = was
		return nil
	}
	rated := proto.CloneOf(message)
	rated.Feedback = feedback
	r.emit(message.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_MessageChanged{
		MessageChanged: &conversationpb.MessageChanged{Message: rated},
	}})
	r.Effect(TellFeedback{
		ConversationID: r.state.GetId(), ProjectID: r.state.GetProjectId(), AgentID: r.state.GetAgentId(),
		Message: rated, Feedback: feedback,
	})
	return nil
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
		return failure.New(failurepb.Code_INVALID_MESSAGE_TARGET, failure.OnlyAnswersRated)
	}
	run := message.GetRunId()
	if run != "" && (run == r.state.GetLease().GetRunId() || run == r.state.GetPaused().GetRunId()) {
		return failure.New(failurepb.Code_INVALID_MESSAGE_TARGET, failure.AnswerIncomplete)
	}
	return nil
}

// rating checks what was said against what the agent takes.
func rating(c *conversationpb.Rate, experience *agentpb.Experience) (*conversationpb.Feedback, *machine.Failure) {
	bad := func(reason failure.Reason) *failure.Failure {
		return failure.New(failurepb.Code_INVALID_FEEDBACK, reason)
	}
	if value := c.GetRating(); value != ratingUp && value != ratingDown && value != "" {
		return nil, bad(failure.BadRating).In("rating")
	}
	if len(c.GetReasons()) > 0 && c.GetRating() != ratingDown {
		return nil, bad(failure.ReasonsWithoutDown).In("reasons")
	}
	allowed := experience.GetFeedbackReasons()
	if len(allowed) == 0 {
		allowed = defaultReasons()
	}
	var reasons []string
	for _, reason := range c.GetReasons() {
		if !slices.Contains(allowed, reason) || !utf8.ValidString(reason) {
			return nil, bad(failure.UnknownFeedbackReason).In("reasons").Param("allowed", clean(strings.Join(allowed, ", ")))
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
		return nil, bad(failure.CommentWithoutRating).In("comment")
	case experience != nil && !experience.GetFeedbackComments():
		return nil, bad(failure.CommentsDisabled).In("comment")
	case !utf8.ValidString(comment):
		return nil, bad(failure.NotUTF8).In("comment")
	case utf8.RuneCountInString(comment) > longest:
		return nil, bad(failure.TooManyCharacters).In("comment").Param("most", longest)
	}
	return &conversationpb.Feedback{Rating: c.GetRating(), Reasons: reasons, Comment: comment}, nil
}
