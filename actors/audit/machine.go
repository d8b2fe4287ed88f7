package audit

import (
	"cmp"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/auditpb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

// Kind begins the ids of chains.
const Kind = "audit"

// Bounds.
const (
	maxPending = 256
	maxWriters = 32
	parts      = 64 // in so many runs are rows removed
)

const (
	listDue   = "audit/due"
	tableRows = 1
)

// New returns the kind of chains.
func New() kit.Entity {
	return kit.Entity{
		Machine: rules().Machine(),
		Unkept:  true,
		Command: (*auditpb.Command)(nil),
		Missing: missing,
		Queries: []kit.Query{kit.Read(readRows)},
		Due: kit.Due{List: listDue, Command: func(id string) proto.Message {
			return &auditpb.Command{Id: id, Body: &auditpb.Command_Due{Due: &auditpb.Due{}}}
		}},
	}
}

// chained is the phase of a chain that has begun. It never ends.
const chained kit.Phase = "chained"

type (
	step  = kit.Step[*auditpb.State, *auditpb.Command, *auditpb.Event]
	row   = kit.Transition[*auditpb.State, *auditpb.Command, *auditpb.Event]
	table = kit.Rules[*auditpb.State, *auditpb.Command, *auditpb.Event]
)

func rules() table {
	add, due := (*auditpb.Command).GetWrite, (*auditpb.Command).GetDue
	return table{
		Prefix: Kind,
		Phases: []kit.Phase{chained},
		Phase:  func(*auditpb.State) kit.Phase { return chained },
		Transitions: []row{
			kit.On(add, write).From(kit.Absent, chained).To(chained),
			kit.On(due, settle).From(chained),
			kit.On(due, func(*step, *auditpb.Due) *machine.Failure { return nil }).From(kit.Absent),
		},
		Missing: missing,
		Apply:   apply,
		Project: project,
		Reply:   func(*auditpb.State) proto.Message { return &auditpb.Reply{} },
	}
}

func missing() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound) }

// write adds a batch.
func write(s *step, c *auditpb.Write) *machine.Failure {
	if c.GetTenantId() == "" || c.GetWriter() == "" || c.GetKeepMs() <= 0 || c.GetKeepRows() == 0 || s.Command.GetId() == "" ||
		len(c.GetRows()) > audit.MaxBatch || len(c.GetBegun()) > audit.MaxBatch || s.Before.GetTenantId() != "" && s.Before.GetTenantId() != c.GetTenantId() {
		return failure.New(failurepb.Code_VALIDATION, failure.BadAuditBatch)
	}
	if taken := writerOf(s.Before, c.GetWriter()); taken != nil && c.GetBatch() <= taken.GetBatch() {
		s.Decision.Reply = &auditpb.Reply{Refused: notPending(s.Before, c.GetBegun())}
		return nil
	}
	written := &auditpb.Written{
		Id: s.Command.GetId(), TenantId: c.GetTenantId(), Writer: &auditpb.Writer{Id: c.GetWriter(), Batch: c.GetBatch(), At: s.Now},
		KeepMs: c.GetKeepMs(), KeepRows: c.GetKeepRows(),
	}
	written.Rows = chain(s, c.GetRows())
	reply := &auditpb.Reply{}
	room := maxPending - len(stillPending(s.Before.GetPending(), written.GetRows()))
	for _, begun := range c.GetBegun() {
		if room == 0 {
			reply.Refused = append(reply.Refused, begun.GetRow().GetId())
			continue
		}
		room--
		written.Begun = append(written.Begun, begun)
	}
	s.Emit(&auditpb.Event{Body: &auditpb.Event_Written{Written: written}})
	s.Decision.Reply = reply
	return nil
}

// chain completes rows as the next ones.
func chain(s *step, rows []*auditpb.Row) []*auditpb.Row {
	last := s.Before.GetLast()
	sealed := make([]*auditpb.Row, 0, len(rows))
	for _, given := range rows {
		next := proto.CloneOf(given)
		next.TenantId, next.CreatedAt = cmp.Or(s.Before.GetTenantId(), s.Command.GetWrite().GetTenantId()), max(s.Now, last.GetAt())
		audit.Seal(next, last)
		last = markOf(next)
		sealed = append(sealed, next)
	}
	return sealed
}

func markOf(of *auditpb.Row) *auditpb.Mark {
	return &auditpb.Mark{Number: of.GetNumber(), Hash: of.GetHash(), At: of.GetCreatedAt()}
}

func writerOf(state *auditpb.State, id string) *auditpb.Writer {
	for _, writer := range state.GetWriters() {
		if writer.GetId() == id {
			return writer
		}
	}
	return nil
}

// notPending are the ids of those that were refused when they came first.
func notPending(state *auditpb.State, begun []*auditpb.Pending) []string {
	var ids []string
	for _, b := range begun {
		if !slices.ContainsFunc(state.GetPending(), func(p *auditpb.Pending) bool { return p.GetRow().GetId() == b.GetRow().GetId() }) {
			ids = append(ids, b.GetRow().GetId())
		}
	}
	return ids
}

// stillPending is without the requests that rows end.
func stillPending(pending []*auditpb.Pending, rows []*auditpb.Row) []*auditpb.Pending {
	if len(pending) == 0 || len(rows) == 0 {
		return pending
	}
	ended := make(map[string]bool, len(rows))
	for _, r := range rows {
		ended[r.GetId()] = true
	}
	return slices.DeleteFunc(slices.Clone(pending), func(p *auditpb.Pending) bool { return ended[p.GetRow().GetId()] })
}

