package conversationpb

// ContextAbout is what a sealed runtime context is about, a conversation's own and a turn's: it can be opened for that
// conversation only.
func ContextAbout(conversationID string) string { return "runtime_context/" + conversationID }

// PushAbout is what the sealed part of an address is about that is told of a conversation's turns.
func PushAbout(conversationID string) string { return "push/" + conversationID }
