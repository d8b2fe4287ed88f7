package failure

// Of budgets and quotas.
const (
	BudgetNotAdmin   Reason = "budget_not_admin"
	BudgetNotFound   Reason = "budget_not_found"
	BudgetLimitless  Reason = "budget_limitless"
	BadLimit         Reason = "bad_limit"
	UnknownLimit     Reason = "unknown_limit"
	BadThresholds    Reason = "bad_thresholds"
	PolicyNotAdmin   Reason = "policy_not_admin"
	PolicyNotFound   Reason = "policy_not_found"
	BadSpendGroup    Reason = "bad_spend_group"
	BadSpendEntity   Reason = "bad_spend_entity"
	QuotasNotReady   Reason = "quotas_not_ready"
	BadAllowance     Reason = "bad_allowance"
	NegativePriority Reason = "negative_priority"
	QuotaRefused     Reason = "quota_refused"
)

// quotaWords are the default words of these reasons; empty for any other.
func quotaWords(r Reason) string {
	switch r {
	case BudgetNotAdmin:
		return "Budget management requires an owner/admin API token"
	case BudgetNotFound:
		return "Budget not found"
	case BudgetLimitless:
		return "At least one of `daily_limit_usd` or `monthly_limit_usd` is required"
	case BadLimit:
		return "`{name}` must be a non-negative number (or -1 for unlimited)"
	case UnknownLimit:
		return "`{name}` is not a limit"
	case BadThresholds:
		return "`{name}` must be at most {most} non-negative numbers"
	case PolicyNotAdmin:
		return "Quota policies are managed by owners and admins"
	case PolicyNotFound:
		return "Quota policy not found"
	case BadSpendGroup:
		return "`group_by` must be hour, day, or month"
	case BadSpendEntity:
		return "`group_by_entity` must be user, api_key, or agent"
	case QuotasNotReady:
		return "A node of the cluster is of an older release, which keeps no budgets"
	case BadAllowance:
		return "A call needs an id, limits, and a time for which it is let in"
	case NegativePriority:
		return "`priority` must be a non-negative whole number"
	case QuotaRefused:
		return "{problem}"
	default:
		return ""
	}
}
