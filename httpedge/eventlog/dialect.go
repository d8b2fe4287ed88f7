package eventlog

import (
	"encoding/json"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// Dialect selects the surface whose names an event uses. The log is the same; the surfaces differ in a few names.
type Dialect uint8

// Dialects.
const (
	Conversation Dialect = iota // the conversation server's
	Client                      // the Client API's
)

func (d Dialect) stopReason(reason conversationpb.StopReason) string {
	if d == Client && reason == conversationpb.StopReason_MAX_TURNS {
		reason = conversationpb.StopReason_LIMIT // document 1 does not distinguish the two
	}
	return StopText(reason)
}

func (d Dialect) appendBudget(dst []byte, budget *conversationpb.Budget) []byte {
	if budget == nil {
		return append(dst, "null"...)
	}
	limit, onReach := `{"maxCostUsd":`, `,"onReach":`
	if d == Client {
		limit, onReach = `{"max_cost_usd":`, `,"on_reach":`
	}
	dst = append(dst, limit...)
	dst = money.Append(dst, budget.GetMaxCostNanoUsd())
	return append(wire.AppendMember(dst, onReach, budget.GetOnReach()), '}')
}

// resolution converts a decision, which is stored with the conversation server's names, to the dialect.
func (d Dialect) resolution(stored []byte) []byte {
	var members map[string]json.RawMessage
	if d != Client || json.Unmarshal(stored, &members) != nil {
		return stored
	}
	for from, to := range map[string]string{"approvedArgs": "approved_args", "rememberForSession": "remember_for_session"} {
		if value, ok := members[from]; ok {
			members[to] = value
			delete(members, from)
		}
	}
	told, err := json.Marshal(members)
	if err != nil {
		return stored
	}
	return told
}

// StopText is why a turn stopped, as the conversation server names it; "" before the first turn.
func StopText(reason conversationpb.StopReason) string {
	switch reason {
	case conversationpb.StopReason_END_TURN:
		return "end_turn"
	case conversationpb.StopReason_REQUIRES_ACTION:
		return "requires_action"
	case conversationpb.StopReason_CANCELLED:
		return "cancelled"
	case conversationpb.StopReason_MAX_TURNS:
		return "max_turns"
	case conversationpb.StopReason_LIMIT:
		return "limit"
	case conversationpb.StopReason_BUDGET_REACHED:
		return "budget_reached"
	case conversationpb.StopReason_ERROR:
		return "error"
	default:
		return ""
	}
}

// AppendTurnError writes {code, message}.
func AppendTurnError(dst []byte, turnError *conversationpb.TurnError) []byte {
	dst = append(dst, `{"code":`...)
	dst = wire.AppendString(dst, turnError.GetCode())
	return append(wire.AppendMember(dst, `,"message":`, turnError.GetMessage()), '}')
}
