package balance

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// register stores records for nodes that are new or came back with another data directory. It returns the updated records.
func (l *Loop) register(ctx context.Context, records []Record, board *cluster.View) []Record {
	byName := make(map[string]*Record, len(records))
	for i := range records {
		byName[records[i].Name] = &records[i]
	}
	var added []Record
	for i := range board.Nodes {
		n := &board.Nodes[i]
		known := byName[n.Name]
		if !live(n, board.At, l.config.Silence) || n.Node == 0 || known != nil && known.Node == n.Node {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, l.config.StepTimeout)
		err := l.config.Nodes.Register(bounded, n.Name, n.Node)
		cancel()
		text := fmt.Sprintf("register %s", n.Name)
		l.record(text, err)
		if err != nil {
			l.config.Logger.Warn("placement step failed", slog.String("step", text), slog.Any("err", err))
			continue
		}
		l.config.Logger.Info("placement step", slog.String("step", text))
		if known != nil {
			known.Node = n.Node
		} else {
			added = append(added, Record{Name: n.Name, Node: n.Node})
		}
	}
	return append(records, added...)
}

// carryOut has the steps of one plan carried out, each by the node concerned, and waits for all of them.
func (l *Loop) carryOut(ctx context.Context, seen *observation, steps []shard.Step) {
	var (
		making sync.WaitGroup
		mu     sync.Mutex
	)
	for _, step := range steps {
		making.Go(func() {
			text, start := seen.text(&step), time.Now()
			err := l.request(ctx, seen, &step)
			mu.Lock()
			defer mu.Unlock()
			l.ended(&step, err, time.Now())
			if ctx.Err() != nil {
				return
			}
			l.metrics.made(step.Change, err)
			l.record(text, err)
			attributes := []any{
				slog.String("step", text), slog.String("why", step.Why), slog.Duration("elapsed", time.Since(start)),
			}
			if err != nil {
				l.config.Logger.Warn("placement step failed", append(attributes, slog.Any("err", err))...)
				return
			}
			l.config.Logger.Info("placement step", attributes...)
		})
	}
	making.Wait()
}

// request asks the node concerned to carry out a step.
func (l *Loop) request(ctx context.Context, seen *observation, step *shard.Step) error {
	at, request := step.Leader, message(step)
	if step.Change == shard.Drop {
		at = step.Node
	}
	name, known := seen.names[at]
	if !known {
		return fmt.Errorf("node %x has no record", uint64(at))
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.StepTimeout)
	defer cancel()
	_, err := l.config.Router.Call(ctx, name, request)
	return err
}

func message(step *shard.Step) proto.Message {
	in, node := uint32(step.Shard), uint64(step.Node)
	change := nodepb.ChangeMembers_CHANGE_UNSPECIFIED
	switch step.Change {
	case shard.AddLearner:
		change = nodepb.ChangeMembers_ADD_LEARNER
	case shard.Promote:
		change = nodepb.ChangeMembers_PROMOTE
	case shard.Remove:
		change = nodepb.ChangeMembers_REMOVE
	case shard.Transfer:
		return &nodepb.TransferLeader{Shard: in, To: node, AtRest: step.AtRest}
	case shard.Drop:
		return &nodepb.DropReplica{Shard: in, AsOf: step.AsOf}
	}
	return &nodepb.ChangeMembers{
		Shard: in, Change: change, Node: node, ExpectVoters: numbers(step.Voters), ExpectLearners: numbers(step.Learners),
	}
}

func numbers(nodes []shard.NodeID) []uint64 {
	made := make([]uint64, len(nodes))
	for i, n := range nodes {
		made[i] = uint64(n)
	}
	return made
}

// text describes a step: "shard 3: promote n2".
func (o *observation) text(step *shard.Step) string {
	name, known := o.names[step.Node]
	if !known {
		name = fmt.Sprintf("node %x", uint64(step.Node))
	}
	return fmt.Sprintf("shard %d: %s %s", step.Shard, step.Change, name)
}
