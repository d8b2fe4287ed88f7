package trail

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/audit"
	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/auditpb"
	"parley/proto/failurepb"
)

const (
	maxWaiting   = 1024             // rows of a tenant that wait for the batch before them
	maxBatch     = 2 << 20          // bytes
	writeTimeout = 5 * time.Second  // of one attempt
	attempts     = 3                // at a batch
	pause        = time.Second      // between refusals of a kind, and between attempts
	grace        = 90 * time.Second // after a request must have ended, until its outcome counts as unknown
	maxRefusals  = 512              // kinds of refusals in a second, a tenant has an eighth of them
)

// Parts is what the trail needs of the rest of the node.
type Parts struct {
	Entities entity.Client
	// Chain is the id of a tenant's chain.
	Chain func(tenantID string) string
	NewID func(kind string) string
	// Features is what the nodes of the cluster have in common; nil = all that this release has.
	Features *feature.Gate
	// Keep and Rows bound what is kept of a tenant.
	Keep       time.Duration
	Rows       uint64
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Trail implements endpoint.Auditor.
type Trail struct {
	Parts

	writer  string // of batches: this process
	batches atomic.Uint64
	lost    prometheus.Counter
	ctx     context.Context //nolint:containedctx // of writes that nobody waits for; ends with Stop
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	stopped  bool
	tenants  map[string]*queue
	refusals map[likeness]*auditpb.Row
	ofTenant map[string]int // refusals
	flushing *time.Timer    // nil = there are no refusals
}

// queue is what is still to be written for a tenant. It is there while it is being written.
type queue struct{ waiting []*entry }

// entry is a row or a request that begins.
type entry struct {
	begun *auditpb.Pending // or row
	row   *auditpb.Row
	done  chan error // takes one value
}

// likeness is what equal refusals have in common.
type likeness struct{ tenant, project, user, token, method, route, address string }

// New returns a trail.
func New(parts Parts) *Trail {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Trail{
		Parts: parts, writer: parts.NewID("writer"), ctx: ctx, cancel: cancel,
		tenants: map[string]*queue{}, refusals: map[likeness]*auditpb.Row{}, ofTenant: map[string]int{},
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_audit_rows_lost_total", Help: "Rows of the audit trail that were not written, or may not have been.",
		}),
	}
	if parts.Registerer != nil {
		parts.Registerer.MustRegister(t.lost)
	}
	return t
}

// Stop writes what is left, until ctx ends.
func (t *Trail) Stop(ctx context.Context) {
	t.mu.Lock()
	if t.flushing != nil {
		t.flushing.Stop()
	}
	t.mu.Unlock()
	t.flush() //nolint:contextcheck // rows of many requests are written together
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	defer context.AfterFunc(ctx, t.cancel)()
	t.working.Wait()
	t.cancel()
}

// on says whether all nodes of the cluster know audit trails.
func (t *Trail) on() bool { return t.Features == nil || t.Features.On(feature.Webhooks) }

// Begin implements endpoint.Auditor.
func (t *Trail) Begin(ctx context.Context, request *endpoint.Audited) (endpoint.Trailed, *machine.Failure) {
	began := &trailed{trail: t, row: t.rowOf(request), params: request.Params, public: request.Caller.TenantID == ""}
	if began.public || !t.on() {
		return began, nil // whose trail it belongs to is known at its end
	}
	pending := &auditpb.Pending{Row: began.row, Until: request.Until.Add(grace).UnixMilli()}
	err := t.add(ctx, began.row.GetTenantId(), &entry{begun: pending})
	if err == nil {
		return began, nil
	}
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Reason == failure.AuditBusy {
		return nil, refused
	}
	t.Logger.Warn("a change is refused, since the audit trail cannot be written", slog.String("tenant", began.row.GetTenantId()), slog.Any("err", err))
	return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.AuditUnavailable)
}

// trailed implements endpoint.Trailed.
type trailed struct {
	trail  *Trail
	row    *auditpb.Row
	params map[string]string
	public bool
}

// End implements endpoint.Trailed. A row that cannot be written stays pending: its outcome will be unknown.
func (e *trailed) End(ctx context.Context, outcome string, status int, notes *audit.Notes) {
	row := proto.CloneOf(e.row) // the first one is on its way
	changes, truncated, actor := notes.Taken()
	row.Outcome, row.StatusCode = outcome, uint32(status)
	row.Changes, row.Truncated = changes, truncated
	if e.public {
		row.TenantId, row.ProjectId = actor.TenantID, actor.ProjectID
		row.ActorUserId, row.ActorEmail, row.ActorRole = actor.UserID, audit.Text(actor.Email, maxText), actor.Role
		if actor.UserID != "" {
			row.ActorType = audit.ActorUser
		}
	}
	if row.GetTenantId() == "" || !e.trail.on() {
		return
	}
	row.ResourceType, row.ResourceId = resource(row.GetRoute(), e.params, changes)
	if e.public && outcome != audit.Success { // its time must not say that there is such an account
		e.trail.later(row) //nolint:contextcheck // rows of many requests are written together
		return
	}
	if err := e.trail.add(ctx, row.GetTenantId(), &entry{row: row}); err != nil {
		e.trail.lost.Inc()
		e.trail.Logger.Warn("the outcome of a change is not in the audit trail", slog.String("row", row.GetId()), slog.Any("err", err))
	}
}

