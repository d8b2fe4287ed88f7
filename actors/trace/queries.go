package trace

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/tracing"
	"parley/actors/kit"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/tracepb"
)

const (
	// MaxGrouped bounds the sessions of a thread that are read, the newest ones.
	MaxGrouped = 1000
	// chunk is how many heads are read at once, which have up to 80 KB each.
	chunk = 64
	day   = 24 * 3_600_000 // in milliseconds
	// maxPage bounds the events that are read at once, in bytes; one that is larger is a page of its own.
	maxPage = 1 << 20
)

func readSession(s *tracepb.Session, _ *tracepb.SessionQuery) (*tracepb.SessionReply, error) {
	s.Seen = nil
	return &tracepb.SessionReply{Session: s}, nil
}

// readEvents reads a session and a page of its events.
func readEvents(view kit.View, s *tracepb.Session, query *tracepb.EventsQuery) (*tracepb.EventsReply, error) {
	s.Seen = nil
	reply, size := &tracepb.EventsReply{Session: s}, 0
	var failed error
	err := view.Items(query.GetId(), kit.ItemQuery{Table: TableEvents, From: keyOf(query.GetAfter() + 1)}, func(_, value []byte) bool {
		if len(reply.GetEvents()) >= int(query.GetLimit()) || size > 0 && size+len(value) > maxPage {
			reply.More = true
			return false
		}
		e := &tracepb.Happening{}
		if failed = proto.Unmarshal(value, e); failed != nil {
			failed = fmt.Errorf("decode an event: %w", failed)
			return false
		}
		reply.Events, size = append(reply.Events, e), size+len(value)
		return true
	})
	return reply, cmp.Or(err, failed)
}

// maxSkip bounds how far into a list of threads a page can be: the rows before it are read.
const maxSkip = 10_000

// readThreads reads a page of threads: conversations, sessions that are threads of their own, and threads that sessions name. The newest
// is first: a conversation is as old as it is, any other thread as its newest session.
func (c Conversations) readThreads(ctx context.Context, from kit.Lists, query *tracepb.ThreadsQuery) (*tracepb.ThreadsReply, error) {
	skip, limit := int(min(query.GetSkip(), maxSkip)), int(query.GetLimit())
	reported, own := threadsOf(query.GetTenantId(), query.GetProjectId()), c.List(query)
	counted, err := from.Counts(ctx, reported)
	if err != nil {
		return nil, err
	}
	made, err := from.Spread(ctx, &nodepb.SpreadQuery{List: own, From: 0, To: math.MaxInt64, Unit: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	reply := &tracepb.ThreadsReply{Total: counted[0] + made[0]}
	page, err := from.Page(ctx, kit.ListQuery{List: reported, Descending: true, Limit: skip + limit})
	if err != nil {
		return nil, err
	}
	conversations, err := from.Page(ctx, kit.ListQuery{List: own, Descending: true, Limit: skip + limit})
	if err != nil {
		return nil, err
	}
	isOne := map[string]bool{}
	for _, row := range conversations {
		row.Score = c.At(row.Score)
		isOne[row.Member] = true
		page = append(page, row)
	}
	slices.SortStableFunc(page, func(a, b kit.Row) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Member, a.Member)) })
	page = page[min(skip, len(page)):min(skip+limit, len(page))]
	heads, err := headsOf(ctx, from, slices.DeleteFunc(slices.Clone(page), func(row kit.Row) bool { return isOne[row.Member] }))
	if err != nil {
		return nil, err
	}
	for _, row := range page {
		if isOne[row.Member] {
			reply.Threads = append(reply.Threads, &tracepb.Group{ThreadId: row.Member, Conversation: true})
			continue
		}
		head := heads[0]
		if heads = heads[1:]; head == nil {
			continue // removed since the list was read
		}
		group, err := groupOf(ctx, from, row.Member, head)
		if err != nil {
			return nil, err
		}
		if len(group.GetSessions()) > 0 {
			reply.Threads = append(reply.Threads, group)
		}
	}
	return reply, nil
}

// headsOf reads the heads of a page a few at a time; nil for what is gone.
func headsOf(ctx context.Context, from kit.Lists, page []kit.Row) (heads [][]byte, err error) {
	for at := 0; at < len(page); at += chunk {
		some, err := from.Heads(ctx, page[at:min(at+chunk, len(page))])
		if err != nil {
			return nil, err
		}
		heads = append(heads, some...)
	}
	return heads, nil
}