// settle gives requests that nobody has ended their rows, and removes a run of old rows.
func settle(s *step, _ *auditpb.Due) *machine.Failure {
	var lost []*auditpb.Row
	for _, pending := range s.Before.GetPending() {
		if pending.GetUntil() <= s.Now {
			lost = append(lost, pending.GetRow())
		}
	}
	if len(lost) > 0 {
		for i := range lost {
			lost[i] = proto.CloneOf(lost[i])
			lost[i].Outcome = audit.Unknown
		}
		s.Emit(&auditpb.Event{Body: &auditpb.Event_Written{Written: &auditpb.Written{
			Id: s.Before.GetId(), TenantId: s.Before.GetTenantId(), Rows: chain(s, lost), KeepMs: s.Before.GetKeepMs(), KeepRows: s.Before.GetKeepRows(),
		}}})
	}
	if oldest := nextRun(s.Before); oldest != nil && removable(s.Before, oldest) <= s.Now {
		s.Emit(&auditpb.Event{Body: &auditpb.Event_Trimmed{Trimmed: &auditpb.Trimmed{Through: oldest}}})
	}
	return nil
}

// nextRun is the mark up to which rows go next, nil = there are none.
func nextRun(state *auditpb.State) *auditpb.Mark {
	switch {
	case len(state.GetMarks()) > 0:
		return state.GetMarks()[0]
	case state.GetLast().GetNumber() > state.GetCheckpoint().GetNumber():
		return state.GetLast()
	}
	return nil
}

// removable is when the rows up to a mark go.
func removable(state *auditpb.State, through *auditpb.Mark) int64 {
	if state.GetLast().GetNumber()-through.GetNumber() >= state.GetKeepRows() {
		return 1
	}
	return through.GetAt() + state.GetKeepMs()
}

// apply folds an event into the state.
func apply(s *auditpb.State, event *auditpb.Event) *auditpb.State {
	if s == nil {
		s = &auditpb.State{}
	}
	switch body := event.GetBody().(type) {
	case *auditpb.Event_Written:
		w := body.Written
		s.Id, s.TenantId, s.KeepMs, s.KeepRows = w.GetId(), w.GetTenantId(), w.GetKeepMs(), w.GetKeepRows()
		s.Pending = append(slices.Clone(stillPending(s.GetPending(), w.GetRows())), w.GetBegun()...)
		for _, r := range w.GetRows() {
			s.Last = markOf(r)
			s.Marks = withMark(s, s.GetLast())
		}
		s.Writers = withWriter(s.GetWriters(), w.GetWriter())
	case *auditpb.Event_Trimmed:
		through := body.Trimmed.GetThrough()
		s.Checkpoint = through
		s.Marks = slices.DeleteFunc(slices.Clone(s.GetMarks()), func(m *auditpb.Mark) bool { return m.GetNumber() <= through.GetNumber() })
	}
	s.DueAt = dueAt(s)
	return s
}

// withMark adds a mark where the run since the last one is long enough.
func withMark(s *auditpb.State, at *auditpb.Mark) []*auditpb.Mark {
	since := s.GetCheckpoint()
	if n := len(s.GetMarks()); n > 0 {
		since = s.GetMarks()[n-1]
	}
	long := at.GetNumber()-since.GetNumber() >= max(1, s.GetKeepRows()/parts)
	if !long && (since.GetAt() == 0 || at.GetAt()-since.GetAt() < s.GetKeepMs()/parts) {
		return s.GetMarks()
	}
	return append(slices.Clone(s.GetMarks()), at)
}

// withWriter notes the newest batch of a writer, and forgets writers that have been silent for longest.
func withWriter(writers []*auditpb.Writer, writer *auditpb.Writer) []*auditpb.Writer {
	if writer == nil {
		return writers
	}
	all := slices.DeleteFunc(slices.Clone(writers), func(w *auditpb.Writer) bool { return w.GetId() == writer.GetId() })
	all = append(all, writer) // in the order in which they wrote last
	return all[max(0, len(all)-maxWriters):]
}

func dueAt(s *auditpb.State) int64 {
	var due int64
	for _, pending := range s.GetPending() {
		due = machine.Sooner(due, pending.GetUntil())
	}
	if oldest := nextRun(s); oldest != nil {
		due = machine.Sooner(due, removable(s, oldest))
	}
	return due
}

// project writes and removes rows, and lists the chain by what is due.
func project(before, after *auditpb.State, events []proto.Message, into *logpb.Append) {
	machine.Relist(into, listDue, cmp.Or(after.GetId(), before.GetId()), before.GetDueAt(), after.GetDueAt())
	first := before.GetCheckpoint().GetNumber() + 1
	for _, message := range events {
		event, _ := message.(*auditpb.Event)
		for _, r := range event.GetWritten().GetRows() {
			value, err := proto.Marshal(r)
			if err != nil {
				continue // its texts are valid: whoever wrote them has seen to it, and the command was a message before
			}
			into.Items = append(into.Items, &logpb.Item{Table: tableRows, Key: keyOf(r.GetNumber()), Value: value})
		}
		for ; first <= event.GetTrimmed().GetThrough().GetNumber(); first++ {
			into.Items = append(into.Items, &logpb.Item{Table: tableRows, Key: keyOf(first), Delete: true})
		}
	}
}

func keyOf(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }
