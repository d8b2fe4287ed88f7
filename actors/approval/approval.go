package approval

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/approvalpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// Prefix is that of the ids of approvals.
const Prefix = "apr"

// ListDue is the list of all approvals by the time at which they are removed.
const ListDue = "apr/due"

// ListOf is the list of a project's approvals by the time at which they were asked for, ListWaiting of those that wait.
func ListOf(projectID string) string { return "apr/of/" + machine.ListPart(projectID) }

// ListWaiting is the part of ListOf that waits for a person.
func ListWaiting(projectID string) string { return "apr/waiting/" + machine.ListPart(projectID) }

// maxResource bounds what is shown of a call, in bytes.
const maxResource = 16 << 10

// New returns the kind of approvals.
func New() kit.Entity {
	approvals := rules().Entity()
	approvals.Queries = []kit.Query{kit.Peek(readApproval), kit.Scan(listApprovals)}
	return approvals
}

// Phases of an approval.
const (
	pending  kit.Phase = "pending"
	approved kit.Phase = "approved"
	denied   kit.Phase = "denied"
	used     kit.Phase = "used"
)

type (
	step  = kit.Step[*approvalpb.State, *approvalpb.Command, *approvalpb.Event]
	row   = kit.Transition[*approvalpb.State, *approvalpb.Command, *approvalpb.Event]
	table = kit.Rules[*approvalpb.State, *approvalpb.Command, *approvalpb.Event]
)

func rules() table {
	asked, decide, use := (*approvalpb.Command).GetAsk, (*approvalpb.Command).GetDecide, (*approvalpb.Command).GetUse
	return table{
		Prefix: Prefix,
		Phases: []kit.Phase{pending, approved, denied, used},
		Phase: func(s *approvalpb.State) kit.Phase {
			return map[approvalpb.Status]kit.Phase{
				approvalpb.Status_PENDING: pending, approvalpb.Status_APPROVED: approved, approvalpb.Status_DENIED: denied, approvalpb.Status_USED: used,
			}[s.GetStatus()]
		},
		Transitions: []row{
			kit.On(asked, ask).From(kit.Absent, used).To(pending),
			kit.On(asked, askAgain).From(pending, approved, denied).To(kit.Same, pending),
			kit.On(decide, decideIt).From(pending).To(approved, denied),
			kit.On(decide, decided).From(approved, denied, used),
			kit.On(use, useIt).From(approved).To(kit.Same, used),
			kit.On(use, func(*step, *approvalpb.Use) *machine.Failure { return nil }).From(kit.Absent, pending, denied, used),
		},
		Missing: missing,
		Apply:   apply,
		Project: project,
		Lapse: kit.Lapse[*approvalpb.State, *approvalpb.Command]{
			List: ListDue, At: (*approvalpb.State).GetExpiresAt,
			Due: func(id string) *approvalpb.Command {
				return &approvalpb.Command{Id: id, Body: &approvalpb.Command_Due{Due: &approvalpb.Due{}}}
			},
		},
		Reply: func(s *approvalpb.State) proto.Message { return &approvalpb.Reply{State: s} },
	}
}

func missing() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.ApprovalNotFound)
}

// ask opens an approval.
func ask(s *step, c *approvalpb.Ask) *machine.Failure {
	call := c.GetCall()
	if call.GetProjectId() == "" || c.GetKeepMs() <= 0 || s.Command.GetId() == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.BadApproval)
	}
	if len(call.GetResource()) > maxResource {
		call = proto.CloneOf(call)
		call.Resource = nil
	}
	s.Emit(&approvalpb.Event{Body: &approvalpb.Event_Asked{Asked: &approvalpb.State{
		Id: s.Command.GetId(), Call: call, CreatedAt: s.Now, ExpiresAt: s.Now + c.GetKeepMs(),
	}}})
	return nil
}

// askAgain finds the approval as it is, and opens it anew where its time is over.
func askAgain(s *step, c *approvalpb.Ask) *machine.Failure {
	if s.Before.GetExpiresAt() <= s.Now {
		return ask(s, c)
	}
	return nil
}

// decideIt takes a person's answer.
func decideIt(s *step, c *approvalpb.Decide) *machine.Failure {
	switch {
	case !reaches(s.Before, c):
		return missing()
	case s.Before.GetExpiresAt() <= s.Now:
		return failure.New(failurepb.Code_ACTION_EXPIRED, failure.ApprovalExpired)
	case c.GetApprove() && len(c.GetTokenHash()) != sha256.Size:
		return failure.New(failurepb.Code_VALIDATION, failure.BadApproval)
	}
	s.Emit(&approvalpb.Event{Body: &approvalpb.Event_Decided{Decided: &approvalpb.Decided{
		Approved: c.GetApprove(), TokenHash: c.GetTokenHash(), By: c.GetBy(),
	}}})
	return nil
}

// decided refuses a second answer.
func decided(s *step, c *approvalpb.Decide) *machine.Failure {
	if !reaches(s.Before, c) {
		return missing()
	}
	return failure.New(failurepb.Code_CONFLICT, failure.ApprovalDecided)
}

func reaches(s *approvalpb.State, c *approvalpb.Decide) bool {
	return s.GetCall().GetTenantId() == c.GetTenantId() && s.GetCall().GetProjectId() == c.GetProjectId()
}

// useIt lets the call through.
func useIt(s *step, c *approvalpb.Use) *machine.Failure {
	token := len(c.GetTokenHash()) == 0 || subtle.ConstantTimeCompare(c.GetTokenHash(), s.Before.GetTokenHash()) == 1
	if token && s.Before.GetExpiresAt() > s.Now {
		s.Emit(&approvalpb.Event{Body: &approvalpb.Event_Used{Used: &approvalpb.Used{}}})
		s.Decision.Reply = &approvalpb.Reply{Used: true}
	}
	return nil
}

func apply(s *approvalpb.State, event *approvalpb.Event) *approvalpb.State {
	switch body := event.GetBody().(type) {
	case *approvalpb.Event_Asked:
		if s == nil {
			return proto.CloneOf(body.Asked)
		}
		s.Call, s.CreatedAt, s.ExpiresAt = body.Asked.GetCall(), body.Asked.GetCreatedAt(), body.Asked.GetExpiresAt()
		s.Status, s.TokenHash, s.DecidedBy, s.DecidedAt = approvalpb.Status_PENDING, nil, "", 0
	case *approvalpb.Event_Decided:
		s.Status = approvalpb.Status_DENIED
		if body.Decided.GetApproved() {
			s.Status = approvalpb.Status_APPROVED
		}
		s.TokenHash, s.DecidedBy, s.DecidedAt = body.Decided.GetTokenHash(), body.Decided.GetBy(), event.GetCreatedAt()
	case *approvalpb.Event_Used:
		s.Status = approvalpb.Status_USED
	}
	return s
}

// project lists an approval in its project, and while it waits among those that do.
func project(before, after *approvalpb.State, _ []proto.Message, into *logpb.Append) {
	id := cmp.Or(after.GetId(), before.GetId())
	of := cmp.Or(after.GetCall().GetProjectId(), before.GetCall().GetProjectId())
	machine.Relist(into, ListOf(of), id, before.GetCreatedAt(), after.GetCreatedAt())
	machine.Relist(into, ListWaiting(of), id, waitingSince(before), waitingSince(after))
}

// waitingSince is a place in ListWaiting, 0 = none.
func waitingSince(s *approvalpb.State) int64 {
	if s.GetStatus() != approvalpb.Status_PENDING {
		return 0
	}
	return s.GetCreatedAt()
}
