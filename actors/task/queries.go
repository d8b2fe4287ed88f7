package task

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/background"
	"parley/actors/kit"
	"parley/proto/nodepb"
	"parley/proto/taskpb"
)

// queries are the reads of tasks.
func queries() []kit.Query {
	return []kit.Query{kit.Read(readTask), kit.Scan(listTasks)}
}

// readTask reads a task with as many of its newest comments, and its result, as asked for.
func readTask(view kit.View, state *taskpb.State, query *nodepb.TaskQuery) (reply *nodepb.TaskReply, err error) {
	reply = &nodepb.TaskReply{Task: state}
	if err = asItsConversation(view, state); err != nil {
		return nil, err
	}
	if query.GetComments() > 0 {
		if reply.Comments, err = readComments(view, query); err != nil {
			return nil, err
		}
	}
	if query.GetResult() && state.GetHasResult() {
		reply.Result, err = kit.Item[taskpb.Result](view, query.GetId(), TableResults, ResultKey)
	}
	return reply, err
}

// asItsConversation shows a task that waits as one that runs when its conversation does not wait any more, of which the task hears
// only afterwards.
func asItsConversation(view kit.View, state *taskpb.State) error {
	waiting := state.GetWaiting()
	if waiting == nil {
		return nil
	}
	left, found, err := background.Waits(view, state.GetConversationId(), waiting.GetRunId(), waiting.GetPending())
	if err == nil && found && len(left) == 0 {
		state.Status, state.HasResult = taskpb.Status_RUNNING, false
	}
	return err
}

// maxCommentPage is the size in bytes at which the comments that are read with a task end, though more were asked for.
const maxCommentPage = 4 << 20

// readComments reads the newest comments, oldest first.
func readComments(view kit.View, query *nodepb.TaskQuery) (comments []*taskpb.Comment, err error) {
	var damage error
	size := 0
	err = view.Items(query.GetId(), kit.ItemQuery{
		Table: TableComments, Descending: true, Limit: int(query.GetComments()),
	}, func(_, value []byte) bool {
		comment := &taskpb.Comment{}
		if damage = proto.Unmarshal(value, comment); damage != nil {
			return false
		}
		if size += len(value); size > maxCommentPage && len(comments) > 0 {
			return false
		}
		comments = append(comments, comment)
		return true
	})
	slices.Reverse(comments)
	return comments, errors.Join(err, damage)
}

// listTasks lists tasks of all shards.
func listTasks(ctx context.Context, from kit.Lists, query *taskpb.TasksQuery) (*taskpb.TasksReply, error) {
	list := List{
		TenantID: query.GetTenantId(), ProjectID: query.GetProjectId(), Anybody: query.GetAnybody(), UserID: query.GetUserId(),
		AgentID: query.GetAgentId(), Status: query.GetStatus(),
	}
	counts, err := from.Counts(ctx, list.CountName())
	if err != nil {
		return nil, err
	}
	page := &taskpb.TasksReply{Total: counts[0]}
	if query.GetOffset() >= page.GetTotal() {
		return page, nil // and no offset is too large to count with
	}
	found, err := from.Page(ctx, kit.ListQuery{
		List: list.Name(), Descending: true, Offset: int(query.GetOffset()), Limit: int(query.GetLimit()),
	})
	if err != nil {
		return nil, err
	}
	page.Tasks, err = kit.States[taskpb.State](ctx, from, found)
	return page, err
}