// later writes a row that nobody waits for.
func (t *Trail) later(row *auditpb.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.enqueue(row.GetTenantId(), &entry{row: row, done: make(chan error, 1)}) {
		t.lost.Inc()
	}
}

// Denied implements endpoint.Auditor.
func (t *Trail) Denied(request *endpoint.Audited, status int) {
	if !t.on() {
		return
	}
	row := t.rowOf(request)
	row.Outcome, row.StatusCode = audit.Denied, uint32(status)
	row.ResourceType, row.ResourceId = resource(row.GetRoute(), request.Params, nil)
	like := likeness{
		row.GetTenantId(), row.GetProjectId(), row.GetActorUserId(), row.GetApiTokenId(), row.GetMethod(), row.GetRoute(), row.GetIpAddress(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.refusals[like]; known != nil {
		known.Count++
		return
	}
	if t.stopped || len(t.refusals) >= maxRefusals || t.ofTenant[like.tenant] >= maxRefusals/8 {
		t.lost.Inc()
		return
	}
	row.Count = 1
	t.refusals[like] = row
	t.ofTenant[like.tenant]++
	if t.flushing == nil {
		t.flushing = time.AfterFunc(pause, t.flush)
	}
}

// flush hands the refusals of a second to their queues.
func (t *Trail) flush() {
	t.mu.Lock()
	rows := t.refusals
	t.refusals, t.ofTenant, t.flushing = map[likeness]*auditpb.Row{}, map[string]int{}, nil
	var refused int
	for _, row := range rows {
		if !t.enqueue(row.GetTenantId(), &entry{row: row, done: make(chan error, 1)}) {
			refused++
		}
	}
	t.mu.Unlock()
	t.lost.Add(float64(refused))
}

// add writes an entry and waits for it.
func (t *Trail) add(ctx context.Context, tenantID string, e *entry) error {
	e.done = make(chan error, 1)
	t.mu.Lock()
	taken := t.enqueue(tenantID, e) //nolint:contextcheck // rows of many requests are written together
	t.mu.Unlock()
	if !taken {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.AuditBusy)
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue is called with mu held.
func (t *Trail) enqueue(tenantID string, e *entry) bool {
	q := t.tenants[tenantID]
	switch {
	case t.stopped || q != nil && len(q.waiting) >= maxWaiting:
		return false
	case q == nil:
		q = &queue{}
		t.tenants[tenantID] = q
		t.working.Go(func() { t.drain(tenantID, q) })
	}
	q.waiting = append(q.waiting, e)
	return true
}

// drain writes one batch of a tenant after the other, until there is nothing left.
func (t *Trail) drain(tenantID string, q *queue) {
	for {
		t.mu.Lock()
		if len(q.waiting) == 0 {
			delete(t.tenants, tenantID)
			t.mu.Unlock()
			return
		}
		batch := cut(q)
		t.mu.Unlock()
		reply, err := t.write(tenantID, batch)
		for _, e := range batch {
			if err == nil && e.begun != nil && slices.Contains(reply.GetRefused(), e.begun.GetRow().GetId()) {
				e.done <- failure.New(failurepb.Code_UNAVAILABLE, failure.AuditBusy)
				continue
			}
			e.done <- err
		}
	}
}

// cut takes a batch from the front of a queue.
func cut(q *queue) []*entry {
	size, n := 0, 0
	for n < len(q.waiting) && n < audit.MaxBatch && size < maxBatch {
		size += proto.Size(q.waiting[n].row) + proto.Size(q.waiting[n].begun)
		n++
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// write sends a batch, several times under the same number: it is taken once.
func (t *Trail) write(tenantID string, batch []*entry) (reply *auditpb.Reply, err error) {
	write := &auditpb.Write{
		TenantId: tenantID, Writer: t.writer, Batch: t.batches.Add(1), KeepMs: t.Keep.Milliseconds(), KeepRows: t.Rows,
	}
	for _, e := range batch {
		if e.begun != nil {
			write.Begun = append(write.Begun, e.begun)
		} else {
			write.Rows = append(write.Rows, e.row)
		}
	}
	id := t.Chain(tenantID)
	command := &auditpb.Command{Id: id, Body: &auditpb.Command_Write{Write: write}}
	for attempt := range attempts {
		if attempt > 0 {
			select {
			case <-time.After(pause / 4):
			case <-t.ctx.Done():
				return nil, cmp.Or(err, t.ctx.Err())
			}
		}
		ctx, cancel := context.WithTimeout(t.ctx, writeTimeout)
		reply, err = entity.Ask[*auditpb.Reply](ctx, t.Entities, id, command)
		cancel()
		if err == nil {
			return reply, nil
		}
	}
	return nil, err
}
