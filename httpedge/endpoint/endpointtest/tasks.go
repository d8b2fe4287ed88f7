package endpointtest

import (
	"context"
	"errors"
	"sync"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

// Tasks answers reads of tasks from memory, and commands as told.
type Tasks struct {
	OnAsk func(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error)

	mu       sync.Mutex
	views    map[string]*nodepb.TaskReply
	order    []string // newest last
	commands []*taskpb.Command
	queries  []*taskpb.TasksQuery
}

// Put stores a task, or replaces it.
func (s *Tasks) Put(view *nodepb.TaskReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.views == nil {
		s.views = make(map[string]*nodepb.TaskReply)
	}
	if s.views[view.Task.GetId()] == nil {
		s.order = append(s.order, view.Task.GetId())
	}
	s.views[view.Task.GetId()] = view
}

// Commands returns the commands so far, Queries the lists that were asked for.
func (s *Tasks) Commands() []*taskpb.Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*taskpb.Command(nil), s.commands...)
}

// Queries returns the lists that were asked for so far.
func (s *Tasks) Queries() []*taskpb.TasksQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*taskpb.TasksQuery(nil), s.queries...)
}

// Serve has commands and reads of tasks answered here.
func (s *Tasks) Serve(e Entities) {
	On(e, s.Ask)
	On(e, s.Task)
	On(e, s.List)
}

// Ask answers a command.
func (s *Tasks) Ask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
	s.mu.Lock()
	s.commands = append(s.commands, command)
	s.mu.Unlock()
	if s.OnAsk == nil {
		return nil, errors.New("unexpected command")
	}
	return s.OnAsk(ctx, command)
}

// Task answers a task.
func (s *Tasks) Task(_ context.Context, query *nodepb.TaskQuery) (*nodepb.TaskReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.views[query.GetId()]
	if stored == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.TaskNotFound)
	}
	view := &nodepb.TaskReply{Task: stored.Task, Comments: stored.Comments[max(0, len(stored.Comments)-int(query.GetComments())):]}
	if query.GetResult() {
		view.Result = stored.Result
	}
	return view, nil
}

// List answers a page of tasks. It ignores all but whose tasks are asked for, and the page.
func (s *Tasks) List(_ context.Context, query *taskpb.TasksQuery) (*taskpb.TasksReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, query)
	page := &taskpb.TasksReply{}
	for i := len(s.order) - 1; i >= 0; i-- {
		task := s.views[s.order[i]].Task
		if !query.Anybody && task.GetUserId() != query.GetUserId() {
			continue
		}
		page.Total++
		if page.Total > query.GetOffset() && int64(len(page.Tasks)) < query.GetLimit() {
			page.Tasks = append(page.Tasks, task)
		}
	}
	return page, nil
}
