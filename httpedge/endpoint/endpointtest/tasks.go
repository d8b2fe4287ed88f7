package endpointtest

import (
	"context"
	"errors"
	"sync"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// Tasks is endpoint.Tasks in memory: what is put is read, and commands are answered as told.
type Tasks struct {
	OnAsk func(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error)

	mu       sync.Mutex
	views    map[string]*endpoint.TaskView
	order    []string // newest last
	commands []*taskpb.Command
	queries  []endpoint.TaskQuery
}

// Put stores a task, or replaces it.
func (s *Tasks) Put(view *endpoint.TaskView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.views == nil {
		s.views = make(map[string]*endpoint.TaskView)
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
func (s *Tasks) Queries() []endpoint.TaskQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]endpoint.TaskQuery(nil), s.queries...)
}

// Ask implements endpoint.Tasks.
func (s *Tasks) Ask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
	s.mu.Lock()
	s.commands = append(s.commands, command)
	s.mu.Unlock()
	if s.OnAsk == nil {
		return nil, errors.New("unexpected command")
	}
	return s.OnAsk(ctx, command)
}

// Task implements endpoint.Tasks.
func (s *Tasks) Task(_ context.Context, id string, comments int, result bool) (*endpoint.TaskView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.views[id]
	if stored == nil {
		return nil, machine.Fail(failurepb.Code_NOT_FOUND, "task not found")
	}
	view := &endpoint.TaskView{Task: stored.Task, Comments: stored.Comments[max(0, len(stored.Comments)-comments):]}
	if result {
		view.Result = stored.Result
	}
	return view, nil
}

// List implements endpoint.Tasks. It ignores all but whose tasks are asked for, and the page.
func (s *Tasks) List(_ context.Context, query endpoint.TaskQuery) (*endpoint.TaskPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, query)
	page := &endpoint.TaskPage{}
	for i := len(s.order) - 1; i >= 0; i-- {
		task := s.views[s.order[i]].Task
		if !query.Anybody && task.GetUserId() != query.UserID {
			continue
		}
		page.Total++
		if page.Total > query.Offset && len(page.Tasks) < query.Limit {
			page.Tasks = append(page.Tasks, task)
		}
	}
	return page, nil
}