func groupOf(ctx context.Context, from kit.Lists, id string, head []byte) (*tracepb.Group, error) {
	if !strings.HasPrefix(id, ThreadPrefix+"_") {
		s, err := sessionOf(head)
		if err != nil {
			return nil, err
		}
		return &tracepb.Group{ThreadId: s.GetSessionId(), Count: 1, Sessions: []*tracepb.Session{s}}, nil
	}
	thread := &tracepb.Thread{}
	if err := proto.Unmarshal(head, thread); err != nil {
		return nil, fmt.Errorf("decode a thread: %w", err)
	}
	return membersIn(ctx, from, id, thread.GetThreadId())
}

// membersIn reads the sessions that name a thread.
func membersIn(ctx context.Context, from kit.Lists, thread, name string) (*tracepb.Group, error) {
	list := membersOf(thread)
	counted, err := from.Counts(ctx, list)
	if err != nil {
		return nil, err
	}
	group := &tracepb.Group{ThreadId: name, Count: counted[0]}
	page, err := from.Page(ctx, kit.ListQuery{List: list, Descending: true, Limit: MaxGrouped})
	if err != nil {
		return nil, err
	}
	group.Sessions, err = sessionsIn(ctx, from, page)
	return group, err
}

// sessionsIn reads the sessions of a page, without what only the rules read.
func sessionsIn(ctx context.Context, from kit.Lists, page []kit.Row) (sessions []*tracepb.Session, err error) {
	for at := 0; at < len(page); at += chunk {
		heads, err := from.Heads(ctx, page[at:min(at+chunk, len(page))])
		if err != nil {
			return nil, err
		}
		for _, head := range heads {
			if head == nil {
				continue
			}
			s, err := sessionOf(head)
			if err != nil {
				return nil, err
			}
			sessions = append(sessions, s)
		}
	}
	return sessions, nil
}

func sessionOf(head []byte) (*tracepb.Session, error) {
	s := &tracepb.Session{}
	if err := proto.Unmarshal(head, s); err != nil {
		return nil, fmt.Errorf("decode a session: %w", err)
	}
	s.Seen = nil
	return s, nil
}

// readThread reads the sessions that name a thread.
func readThread(ctx context.Context, from kit.Lists, query *tracepb.ThreadQuery) (*tracepb.ThreadFound, error) {
	group, err := membersIn(ctx, from, query.GetThread(), query.GetThreadId())
	if err != nil {
		return nil, err
	}
	if len(group.GetSessions()) == 0 {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ThreadMissing)
	}
	return &tracepb.ThreadFound{Thread: group}, nil
}

// readRecent reads the newest sessions of a time, and counts all of it by day.
func readRecent(ctx context.Context, from kit.Lists, query *tracepb.RecentQuery) (*tracepb.RecentReply, error) {
	list := sessionsOf(query.GetTenantId(), query.GetProjectId())
	days, err := from.Spread(ctx, &nodepb.SpreadQuery{List: list, From: query.GetFrom(), To: query.GetTo(), Unit: day})
	if err != nil || len(days) == 0 {
		return &tracepb.RecentReply{}, err
	}
	page, err := from.Page(ctx, kit.ListQuery{List: list, Descending: true, Limit: MaxGrouped, After: &kit.Cursor{Score: query.GetTo()}})
	if err != nil {
		return nil, err
	}
	for len(page) > 0 && page[len(page)-1].Score < query.GetFrom() {
		page = page[:len(page)-1]
	}
	sessions, err := sessionsIn(ctx, from, page)
	reply := &tracepb.RecentReply{Days: days, Tokens: map[int64]int64{}}
	for _, s := range sessions {
		reply.Tokens[s.GetCreatedAt()/day] += tracing.Took(s)
	}
	reply.Sessions = sessions[:min(len(sessions), int(query.GetLimit()))]
	return reply, err
}

// readKept adds up how many sessions are kept.
func readKept(ctx context.Context, from kit.Lists, query *tracepb.KeptQuery) (*tracepb.KeptReply, error) {
	counts, err := from.Counts(ctx, keptOf(query.GetTenantId(), query.GetProjectId(), query.GetUserId()))
	if err != nil {
		return nil, err
	}
	return &tracepb.KeptReply{Sessions: counts[0]}, nil
}
