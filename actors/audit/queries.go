package audit

import (
	"cmp"
	"encoding/binary"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/auditpb"
)

const (
	maxLooked = 5_000     // rows in one query: a filter that selects few is answered in several
	maxBytes  = 512 << 10 // of rows in a reply
)

// readRows reads rows in the order of the chain or against it.
func readRows(view kit.View, state *auditpb.State, query *auditpb.RowsQuery) (*auditpb.RowsReply, error) {
	if state.GetTenantId() != query.GetTenantId() {
		return nil, missing()
	}
	reply := &auditpb.RowsReply{Checkpoint: state.GetCheckpoint(), Last: state.GetLast()}
	items := kit.ItemQuery{Table: tableRows, Descending: !query.GetAscending(), Limit: maxLooked}
	switch behind := query.GetBehind(); {
	case query.GetAscending():
		items.From = keyOf(behind + 1)
	case behind != 0:
		items.To = keyOf(behind)
	}
	looked, bytes := 0, 0
	var failed error
	err := view.Items(query.GetId(), items, func(key, value []byte) bool {
		if len(reply.Rows) >= int(query.GetLimit()) || bytes > maxBytes {
			return false
		}
		looked++
		reply.Next = binary.BigEndian.Uint64(key)
		r := &auditpb.Row{}
		if failed = proto.Unmarshal(value, r); failed != nil {
			return false
		}
		if matches(r, query.GetFilter()) {
			reply.Rows, bytes = append(reply.Rows, r), bytes+len(value)
		}
		return true
	})
	if done := query.GetAscending() && reply.GetNext() >= state.GetLast().GetNumber() ||
		!query.GetAscending() && reply.GetNext() <= state.GetCheckpoint().GetNumber()+1; done || looked == 0 {
		reply.Next = 0
	}
	return reply, cmp.Or(err, failed)
}

// matches says whether a filter selects a row.
func matches(r *auditpb.Row, f *auditpb.Filter) bool {
	for _, pair := range [...][2]string{
		{f.GetActorUserId(), r.GetActorUserId()},
		{f.GetApiTokenId(), r.GetApiTokenId()},
		{f.GetService(), r.GetService()},
		{f.GetAction(), r.GetAction()},
		{f.GetOutcome(), r.GetOutcome()},
		{f.GetResourceType(), r.GetResourceType()},
		{f.GetResourceId(), r.GetResourceId()},
		{f.GetProjectId(), r.GetProjectId()},
		{f.GetMethod(), r.GetMethod()},
		{f.GetRequestId(), r.GetRequestId()},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return r.GetCreatedAt() >= f.GetFrom() && (f.GetTo() == 0 || r.GetCreatedAt() < f.GetTo())
}
