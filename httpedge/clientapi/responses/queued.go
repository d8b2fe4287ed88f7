package responses

import (
	"slices"
	"strconv"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// checkOnBusy refuses what cannot become of a message while a turn runs. A background run waits by itself, or is refused.
func (a *api) checkOnBusy(order *responseOrder) *failure.Failure {
	asked := order.OnBusy
	switch {
	case asked.Wrong:
		return handler.Invalid(failure.MustBeString).In("on_busy")
	case asked.Text == "" || asked.Text == "reject":
		return nil
	case !slices.Contains([]string{"queue", "interrupt"}, asked.Text):
		return handler.Invalid(failure.BadOnBusy).In("on_busy")
	case order.Background:
		return handler.Invalid(failure.CannotGoWith).In("on_busy").Param("other", "background")
	case a.Current != nil && !a.Current():
		return failure.New(failurepb.Code_UNAVAILABLE, failure.QueueNotYet)
	}
	return nil
}

// waits is the answer of a message that waits for its turn, nil = it does not.
func (r *responding) waits() *queuedResponse {
	if r.queued == nil {
		return nil
	}
	return &queuedResponse{session: r.id, agent: r.agent.GetId(), accepted: r.queued}
}

// queuedResponse is a response whose message waits for its turn.
type queuedResponse struct {
	session, agent string
	accepted       *conversationpb.Accepted
}

// AppendJSON implements endpoint.Appender.
func (q *queuedResponse) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":"`+render.ResponsePrefix...)
	dst = append(dst, q.session...) // ids are plain
	dst = wire.AppendMember(append(dst, '"'), `,"object":"response","status":"queued","model":`, q.agent)
	dst = wire.AppendMember(dst, `,"output":[],"session_id":`, q.session)
	dst = wire.AppendMember(dst, `,"run_id":`, q.accepted.GetRunId())
	dst = wire.AppendMember(dst, `,"message_id":`, q.accepted.GetUserMessage().GetId())
	dst = append(dst, `,"position":`...)
	return append(strconv.AppendUint(dst, uint64(q.accepted.GetPosition()), 10), '}')
}
