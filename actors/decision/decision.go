package decision

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/permission"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// ListDue is the list of all batches by the time at which they are removed.
const ListDue = "dec/due"

// ListOf is the list of a tenant's batches by the time at which they were written.
func ListOf(tenantID string) string { return "dec/of/" + machine.ListPart(tenantID) }

// ListOfShield is the list of a shield's batches by the time at which they were written.
func ListOfShield(projectID, shieldID string) string {
	return "dec/shield/" + machine.ListPart(projectID) + "/" + machine.ListPart(shieldID)
}

// ListOfGuardrail is the list of a guardrail's batches by the time at which they were written.
func ListOfGuardrail(projectID, key string) string {
	return "dec/rail/" + machine.ListPart(projectID) + "/" + machine.ListPart(key)
}

// listOfVerdict is the list in which a verdict is found.
func listOfVerdict(v *decisionpb.Verdict) string {
	if v.GetRail() != nil {
		return ListOfGuardrail(v.GetProjectId(), v.GetRail().GetKey())
	}
	return ListOfShield(v.GetProjectId(), v.GetShieldId())
}

// New returns the kind of batches.
func New() kit.Entity {
	batches := rules().Entity()
	batches.Queries = []kit.Query{kit.Peek(readDecision), kit.Scan(listDecisions), kit.Scan(listVerdicts)}
	return batches
}

const written kit.Phase = "written"

type (
	step  = kit.Step[*decisionpb.State, *decisionpb.Command, *decisionpb.Event]
	row   = kit.Transition[*decisionpb.State, *decisionpb.Command, *decisionpb.Event]
	table = kit.Rules[*decisionpb.State, *decisionpb.Command, *decisionpb.Event]
)

func rules() table {
	record := (*decisionpb.Command).GetRecord
	return table{
		Prefix: permission.BatchKind,
		Phases: []kit.Phase{written},
		Phase:  func(*decisionpb.State) kit.Phase { return written },
		Transitions: []row{
			kit.On(record, write).From(kit.Absent).To(written),
			kit.On(record, func(*step, *decisionpb.Record) *machine.Failure { return nil }).From(written),
		},
		Missing: missing,
		Apply: func(_ *decisionpb.State, event *decisionpb.Event) *decisionpb.State {
			return proto.CloneOf(event.GetRecorded())
		},
		Project: project,
		Lapse: kit.Lapse[*decisionpb.State, *decisionpb.Command]{
			List: ListDue, At: (*decisionpb.State).GetExpiresAt,
			Due: func(id string) *decisionpb.Command {
				return &decisionpb.Command{Id: id, Body: &decisionpb.Command_Due{Due: &decisionpb.Due{}}}
			},
		},
		Reply: func(*decisionpb.State) proto.Message { return &decisionpb.Reply{} },
	}
}

func missing() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.DecisionNotFound)
}

// write stores a batch.
func write(s *step, c *decisionpb.Record) *machine.Failure {
	size := len(c.GetDecisions()) + len(c.GetVerdicts())
	if size == 0 || size > permission.MaxBatch || c.GetKeepMs() <= 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.IncompleteDecisions)
	}
	s.Emit(&decisionpb.Event{Body: &decisionpb.Event_Recorded{Recorded: &decisionpb.State{
		Id: s.Command.GetId(), CreatedAt: s.Now, ExpiresAt: s.Now + c.GetKeepMs(), Decisions: c.GetDecisions(),
		Verdicts: c.GetVerdicts(),
	}}})
	return nil
}

// project lists a batch for each tenant, shield and guardrail in it.
func project(before, after *decisionpb.State, _ []proto.Message, into *logpb.Append) {
	id := cmp.Or(after.GetId(), before.GetId())
	var lists []string
	for _, state := range []*decisionpb.State{before, after} {
		for _, d := range state.GetDecisions() {
			lists = append(lists, ListOf(d.GetTenantId()))
		}
		for _, v := range state.GetVerdicts() {
			lists = append(lists, listOfVerdict(v))
		}
	}
	slices.Sort(lists)
	for _, list := range slices.Compact(lists) {
		machine.Relist(into, list, id, before.GetCreatedAt(), after.GetCreatedAt())
	}
}
