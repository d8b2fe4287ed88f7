package conversation

import (
	"cmp"
	"strings"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// Tables of a conversation's items.
const (
	// TableMessages holds marshalled conversationpb.Message by MessageKey.
	TableMessages = 1
	// TableMessageIDs holds the MessageKey of a message by its id.
	TableMessageIDs = 2
	// TableRuns holds marshalled conversationpb.Run of ended turns by run id.
	TableRuns = 3
)

// ListRunning is the list of the conversations that hold a turn lease, by the start of the turn: what a new owner
// of the shard must activate.
const ListRunning = "conv/running"

// ListDue is the list of the conversations for which something is to be done at a time (actions and files that expire, attempts to tell),
// by the earliest such time: the shell gives each that is due a Due command.
const ListDue = "conv/due"

// Order is what a list of conversations is ordered by.
type Order byte

// The orders of document 2, `GET /conversations`, orderBy. Scores are those of createdScore, and Unix milliseconds of an update.
const (
	ByCreated Order = 'c'
	ByUpdated Order = 'u'
)

// createdScore is the score of a conversation where lists are in order of creation: Unix microseconds, as several are made in a
// millisecond. Those of an earlier release, which counted milliseconds, thereby stand before all later ones, as they should.
func createdScore(s *conversationpb.State) int64 {
	return cmp.Or(s.GetCreatedMicros(), s.GetCreatedAt())
}

// CreatedAt is when a conversation was made that has this score where lists are in order of creation, Unix milliseconds.
func CreatedAt(score int64) int64 {
	if score < firstMicros {
		return score // of an earlier release
	}
	return score / 1000
}

// List names a sorted list of one user's conversations. Members are conversation ids, values are empty: a row of a
// page is the head. Each conversation stands in four: by creation and by update, among those of its agent and among
// those of any. The pinned ones have lists of their own and are in no other, so "pinned first" is one list after the
// other, and "pinned: none" a merge of both.
type List struct {
	TenantID, ProjectID string
	UserID              string // empty = conversations without an owner
	AgentID             string // empty = of any agent
	Order               Order
	Pinned              bool
}

// ListOf is the list, of the given order, in which a conversation stands among those of any agent.
func ListOf(s *conversationpb.State, order Order) List {
	return List{
		TenantID: s.GetTenantId(), ProjectID: s.GetProjectId(), UserID: s.GetUserId(), Order: order, Pinned: s.GetPinned(),
	}
}

// Name is the list's name in storage.
func (l List) Name() string { return l.name(byte(l.Order)) }

// CountName is the name of the counter that says how many rows the list has, whatever its order.
func (l List) CountName() string { return l.name('n') }

// name is "conv", what it is, pinned or not, and the parts, each escaped or, when that is too long, hashed: no user
// id, whatever its text, can name another's list. An agent's list has one part more.
func (l List) name(what byte) string {
	var b strings.Builder
	b.Grow(len("conv/c/p") + len(l.TenantID) + len(l.ProjectID) + len(l.UserID) + len(l.AgentID) + 4)
	b.WriteString("conv/")
	b.WriteByte(what)
	if l.Pinned {
		b.WriteString("/p")
	} else {
		b.WriteString("/o")
	}
	writePart(&b, l.TenantID)
	writePart(&b, l.ProjectID)
	writePart(&b, l.UserID)
	if l.AgentID != "" {
		writePart(&b, l.AgentID)
	}
	return b.String()
}

func writePart(b *strings.Builder, part string) {
	b.WriteByte('/')
	b.WriteString(machine.ListPart(part))
}
