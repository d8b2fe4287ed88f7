package conversationpb

// Access is what a caller may do with a conversation.
type Access int

// The three answers. AccessNone hides that the conversation exists: it is of another tenant or project.
const (
	AccessNone Access = iota
	AccessDenied
	AccessGranted
)

// AccessOf is the one rule of ownership, for commands and reads alike (document 2, "Authentication": an established
// identity sees only its own). A conversation without an owner is open to those without an identity only. Who is trusted
// may touch everything in the project: anybody where the server does not authenticate, and the API tokens of owners and
// administrators.
func (x *State) AccessOf(caller *Caller) Access {
	switch {
	case x == nil || x.GetTenantId() != caller.GetTenantId() || x.GetProjectId() != caller.GetProjectId():
		return AccessNone
	case caller.GetTrusted():
		return AccessGranted
	case x.GetUserId() == "" && caller.GetIdentified():
		return AccessDenied
	case x.GetUserId() != caller.GetUserId():
		return AccessDenied
	}
	return AccessGranted
}
