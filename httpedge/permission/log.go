package permission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/entity"
	"parley/actors/core/feature"
	"parley/actors/core/permission"
	"parley/proto/decisionpb"
)

const (
	// writeEvery is the shortest time between two batches: a decision after a quiet second is written at once.
	writeEvery = time.Second
	// writeTimeout bounds one attempt to write a batch, attempts how often that is tried. Meanwhile the next batch fills.
	writeTimeout = 5 * time.Second
	attempts     = 4
	// maxOfTenant bounds what one tenant may have of a batch: its flood leaves room for the decisions of others.
	maxOfTenant = permission.MaxBatch / 2
)

// LogParts is what the log needs of the rest of the node.
type LogParts struct {
	Entities entity.Client
	NewID    func(kind string) string
	// Features is what the nodes of the cluster have in common; nil = all that this release has.
	Features *feature.Gate
	// Keep is how long decisions are kept.
	Keep       time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Log keeps decisions. It collects them in memory and writes them in batches; a crash loses at most those of the last second.
type Log struct {
	LogParts

	lost prometheus.Counter

	mu    sync.Mutex
	batch *batch // nil = empty

	cancel context.CancelFunc // ends the write under way
	added  chan struct{}      // capacity 1: there is a batch
	quit   chan struct{}
	ended  chan struct{}
}

// batch is decisions that are still to be written.
type batch struct {
	id        string
	decisions []*decisionpb.Decision
	equal     map[likeness]*decisionpb.Decision
	ofTenant  map[string]int
}

// likeness is what equal decisions have in common.
type likeness struct{ tenant, project, user, token, service, level, route, text string }

func likenessOf(d *decisionpb.Decision) likeness {
	return likeness{
		d.GetTenantId(), d.GetProjectId(), d.GetUserId(), d.GetTokenId(), d.GetService(), d.GetLevel(), d.GetRoute(), d.GetText(),
	}
}

// NewLog starts a log.
func NewLog(parts LogParts) *Log {
	l := &Log{
		LogParts: parts, added: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_permission_decisions_lost_total", Help: "Refusals whose decision was not kept, or may not have been.",
		}),
	}
	if parts.Registerer != nil {
		parts.Registerer.MustRegister(l.lost)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
	return l
}

// add takes a decision and returns its id. It never blocks. One that does not fit has an id, too, under which nothing is found.
func (l *Log) add(d *decisionpb.Decision, at time.Time) (id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.batch == nil {
		l.batch = &batch{id: l.NewID(permission.BatchKind), equal: map[likeness]*decisionpb.Decision{}, ofTenant: map[string]int{}}
		select {
		case l.added <- struct{}{}:
		default:
		}
	}
	b, like := l.batch, likenessOf(d)
	if known := b.equal[like]; known != nil {
		known.Count++
		known.LastAt = at.UnixMilli()
		return known.GetId()
	}
	if len(b.decisions) >= permission.MaxBatch || b.ofTenant[d.GetTenantId()] >= maxOfTenant {
		l.lost.Inc()
		return permission.DecisionID(l.NewID(permission.BatchKind), 0)
	}
	d.Id, d.Count = permission.DecisionID(b.id, len(b.decisions)), 1
	d.DecidedAt, d.LastAt = at.UnixMilli(), at.UnixMilli()
	b.decisions, b.equal[like] = append(b.decisions, d), d
	b.ofTenant[d.GetTenantId()]++
	return d.GetId()
}

func (l *Log) run(ctx context.Context) {
	defer close(l.ended)
	pause := time.NewTimer(writeEvery)
	defer pause.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-l.added:
		}
		l.flush(ctx)
		pause.Reset(writeEvery)
		select {
		case <-l.quit:
			return
		case <-pause.C:
		}
	}
}

// Stop writes what is left, until ctx ends.
func (l *Log) Stop(ctx context.Context) {
	close(l.quit)
	defer context.AfterFunc(ctx, l.cancel)() // a write under way may finish until ctx ends
	<-l.ended
	l.cancel()
	l.flush(ctx)
}

// flush writes the batch.
func (l *Log) flush(ctx context.Context) {
	l.mu.Lock()
	b := l.batch
	l.batch = nil
	l.mu.Unlock()
	if b == nil {
		return
	}
	err := errOldCluster
	if l.Features == nil || l.Features.On(feature.Webhooks) {
		command := &decisionpb.Command{Id: b.id, Body: &decisionpb.Command_Record{Record: &decisionpb.Record{
			Decisions: b.decisions, KeepMs: l.Keep.Milliseconds(),
		}}}
		err = Write(ctx, l.Entities, command)
	}
	if err != nil {
		l.lost.Add(float64(len(b.decisions)))
		l.Logger.Warn("decisions of the permission engine were not kept", slog.Int("decisions", len(b.decisions)), slog.Any("err", err))
	}
}

// Write has a batch written. It is tried some times, under the same id, so it is there at most once.
func Write(ctx context.Context, entities entity.Client, command *decisionpb.Command) (err error) {
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-time.After(time.Duration(attempt) * writeEvery):
			case <-ctx.Done():
				return err
			}
		}
		asked, cancel := context.WithTimeout(ctx, writeTimeout)
		_, err = entity.Ask[*decisionpb.Reply](asked, entities, command.GetId(), command)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// errOldCluster says that a node of the release before would not understand decisions.
var errOldCluster = errors.New("a node of the cluster is of an older release")
