package node

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/approval"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/core/permission"
	"parley/cmd/parley/node/ids"
	"parley/httpedge/dashboard"
	engine "parley/httpedge/permission"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// aegis implements handler.Aegis.
type aegis struct {
	ids      ids.IDs
	counted  *attempts
	verdicts *verdicts
	features *feature.Gate
}

// newAegis starts what shields need of this node.
func (n *Node) newAegis(mint ids.IDs) *aegis {
	a := &aegis{
		ids: mint, features: n.features, counted: &attempts{client: &client{n}, ids: mint, features: n.features, key: []byte("aegis")},
		verdicts: &verdicts{
			client: &client{n}, newID: mint.NewID, keep: n.config.Permissions.DecisionRetention, log: n.log,
			queue: make(chan *decisionpb.Verdict, 16*permission.MaxBatch), ended: make(chan struct{}),
			lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_aegis_verdicts_lost_total", Help: "Verdicts of shields that were not kept, or may not have been."}),
		},
	}
	n.metrics.MustRegister(a.verdicts.lost)
	ctx, cancel := context.WithCancel(context.Background())
	go a.verdicts.run(ctx)
	n.later(func(stop context.Context) {
		close(a.verdicts.queue)
		defer context.AfterFunc(stop, cancel)()
		<-a.verdicts.ended
		cancel()
	})
	return a
}

// ApprovalID derives an id from a call.
func (a *aegis) ApprovalID(binding string) string { return a.ids.NewIDFrom(approval.Prefix, binding) }

// IsApproval says whether a text has the form of an approval's id.
func (a *aegis) IsApproval(id string) bool {
	return len(id) == len(a.ApprovalID("")) && strings.HasPrefix(id, approval.Prefix+"_")
}

// Take counts a call of a minute at the owner of its window.
func (a *aegis) Take(ctx context.Context, key string, perMinute int) (bool, error) {
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

// Keep has a verdict written.
func (a *aegis) Keep(ctx context.Context, verdict *decisionpb.Verdict) error {
	verdict.At = time.Now().UnixMilli()
	select {
	case a.verdicts.queue <- verdict:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	ended  chan struct{}
	lost   prometheus.Counter
}

// run writes until the queue is closed and empty.
func (v *verdicts) run(ctx context.Context) {
	defer close(v.ended)
	for first := range v.queue {
		batch := []*decisionpb.Verdict{first}
		pause := time.NewTimer(verdictPause)
		for waiting := true; waiting && len(batch) < permission.MaxBatch; {
			select {
			case next, open := <-v.queue:
				if !open {
					waiting = false
					break
				}
				batch = append(batch, next)
			case <-pause.C:
				waiting = false
			}
		}
		pause.Stop()
		v.write(ctx, batch)
	}
}

func (v *verdicts) write(ctx context.Context, batch []*decisionpb.Verdict) {
	err := engine.Write(ctx, v.client, &decisionpb.Command{Id: v.newID(permission.BatchKind), Body: &decisionpb.Command_Record{
		Record: &decisionpb.Record{Verdicts: batch, KeepMs: v.keep.Milliseconds()},
	}})
	if err != nil {
		v.lost.Add(float64(len(batch)))
		v.log.Warn("verdicts of shields were not kept", slog.Int("verdicts", len(batch)), slog.Any("err", err))
	}
}
