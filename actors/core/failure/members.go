package failure

// Of members, groups and projects.
const (
	InviteIncomplete     Reason = "invite_incomplete"
	InvitationInvalid    Reason = "invitation_invalid"
	InvitationAccepted   Reason = "invitation_accepted"
	TooManyInvitations   Reason = "too_many_invitations"
	NeverInvited         Reason = "never_invited"
	UserQuota            Reason = "user_quota"
	OwnerFixed           Reason = "owner_fixed"
	OwnerUndeletable     Reason = "owner_undeletable"
	OwnAccount           Reason = "own_account"
	MoreThanOwn          Reason = "more_than_own"
	GroupNameTaken       Reason = "group_name_taken"
	BadProjectRole       Reason = "bad_project_role"
	AlreadyProjectMember Reason = "already_project_member"
	NotProjectMember     Reason = "not_project_member"
	NotGroupMember       Reason = "not_group_member"
	LastProject          Reason = "last_project"
	MembersNotYet        Reason = "members_not_yet"
)

// memberWords are those of members, groups and projects.
func memberWords(r Reason) string {
	switch r {
	case InviteIncomplete:
		return "Name, email, and role are required"
	case InvitationInvalid:
		return "Invalid or expired invitation"
	case InvitationAccepted:
		return "The user was not invited, or has accepted"
	case TooManyInvitations:
		return "Too many attempts. Please try again later."
	case NeverInvited:
		return "The user has no password"
	case UserQuota:
		return "User quota exceeded"
	case OwnerFixed:
		return "Owner permissions cannot be changed"
	case OwnerUndeletable:
		return "Cannot delete the owner account"
	case OwnAccount:
		return "You cannot delete your own account"
	case MoreThanOwn:
		return "This would give permissions that you do not have"
	case GroupNameTaken:
		return "A group with this name already exists"
	case BadProjectRole:
		return "Invalid role. Must be project_admin or member"
	case AlreadyProjectMember:
		return "The user is a member of the project already"
	case NotProjectMember:
		return "The user is not a member of the project"
	case NotGroupMember:
		return "The user is not a member of the group"
	case LastProject:
		return "The last project cannot be deleted"
	case MembersNotYet:
		return "members cannot be changed like this while the cluster is being upgraded, try again"
	default:
		return ""
	}
}
