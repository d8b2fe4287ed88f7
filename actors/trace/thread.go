package trace

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/tracepb"
)

// renewals is in so many parts of the time that a thread is kept it is kept anew: not with each event.
const renewals = 30

// NewThreads returns the kind of threads.
func NewThreads() kit.Entity {
	threads := threadRules().Entity()
	threads.Unkept = true
	return threads
}

// named is the phase of a thread that a session names.
const named kit.Phase = "named"

type (
	threadStep  = kit.Step[*tracepb.Thread, *tracepb.ThreadCommand, *tracepb.ThreadEvent]
	threadRow   = kit.Transition[*tracepb.Thread, *tracepb.ThreadCommand, *tracepb.ThreadEvent]
	threadTable = kit.Rules[*tracepb.Thread, *tracepb.ThreadCommand, *tracepb.ThreadEvent]
)

func threadRules() threadTable {
	joins := (*tracepb.ThreadCommand).GetJoin
	return threadTable{
		Prefix: ThreadPrefix,
		Phases: []kit.Phase{named},
		Phase:  func(*tracepb.Thread) kit.Phase { return named },
		Transitions: []threadRow{
			kit.On(joins, join).From(kit.Absent).To(named),
			kit.On(joins, join).From(named),
		},
		Missing: func() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.ThreadMissing) },
		Apply:   applyThread,
		Project: projectThread,
		Reply:   func(*tracepb.Thread) proto.Message { return &tracepb.ThreadReply{} },
		Lapse: kit.Lapse[*tracepb.Thread, *tracepb.ThreadCommand]{
			List: listThreadDue, At: (*tracepb.Thread).GetExpiresAt,
			Due: func(id string) *tracepb.ThreadCommand {
				return &tracepb.ThreadCommand{Id: id, Body: &tracepb.ThreadCommand_Due{Due: &tracepb.Due{}}}
			},
		},
	}
}

// join keeps a thread. It outlives its sessions by a part of the time that they are kept, since it is not kept anew with each event.
func join(s *threadStep, c *tracepb.Join) *machine.Failure {
	if c.GetTenantId() == "" || c.GetProjectId() == "" || c.GetThreadId() == "" || c.GetKeepMs() <= 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.BadTrace)
	}
	newest := s.Before.GetNewestAt()
	if c.GetFresh() {
		newest = s.Now
	}
	if newest == s.Before.GetNewestAt() && s.Before.GetExpiresAt() > s.Now+c.GetKeepMs() {
		return nil
	}
	if newest == 0 {
		newest = s.Now
	}
	s.Emit(&tracepb.ThreadEvent{Body: &tracepb.ThreadEvent_Joined{Joined: &tracepb.Thread{
		Id: s.Command.GetId(), TenantId: c.GetTenantId(), ProjectId: c.GetProjectId(), ThreadId: c.GetThreadId(), NewestAt: newest,
		ExpiresAt: max(s.Before.GetExpiresAt(), s.Now+c.GetKeepMs()+max(1, c.GetKeepMs()/renewals)),
	}}})
	return nil
}

func applyThread(s *tracepb.Thread, event *tracepb.ThreadEvent) *tracepb.Thread {
	if s == nil {
		return proto.CloneOf(event.GetJoined())
	}
	s.NewestAt, s.ExpiresAt = event.GetJoined().GetNewestAt(), event.GetJoined().GetExpiresAt()
	return s
}

// projectThread moves a thread in the list of its project.
func projectThread(before, after *tracepb.Thread, _ []proto.Message, into *logpb.Append) {
	if before.GetNewestAt() == after.GetNewestAt() {
		return
	}
	for _, at := range []struct {
		thread *tracepb.Thread
		gone   bool
	}{{before, true}, {after, false}} {
		if at.thread == nil {
			continue
		}
		list := threadsOf(at.thread.GetTenantId(), at.thread.GetProjectId())
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: at.thread.GetNewestAt(), Member: at.thread.GetId(), Delete: at.gone})
		switch {
		case before == nil:
			into.Counts = append(into.Counts, &logpb.Count{Name: list, Delta: 1})
		case after == nil:
			into.Counts = append(into.Counts, &logpb.Count{Name: list, Delta: -1})
		}
	}
}
