package task

import (
	"encoding/binary"
	"strings"

	"parley/actors/machine"
	"parley/proto/taskpb"
)

// Tables of a task's items.
const (
	// TableComments holds marshalled taskpb.Comment by CommentKey.
	TableComments = 1
	// TableResults holds the marshalled taskpb.Result of the newest run under ResultKey.
	TableResults = 2
)

// ResultKey is the key of the result's row.
const ResultKey = "result"

// CommentKey is the key of a comment's row: its number, big-endian, so that rows stand in order.
func CommentKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), number)
}

// ListRunning is the list of the tasks that have an open run, by when it was opened: what a new owner of the shard must
// activate.
const ListRunning = "task/running"

// ListDue is the list of the tasks for which something is to be done at a time, by the earliest such time.
const ListDue = "task/due"

// List names a list of tasks, by creation. Members are task ids, values are empty: a row of a page is the head. Each task
// stands in eight: of its owner or of anybody, of its agent or of any, in its state or in any.
type List struct {
	TenantID, ProjectID string
	Anybody             bool   // of whomever; else of UserID
	UserID              string // empty = tasks without an owner
	AgentID             string // empty = of any agent
	Status              taskpb.Status
}

// Name is the list's name in storage.
func (l List) Name() string { return "task/c/" + l.name() }

// CountName is the name of the counter that says how many rows the list has.
func (l List) CountName() string { return "task/n/" + l.name() }

// name is the parts of the list, so that no user id, whatever its text, can name another's.
func (l List) name() string {
	parts := []string{machine.ListPart(l.TenantID), machine.ListPart(l.ProjectID), "any"}
	if !l.Anybody {
		parts = append(parts[:2], "of", machine.ListPart(l.UserID))
	}
	parts = append(parts, machine.ListPart(l.AgentID))
	if l.Status != taskpb.Status_STATUS_UNSPECIFIED {
		parts = append(parts, strings.ToLower(l.Status.String()))
	}
	return strings.Join(parts, "/")
}

// listsOf are the lists in which a task stands: first those that it is in for ever, then those of its state.
func listsOf(s *taskpb.State) (always, state []List) {
	for _, anybody := range []bool{false, true} {
		for _, agent := range []string{"", s.GetAgentId()} {
			list := List{TenantID: s.GetTenantId(), ProjectID: s.GetProjectId(), Anybody: anybody, AgentID: agent}
			if !anybody {
				list.UserID = s.GetUserId()
			}
			always = append(always, list)
			list.Status = s.GetStatus()
			state = append(state, list)
		}
	}
	return always, state
}
