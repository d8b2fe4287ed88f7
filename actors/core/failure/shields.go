package failure

// Of shields and of approvals that they ask for.
const (
	ShieldNotFound   Reason = "shield_not_found"
	ShieldFixed      Reason = "shield_fixed"
	BadShieldSchema  Reason = "bad_shield_schema"
	MoreEntries      Reason = "more_entries"
	ApprovalNotFound Reason = "approval_not_found"
	ApprovalDecided  Reason = "approval_decided"
	ApprovalExpired  Reason = "approval_expired"
	BadApproval      Reason = "bad_approval"
	ShieldsNotReady  Reason = "shields_not_ready"
	ShieldBlocked    Reason = "shield_blocked"
	AgentShieldGone  Reason = "agent_shield_gone"
)

// shieldWords are the default words of these reasons; empty for any other.
func shieldWords(r Reason) string {
	switch r {
	case ShieldNotFound:
		return "Shield not found"
	case ShieldFixed:
		return "The default shield cannot be deleted"
	case BadShieldSchema:
		return "{field}: {problem}"
	case MoreEntries:
		return "{field} has more than {most} entries"
	case ApprovalNotFound:
		return "Approval not found"
	case ApprovalDecided:
		return "The approval was decided already"
	case ApprovalExpired:
		return "The approval has expired"
	case ShieldsNotReady:
		return "A node of the cluster is of an older release, which has no shields"
	case ShieldBlocked:
		return "Blocked by Aegis shield: {reasons}"
	case AgentShieldGone:
		return "The agent's shield \"{shield}\" does not exist"
	case BadApproval:
		return "An approval needs a call and a time to live"
	default:
		return ""
	}
}
