package failure

// Of guardrails.
const (
	GuardrailNotFound    Reason = "guardrail_not_found"
	NoGuardrailRule      Reason = "no_guardrail_rule"
	GuardrailBlocked     Reason = "guardrail_blocked"
	GuardrailUnmoderated Reason = "guardrail_unmoderated"
	AgentGuardrailGone   Reason = "agent_guardrail_gone"
)

// guardrailWords are the default words of these reasons; empty for any other.
func guardrailWords(r Reason) string {
	switch r {
	case GuardrailNotFound:
		return "Guardrail not found"
	case NoGuardrailRule:
		return "rules needs at least one of {choices}"
	case GuardrailBlocked:
		return "Blocked by guardrail: {reasons}"
	case AgentGuardrailGone:
		return "The agent's guardrail `{guardrail}` does not exist"
	case GuardrailUnmoderated:
		return "The guardrail `{guardrail}` has no moderation: set rules.moderation and enable it, or leave `model` out"
	default:
		return ""
	}
}
