package node

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/approval"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/core/guardrail"
	"parley/actors/core/permission"
	"parley/actors/guard"
	"parley/actors/turn/tool"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/dashboard"
	engine "parley/httpedge/permission"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// aegis implements handler.Aegis, and turn.Guard for the turns of this node.
type aegis struct {
	*guard.Guard

	ids      ids.IDs
	counted  *attempts
	verdicts *verdicts
	features *feature.Gate
	known    guard.Known   // of the door
	rails    func() *rails // once the directory is open
	judges   *judges
}

// newAegis makes what asks shields. Its verdicts are written from start on.
func (n *Node) newAegis() *aegis {
	mint := ids.New(n.shards)
	a := &aegis{
		ids: mint, features: n.features, counted: &attempts{client: &client{n}, ids: mint, features: n.features, key: []byte("aegis")},
		verdicts: &verdicts{
			client: &client{n}, newID: mint.NewID, keep: n.config.Permissions.DecisionRetention, log: n.log,
			queue: make(chan *decisionpb.Verdict, 16*permission.MaxBatch), over: make(chan struct{}), ended: make(chan struct{}),
			lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_aegis_verdicts_lost_total", Help: "Verdicts of shields and guardrails that were not kept, or may not have been."}),
		},
	}
	a.judges = newJudges(n.log)
	n.metrics.MustRegister(a.verdicts.lost)
	shields := sync.OnceValue(n.newCatalog) // the directory opens after this
	a.rails = sync.OnceValue(func() *rails { return &rails{models: n.directory.agents, catalog: shields()} })
	a.Guard = guard.New(guard.Parts{
		Ready: a.Ready, Fits: tool.Checks{}.Args, Take: a.take, Ask: a.judges.ask, Keep: a.keep, NewID: mint.NewID,
		Shield: func(ctx context.Context, tenantID, projectID, id string) (*directorypb.Shield, error) {
			return shields().Shield(ctx, tenantID, projectID, id)
		},
		Guardrail: func(ctx context.Context, projectID, key string) (*guardrail.Guardrail, error) {
			return a.rails().Guardrail(ctx, projectID, key)
		},
		Roles: func(_ context.Context, tenantID, userID string) []string {
			if user := n.directory.accounts.Load().KnownUser(tenantID, userID); user.GetRole() != "" {
				return []string{user.GetRole()}
			}
			return nil
		},
	})
	return a
}

// start writes verdicts until the node stops.
func (a *aegis) start(n *Node) {
	ctx, cancel := context.WithCancel(context.Background())
	go a.verdicts.run(ctx)
	n.later(func(stop context.Context) {
		close(a.verdicts.over)
		defer context.AfterFunc(stop, cancel)()
		<-a.verdicts.ended
		cancel()
	})
}

// ApprovalID derives an id from a call.
func (a *aegis) ApprovalID(binding string) string { return a.ids.NewIDFrom(approval.Prefix, binding) }

// IsApproval says whether a text has the form of an approval's id.
func (a *aegis) IsApproval(id string) bool {
	return len(id) == len(a.ApprovalID("")) && strings.HasPrefix(id, approval.Prefix+"_")
}

// take counts a call of a minute at the owner of its window.
func (a *aegis) take(ctx context.Context, key string, perMinute int) (bool, error) {
	allowed, _, err := a.counted.Take(ctx, "aegis\x00"+key, dashboard.Limit{Most: perMinute, Window: time.Minute})
	return allowed, err
}

// Ready implements handler.Aegis.
func (a *aegis) Ready() error {
	if !a.features.On(feature.Aegis) {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ShieldsNotReady)
	}
	return nil
}

// keep has a verdict written. Who brings it and goes takes it along only where there is no room.
func (a *aegis) keep(ctx context.Context, verdict *decisionpb.Verdict) error {
	verdict.At = time.Now().UnixMilli()
	err := a.verdicts.put(ctx, verdict)
	if err != nil {
		a.verdicts.lost.Inc()
	}
	return err
}

// verdictPause is how long a verdict waits for others to be written with; a crash loses at most those of that time.
const verdictPause = 50 * time.Millisecond

// verdicts writes verdicts in batches. Who brings one waits while the queue is full.
type verdicts struct {
	client entity.Client
	newID  func(kind string) string
	keep   time.Duration
	log    *slog.Logger
	queue  chan *decisionpb.Verdict
	over   chan struct{} // closed when no more are to be brought
	ended  chan struct{}
	lost   prometheus.Counter
}

// put brings a verdict.
func (v *verdicts) put(ctx context.Context, verdict *decisionpb.Verdict) error {
	select {
	case <-v.over:
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ServerShuttingDown)
	default:
	}
	select {
	case v.queue <- verdict:
		return nil
	default:
	}
	select {
	case v.queue <- verdict:
		return nil
	case <-v.over:
		return failure.New(failurepb.Code_UNAVAILABLE, failure.ServerShuttingDown)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes until it is over and nothing is left.
func (v *verdicts) run(ctx context.Context) {
	defer close(v.ended)
	for {
		var batch []*decisionpb.Verdict
		select {
		case first := <-v.queue:
			batch = append(batch, first)
		case <-v.over:
			select {
			case first := <-v.queue:
				batch = append(batch, first)
			default:
				return
			}
		}
		v.write(ctx, v.gather(batch))
	}
}

// maxVerdicts bounds a batch, in bytes of its verdicts but the last.
const maxVerdicts = 256 << 10

// gather adds what comes within a moment.
func (v *verdicts) gather(batch []*decisionpb.Verdict) []*decisionpb.Verdict {
	pause := time.NewTimer(verdictPause)
	defer pause.Stop()
	size := proto.Size(batch[0])
	for len(batch) < permission.MaxBatch && size < maxVerdicts {
		select {
		case next := <-v.queue:
			batch = append(batch, next)
			size += proto.Size(next)
		case <-pause.C:
			return batch
		}
	}
	return batch
}

func (v *verdicts) write(ctx context.Context, batch []*decisionpb.Verdict) {
	err := engine.Write(ctx, v.client, &decisionpb.Command{Id: v.newID(permission.BatchKind), Body: &decisionpb.Command_Record{
		Record: &decisionpb.Record{Verdicts: batch, KeepMs: v.keep.Milliseconds()},
	}})
	if err != nil {
		v.lost.Add(float64(len(batch)))
		v.log.Warn("verdicts of shields and guardrails were not kept", slog.Int("verdicts", len(batch)), slog.Any("err", err))
	}
}
