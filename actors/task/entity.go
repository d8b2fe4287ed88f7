package task

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/background"
	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/run"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// Config is what the workers of tasks need of their node. All but Secret is required.
type Config struct {
	Agents  background.Agents
	Records background.Records
	// Pool runs the workers, and Callbacks posts to the tasks' addresses.
	Pool      kit.Pool
	Callbacks delivery.Sender
	// Secret signs callbacks, "" = they are not signed.
	Secret string
}

// New returns the kind of tasks under the given limits, which must be valid. It must come after the kind of conversations, which it
// needs: a task works in a conversation of its shard, so that both have the same owner.
func New(limits Limits, config Config) kit.Entity {
	return kit.Entity{
		Machine: rules(limits),
		Command: (*taskpb.Command)(nil),
		Missing: notFound,
		Queries: queries(),
		Perform: config.perform,
		Creates: kit.Is(func(c *taskpb.Command) bool { return c.GetCreate() != nil }),
		Busy:    kit.Is(func(s *taskpb.State) bool { return s.GetRun() != nil || s.GetCallback().GetTrying() }),
		Running: ListRunning,
		Due: kit.Due{List: ListDue, Ahead: limits.CallbackTimeout, Command: func(id string) proto.Message {
			return &taskpb.Command{TaskId: id, Body: &taskpb.Command_Due{Due: &taskpb.Due{}}}
		}},
	}.WorkedBy(config.Pool, config.Callbacks, kit.Is(func(s *taskpb.State) bool { return s.GetRun() != nil }))
}

func (c Config) perform(at kit.Ref, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case Drive:
		run.WorkOnTask(run.Config{Agents: c.Agents, Records: c.Records, Pool: c.Pool}, at, e.Task)
	case Post:
		c.post(at, e)
	}
	return nil
}

// Watch has the conversations of a kind tell their tasks when a turn does not wait for a person any more.
func Watch(conversations *kit.Entity, pool kit.Pool) {
	before := conversations.OnCommit
	conversations.OnCommit = func(commit kit.Commit) {
		if before != nil {
			before(commit)
		}
		was, _ := commit.Before.(*conversationpb.State)
		is, _ := commit.After.(*conversationpb.State)
		if was.GetStatus() != conversationpb.Status_WAITING || is.GetStatus() == conversationpb.Status_WAITING {
			return
		}
		if id := taskpb.Of(was); id != "" {
			notify(commit.Ref, id, was.GetPaused().GetRunId(), pool)
		}
	}
}

// noticeTimeout bounds a notice. A task that has not got it looks by itself.
const noticeTimeout = 10 * time.Second

func notify(conversation kit.Ref, id, turn string, pool kit.Pool) {
	pool.Call(conversation, "notify the task", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		_, err := conversation.Tell(ctx, id, &taskpb.Command{
			TaskId: id, Body: &taskpb.Command_Resumed{Resumed: &taskpb.Resumed{RunId: turn}},
		})
		return err
	})
}
