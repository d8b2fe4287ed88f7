package sessions

import (
	"encoding/json"
	"reflect"
	"strconv"

	"parley/actors/core/money"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

const objectSession = "agent.session"

// sessionRecord is a session on the wire (document 1, "Agent session").
type sessionRecord struct{ state *conversationpb.State }

// AppendJSON implements endpoint.Appender.
func (r *sessionRecord) AppendJSON(dst []byte) []byte { return sessions().AppendJSON(dst, r.state) }

// Described implements openapi.Described.
func (*sessionRecord) Described() (value any, nullable bool) {
	return reflect.Zero(sessions().Type()).Interface(), false
}

// sessionList is a page of sessions.
type sessionList struct {
	rows []*conversationpb.State
	next string
}

// AppendJSON implements endpoint.Appender.
func (l *sessionList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"object":"list","data":`...)
	dst = wire.AppendList(dst, l.rows, rows().AppendJSON)
	dst = append(dst, `,"has_more":`...)
	dst = strconv.AppendBool(dst, l.next != "")
	return append(wire.AppendNullable(dst, `,"next_cursor":`, l.next), '}')
}

// Described implements openapi.Described.
func (l *sessionList) Described() (value any, nullable bool) { return sessionListSchema{}, false }

func appendBudget(dst []byte, budget *conversationpb.Budget) []byte {
	if budget == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"max_cost_usd":`...)
	dst = money.Append(dst, budget.GetMaxCostNanoUsd())
	return append(wire.AppendMember(dst, `,"on_reach":`, budget.GetOnReach()), '}')
}

// appendPairs writes the pairs of a session's metadata. The object of a conversation that was made elsewhere may hold more than
// texts: only those are shown.
func appendPairs(dst, object []byte) []byte {
	const none = len("{}")
	if len(object) <= none {
		return append(dst, '{', '}')
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return append(dst, '{', '}')
	}
	before := len(members)
	for key, value := range members {
		if value[0] != '"' {
			delete(members, key)
		}
	}
	if len(members) == before {
		return wire.AppendObjectLine(dst, object)
	}
	kept, err := rawjson.AppendValue(dst, members)
	if err != nil {
		return append(dst, '{', '}')
	}
	return kept
}
