package run

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/background"
	"parley/actors/core/entity"
	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// Config is what the workers of runs need of their node. All but Renew is required.
type Config struct {
	Agents  background.Agents
	Records background.Records
	// Client reaches the queues of projects, which live in other shards, and QueueID names them.
	Client  entity.Client
	QueueID func(tenantID, projectID string) string
	// Pool runs the workers, and Callbacks posts to the runs' addresses.
	Pool      kit.Pool
	Callbacks delivery.Sender
	// OpenSecret decrypts the secret of a callback; about is runpb.SecretAbout of the run.
	OpenSecret func(sealed []byte, about string) ([]byte, error)
	// Renew is how often the place of a run that runs is asked for again. It must be well below queue.Limits.Lease. Default 3m.
	Renew time.Duration
}

const defaultRenew = 3 * time.Minute

// New returns the kind of runs under the given limits, which must be valid. It must come after the kind of conversations, which it
// needs (see Watch): a run works in a conversation of its shard, so that both have the same owner.
func New(limits Limits, config Config) kit.Entity {
	config.Renew = cmp.Or(config.Renew, defaultRenew)
	return kit.Entity{
		Machine: rules(limits),
		Command: (*runpb.Command)(nil),
		Missing: Missing,
		Queries: queries(),
		Tells:   tells,
		Perform: config.perform,
		Creates: kit.Is(func(c *runpb.Command) bool { return c.GetCreate() != nil }),
		Busy:    kit.Is(func(s *runpb.State) bool { return Driven(s) || trying(s) }),
		Running: ListRunning,
		Due: kit.Due{List: ListDue, Ahead: limits.CallbackTimeout, Command: func(id string) proto.Message {
			return &runpb.Command{RunId: id, Body: &runpb.Command_Due{Due: &runpb.Due{}}}
		}},
	}.WorkedBy(config.Pool, config.Callbacks, kit.Is(Driven))
}

func (c Config) perform(at kit.Ref, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case Drive:
		w := &worker{config: c, at: at, run: e.Run}
		c.Pool.Work(at, nil, w.work) // the one before may have looked already, and be about to end
	case Post:
		c.post(at, e)
	}
	return nil
}

// Watch has the conversations of a kind tell the run that holds one when what it waits for has happened: a person has
// acted, or the conversation is gone.
func Watch(conversations *kit.Entity, pool kit.Pool) {
	before := conversations.OnCommit
	conversations.OnCommit = func(commit kit.Commit) {
		if before != nil {
			before(commit)
		}
		was, _ := commit.Before.(*conversationpb.State)
		holder := was.GetBackgroundRun()
		if holder == "" {
			return
		}
		is, _ := commit.After.(*conversationpb.State)
		acted := was.GetStatus() == conversationpb.Status_WAITING && is.GetStatus() != conversationpb.Status_WAITING
		if is == nil || acted {
			notify(commit.Ref, holder, pool)
		}
	}
}

// noticeTimeout bounds a notice. A run that has not got it looks by itself.
const noticeTimeout = 10 * time.Second

// notify has a run look at its conversation.
func notify(conversation kit.Ref, holder string, pool kit.Pool) {
	pool.Call(conversation, "notify the run", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		_, err := conversation.Tell(ctx, holder, &runpb.Command{RunId: holder, Body: &runpb.Command_Look{Look: &runpb.Look{}}})
		return err
	})
}
