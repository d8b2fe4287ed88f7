package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/deliver"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/task"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

func taskNotFound() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.TaskNotFound)
}

// newTaskKind makes background tasks an entity of the shell.
func (n *Node) newTaskKind(guard *deliver.Guard, deliveries *actors.Deliveries, of conversation.Limits) (actors.Kind, error) {
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Timeout: n.config.Tasks.CallbackTimeout})
	if err != nil {
		return actors.Kind{}, err
	}
	limits := task.DefaultLimits()
	limits.InputBytes, limits.MetadataBytes = of.MessageBytes, of.MetadataBytes
	limits.CommentBytes = min(limits.CommentBytes, of.MessageBytes)
	limits.CallbackTimeout = max(limits.CallbackTimeout, 2*n.config.Tasks.CallbackTimeout)
	if err := limits.Validate(); err != nil {
		return actors.Kind{}, err
	}
	return actors.Tasks(task.New(limits), actors.TasksConfig{
		Agents: versions{n.agents}, Records: n.reads, Poster: poster, Deliveries: deliveries, Secret: n.config.Tasks.CallbackSecret.Reveal(),
		Logger: n.log, Registerer: n.metrics,
	})
}

// tasks is the router as the edge's endpoint.Tasks.
type tasks struct{ route }

// Ask routes a command to its task's owner.
func (t *tasks) Ask(ctx context.Context, command *taskpb.Command) (*taskpb.Reply, error) {
	if _, valid := t.shards.Of(command.GetTaskId()); !valid {
		return nil, taskNotFound()
	}
	reply, node, err := askEntity[*taskpb.Reply](ctx, t.router, command.GetTaskId(), command)
	endpoint.ServedBy(ctx, node)
	return reply, err
}

// Task asks the owner for a task.
func (t *tasks) Task(ctx context.Context, id string, comments int, result bool) (*endpoint.TaskView, error) {
	if _, valid := t.shards.Of(id); !valid {
		return nil, taskNotFound()
	}
	reply, err := ask[*nodepb.TaskReply](ctx, t.route, id, &nodepb.TaskQuery{Id: id, Comments: uint32(comments), Result: result})
	if err != nil {
		return nil, err
	}
	return &endpoint.TaskView{Task: reply.GetTask(), Comments: reply.GetComments(), Result: reply.GetResult()}, nil
}

// List lists tasks of all shards, the newest first.
func (t *tasks) List(ctx context.Context, query endpoint.TaskQuery) (*endpoint.TaskPage, error) {
	list := task.List{
		TenantID: query.TenantID, ProjectID: query.ProjectID, Anybody: query.Anybody, UserID: query.UserID,
		AgentID: query.AgentID, Status: query.Status,
	}
	from := scatteredRows{t.route} // which asks this node as the others
	counts, err := from.Counts(ctx, list.CountName())
	if err != nil {
		return nil, err
	}
	page := &endpoint.TaskPage{Total: int(counts[0])}
	if query.Offset >= page.Total {
		return page, nil // and no offset is too large to count with
	}
	found, err := from.Page(ctx, kit.ListQuery{
		List: list.Name(), Descending: true, Offset: query.Offset, Limit: query.Limit,
	})
	if err != nil {
		return nil, err
	}
	page.Tasks, err = kit.States[taskpb.State](ctx, from, found)
	return page, err
}

// maxCommentPage is the size in bytes at which the comments that are read with a task end, though more were asked for.
const maxCommentPage = 4 << 20

// Task reads a task, of one moment.
func (r *reader) Task(ctx context.Context, query *nodepb.TaskQuery) (*nodepb.TaskReply, error) {
	in, valid := r.shards.Of(query.GetId())
	if !valid || !strings.HasPrefix(query.GetId(), "task_") {
		return nil, taskNotFound()
	}
	view, head, err := r.viewOf(ctx, uint32(in), query.GetId(), taskNotFound)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // a snapshot is given back; there is nothing to lose
	reply := &nodepb.TaskReply{Task: &taskpb.State{}}
	if err = proto.Unmarshal(head.Value, reply.Task); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	if query.GetComments() > 0 {
		if reply.Comments, err = readComments(view, query); err != nil {
			return nil, err
		}
	}
	if query.GetResult() && reply.GetTask().GetHasResult() {
		row, found, err := view.Item(query.GetId(), task.TableResults, []byte(task.ResultKey))
		reply.Result = &taskpb.Result{}
		if err = errors.Join(err, proto.Unmarshal(row, reply.Result)); err != nil {
			return nil, readFault("read result", err)
		}
		if !found {
			reply.Result = nil
		}
	}
	return reply, nil
}

// readComments reads the newest comments, oldest first.
func readComments(view *persistence.View, query *nodepb.TaskQuery) ([]*taskpb.Comment, error) {
	var comments []*taskpb.Comment
	var fault error
	size := 0
	err := view.Items(query.GetId(), persistence.ItemQuery{
		Table: task.TableComments, Descending: true, Limit: int(query.GetComments()),
	}, func(_, value []byte) bool {
		comment := &taskpb.Comment{}
		if fault = proto.Unmarshal(value, comment); fault != nil {
			return false
		}
		if size += len(value); size > maxCommentPage && len(comments) > 0 {
			return false
		}
		comments = append(comments, comment)
		return true
	})
	if err = errors.Join(err, fault); err != nil {
		return nil, readFault("read comments", err)
	}
	slices.Reverse(comments)
	return comments, nil
}

// turnTimeout bounds a read for a task that is driven.
const turnTimeout = 10 * time.Second

// Turn reads how an ended turn ended, with its answer; of one that waits for a person what it has said so far.
func (r *reader) Turn(ctx context.Context, conversationID, runID string) (*conversationpb.TurnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	view, head, err := r.view(ctx, conversationID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = view.Close() }() // the same
	state, err := decodeState(head.Value)
	if err != nil {
		return nil, err
	}
	turn := &conversationpb.TurnResult{
		RunId: runID, Budget: state.GetBudget(), SpentNanoUsd: state.GetSpentNanoUsd(), Title: state.GetTitle(),
	}
	row, ended, err := view.Item(conversationID, conversation.TableRuns, []byte(runID))
	run := &conversationpb.Run{}
	if err = errors.Join(err, proto.Unmarshal(row, run)); err != nil {
		return nil, readFault("read run", err)
	}
	if !ended {
		paused := state.GetPaused()
		if paused.GetRunId() != runID {
			return nil, failure.New(failurepb.Code_NOT_FOUND, failure.TurnNotFound)
		}
		turn.StopReason, turn.Pending, turn.Response = state.GetStopReason(), state.GetPending(), paused.GetAnswer()
		turn.Usage = paused.GetUsage()
		return turn, nil
	}
	turn.StopReason, turn.Usage, turn.Error = run.GetStopReason(), run.GetUsage(), run.GetError()
	if run.GetAnswer() == 0 {
		return turn, nil
	}
	row, found, err := view.Item(conversationID, conversation.TableMessages, conversation.MessageKey(run.GetAnswer()))
	answer := &conversationpb.Message{}
	if err = errors.Join(err, proto.Unmarshal(row, answer)); err != nil {
		return nil, readFault("read message", err)
	}
	if found && answer.GetRunId() == runID { // else it was replaced since
		turn.Response = answer
	}
	return turn, nil
}
