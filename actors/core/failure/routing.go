package failure

// Of models: dynamic ones, which choose among others, and those whose answers are kept.
const (
	TooManyEntries     Reason = "too_many_entries"
	NamedTwice         Reason = "named_twice"
	NotA               Reason = "not_a"
	BadOperator        Reason = "bad_operator"
	RoutedModelUnknown Reason = "routed_model_unknown"
	RoutedModelOther   Reason = "routed_model_other"
	DeciderDynamic     Reason = "decider_dynamic"
	RoutingCycle       Reason = "routing_cycle"
	RoutingTooDeep     Reason = "routing_too_deep"
	RoutingCategory    Reason = "routing_category"
	RoutingProvider    Reason = "routing_provider"
	ModelRouted        Reason = "model_routed"
	AgentModelDynamic  Reason = "agent_model_dynamic"
	CacheCategory      Reason = "cache_category"
)

// routingWords are the default words of these reasons; empty for any other.
func routingWords(r Reason) string {
	switch r {
	case TooManyEntries:
		return "{field} has more than {most} entries"
	case NamedTwice:
		return "{field}: {name:q} is there twice"
	case NotA:
		return "{field} must be {what}"
	case BadOperator:
		return "{field}: signal {signal} is compared by one of: {choices}"
	case RoutedModelUnknown:
		return "{field}: there is no model {model:q}"
	case RoutedModelOther:
		return "{field}: model {model:q} is of category {category}, not {wanted}"
	case DeciderDynamic:
		return "{field}: model {model:q} is dynamic and cannot decide"
	case RoutingCycle:
		return "dynamic models lead back to themselves: {models}"
	case RoutingTooDeep:
		return "dynamic models in dynamic model {model:q} are nested more than {most} deep"
	case RoutingCategory:
		return "{field} of a dynamic model must be {choices}"
	case RoutingProvider:
		return "{field} of a dynamic model cannot be changed"
	case ModelRouted:
		return "The model is used by dynamic model {model}"
	case AgentModelDynamic:
		return "{field}: model {model:q} is dynamic: only requests for completions and embeddings are routed, agents name a model that is not"
	case CacheCategory:
		return "{field}: answers are kept of models of category {category} that are not dynamic; a dynamic model gives those that are kept of the models it chooses from"
	default:
		return ""
	}
}
