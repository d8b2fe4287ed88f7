package conversationpb

// Access is what a caller may do with a conversation, or with what is owned likewise: a run, a task.
type Access int

// The three answers. AccessNone hides that the conversation exists: it is of another tenant or project.
const (
	AccessNone Access = iota
	AccessDenied
	AccessGranted
)

// AccessOf says what a caller may do with the conversation.
func (x *State) AccessOf(caller *Caller) Access { return AccessTo(x, caller) }

// Owned is the state of something that belongs to a user of a project.
type Owned interface {
	comparable
	GetTenantId() string
	GetProjectId() string
	GetUserId() string
}

// AccessTo is the one rule of ownership, for commands and reads alike (document 2, "Authentication": an established
// identity sees only its own). What has no owner is open to those without an identity only. Who is trusted
// may touch everything in the project: anybody where the server does not authenticate, and the API tokens of owners and
// administrators.
func AccessTo[S Owned](x S, caller *Caller) Access {
	var none S
	switch {
	case x == none || x.GetTenantId() != caller.GetTenantId() || x.GetProjectId() != caller.GetProjectId():
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
