package trace

import (
	"cmp"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/actors/core/tracing"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/tracepb"
)

// Prefixes of the ids of sessions and threads.
const (
	Prefix       = tracing.Prefix
	ThreadPrefix = tracing.ThreadPrefix
)

// Lists of all sessions and threads by the time at which they are removed.
const (
	listDue       = "trace/due"
	listThreadDue = "trace/thread/due"
)

// TableEvents has a session's events by their number, from 1.
const TableEvents = 1

// Conversations is where the conversations of a project are, whose turns are sessions, too.
type Conversations struct {
	List func(*tracepb.ThreadsQuery) string // that holds those that a query asks for, by when they were made
	At   func(score int64) int64            // when one was made that has this score there, Unix ms
}

// New returns the kind of sessions.
func New(conversations Conversations) kit.Entity {
	sessions := rules().Entity()
	sessions.Unkept = true
	sessions.Queries = []kit.Query{kit.Peek(readSession), kit.Read(readEvents), kit.Scan(conversations.readThreads), kit.Scan(readThread), kit.Scan(readRecent), kit.Scan(readKept)}
	return sessions
}

// reported is the phase of a session of which something was heard.
const reported kit.Phase = "reported"

type (
	step  = kit.Step[*tracepb.Session, *tracepb.Command, *tracepb.Event]
	row   = kit.Transition[*tracepb.Session, *tracepb.Command, *tracepb.Event]
	table = kit.Rules[*tracepb.Session, *tracepb.Command, *tracepb.Event]
)

func rules() table {
	puts := (*tracepb.Command).GetPut
	return table{
		Prefix: Prefix,
		Phases: []kit.Phase{reported},
		Phase:  func(*tracepb.Session) kit.Phase { return reported },
		Transitions: []row{
			kit.On(puts, put).From(kit.Absent).To(reported),
			kit.On(puts, put).From(reported),
		},
		Missing: func() *machine.Failure { return failure.New(failurepb.Code_SESSION_NOT_FOUND, failure.TraceMissing) },
		Apply:   apply,
		Project: project,
		Reply:   func(s *tracepb.Session) proto.Message { return reply(s) },
		Lapse: kit.Lapse[*tracepb.Session, *tracepb.Command]{
			List: listDue, At: (*tracepb.Session).GetExpiresAt,
			Due: func(id string) *tracepb.Command {
				return &tracepb.Command{Id: id, Body: &tracepb.Command_Due{Due: &tracepb.Due{}}}
			},
		},
	}
}

func reply(s *tracepb.Session) *tracepb.Reply {
	return &tracepb.Reply{
		Events: s.GetEvents(), Status: s.GetRecord().GetStatus(), DurationMs: tracing.Duration(s), Thread: s.GetThread(), ThreadId: s.GetRecord().GetThreadId(),
	}
}

// put adds to a session.
func put(s *step, c *tracepb.Put) *machine.Failure {
	if c.GetTenantId() == "" || c.GetProjectId() == "" || c.GetSessionId() == "" || c.GetKeepMs() <= 0 {
		return failure.New(failurepb.Code_VALIDATION, failure.BadTrace)
	}
	if c.GetKnown() && !s.Exists() {
		return failure.New(failurepb.Code_SESSION_NOT_FOUND, failure.TraceMissing)
	}
	fresh := tracing.Fresh(s.Before.GetSeen(), c.GetEvents())
	var left int
	if c.MaxDurationMs != nil {
		known := len(fresh)
		if fresh = timely(s, c, fresh); len(fresh) < known && !c.GetPartly() {
			return failure.New(failurepb.Code_QUOTA_REACHED, failure.TraceTooLong).Param("most", max(c.GetMaxDurationMs(), 0))
		}
		left = known - len(fresh)
	}
	most := int64(tracing.MaxEvents)
	if c.MaxEvents != nil {
		most = min(most, max(c.GetMaxEvents(), 0))
	}
	room := int(max(most-s.Before.GetEvents(), 0)) // what there is beyond it stays
	if len(fresh) > room {
		if !c.GetPartly() {
			return failure.New(failurepb.Code_QUOTA_REACHED, failure.TraceFull).Param("most", most)
		}
		left += len(fresh) - room
		fresh = fresh[:room]
	}
	s.Emit(&tracepb.Event{Body: &tracepb.Event_Put{Put: &tracepb.Put{
		TenantId: c.GetTenantId(), ProjectId: c.GetProjectId(), SessionId: c.GetSessionId(), Thread: c.GetThread(), Record: c.GetRecord(),
		Events: fresh, Said: c.GetSaid(), Starts: c.GetStarts(), Partly: c.GetPartly(), KeepMs: c.GetKeepMs(), Entity: s.Command.GetId(), UserId: c.GetUserId(),
	}}})
	answer := reply(s.State())
	answer.Stored, answer.LeftOut = int64(len(c.GetEvents())-left), int64(left)
	s.Decision.Reply = answer
	return nil
}

