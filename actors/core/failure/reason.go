package failure

// Reason names one kind of refusal, in lower_snake. It may stand in messages between nodes: it is never reused for another kind.
type Reason string

// Reasons that code depends on.
const (
	Literal              Reason = "literal" // words that are final, see Verbatim
	ConversationNotFound Reason = "conversation_not_found"
	ConversationDeleted  Reason = "conversation_deleted" // while the caller waited
	ConversationChanged  Reason = "conversation_changed" // read it again: nothing was done
)

// words returns the default words of a reason, empty for one that is not known here.
func (r Reason) words() string {
	switch r {
	case Literal:
		return "{text}"
	case ConversationNotFound:
		return "conversation not found"
	case ConversationDeleted:
		return "conversation was deleted"
	case ConversationChanged:
		return "the {conversation} changed meanwhile"
	}
	return ""
}