// timely are the events that are not later after the session's start than a command allows. It starts when it was said to have first, and
// an event without a time is of now.
func timely(s *step, c *tracepb.Put, events []*tracepb.Happening) []*tracepb.Happening {
	start := cmp.Or(c.GetRecord().GetStartedAt(), s.Now)
	if began := s.Before.GetRecord().GetStartedAt(); began > 0 {
		start = min(start, began)
	}
	return slices.DeleteFunc(events, func(e *tracepb.Happening) bool {
		return cmp.Or(e.GetTimestamp(), s.Now)-start > max(c.GetMaxDurationMs(), 0)
	})
}

// apply folds an event into the state.
func apply(s *tracepb.Session, event *tracepb.Event) *tracepb.Session {
	c, now := event.GetPut(), event.GetCreatedAt()
	if s == nil {
		s = &tracepb.Session{
			Id: c.GetEntity(), CreatedAt: now, TenantId: c.GetTenantId(), ProjectId: c.GetProjectId(), SessionId: c.GetSessionId(), UserId: c.GetUserId(),
		}
	}
	r := tracing.Merge(s.GetRecord(), c.GetRecord())
	r.StartedAt = cmp.Or(r.GetStartedAt(), s.GetCreatedAt())
	if was := s.GetRecord(); c.GetPartly() && was != nil { // its times are of a part
		r.StartedAt, r.EndedAt = min(r.GetStartedAt(), was.GetStartedAt()), max(r.GetEndedAt(), was.GetEndedAt())
	}
	if c.GetStarts() {
		r.EndedAt, r.DurationMs = 0, 0
	}
	s.Record, s.Thread = r, cmp.Or(s.GetThread(), c.GetThread())
	s.UpdatedAt, s.ExpiresAt = now, max(s.GetExpiresAt(), now+c.GetKeepMs())
	for _, e := range c.GetEvents() {
		tracing.Count(s, e)
	}
	if c.GetSaid() != nil {
		s.Said = tracing.Raise(s.GetSaid(), c.GetSaid())
	}
	return s
}

// project writes events, and moves the session between lists.
func project(before, after *tracepb.Session, events []proto.Message, into *logpb.Append) {
	number := before.GetEvents()
	for _, message := range events {
		event, _ := message.(*tracepb.Event)
		for _, e := range event.GetPut().GetEvents() {
			value, err := proto.Marshal(e)
			if err != nil {
				continue // its texts are valid: the command was a message before
			}
			number++
			into.Items = append(into.Items, &logpb.Item{Table: TableEvents, Key: keyOf(number), Value: value})
		}
	}
	counted(before, after, into)
	if before != nil && after != nil && before.GetThread() == after.GetThread() {
		return
	}
	listed(before, -1, into)
	listed(after, 1, into)
}

// counted counts a session that is new, or is removed, for whom quotas ask of it.
func counted(before, after *tracepb.Session, into *logpb.Append) {
	s, delta := after, int64(1)
	switch {
	case before != nil && after != nil:
		return
	case after == nil:
		s, delta = before, -1
	}
	for _, of := range quota.Places(s.GetProjectId(), s.GetUserId()) {
		into.Counts = append(into.Counts, &logpb.Count{Name: keptOf(s.GetTenantId(), of[0], of[1]), Delta: delta})
	}
}

// keyOf is the key of the row of an event.
func keyOf(number int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(number)) }

// listed adds a session to its lists, or with -1 takes it out.
func listed(s *tracepb.Session, delta int64, into *logpb.Append) {
	if s == nil {
		return
	}
	tenant, project := s.GetTenantId(), s.GetProjectId()
	places := []string{sessionsOf(tenant, project), threadsOf(tenant, project)}
	if s.GetThread() != "" {
		places[1] = membersOf(s.GetThread())
	}
	for _, list := range places {
		into.Listings = append(into.Listings, &logpb.Listing{List: list, Score: s.GetCreatedAt(), Member: s.GetId(), Delete: delta < 0})
		into.Counts = append(into.Counts, &logpb.Count{Name: list, Delta: delta})
	}
}

// Names of lists, and of the counters of their rows.
func sessionsOf(tenant, project string) string { return "trace/sessions/" + tenant + "/" + project }
func threadsOf(tenant, project string) string  { return "trace/threads/" + tenant + "/" + project }
func membersOf(thread string) string           { return "trace/members/" + thread }

// keptOf names the counter of the sessions that are kept: of a tenant, of one project or of all (empty), of who reported them first or of
// anybody (empty).
func keptOf(tenant, project, user string) string {
	return "trace/n/" + machine.ListPart(tenant) + "/" + machine.ListPart(project) + "/" + machine.ListPart(user)
}
