package courier

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/entity"
	"parley/actors/core/subscription"
	"parley/actors/deliver"
	"parley/actors/kit"
	"parley/actors/webhook"
	"parley/proto/deliverypb"
	"parley/proto/webhookpb"
)

// Records are those of endpoints, as couriers need them.
type Records interface {
	// Open returns an endpoint as it is now with its secret, nil = there is none.
	Open(ctx context.Context, id string) (*subscription.Endpoint, error)
	// Tenant is whose an endpoint is; empty = it is not known here.
	Tenant(ctx context.Context, id string) string
	// CatchUp returns once Open sees every change that was acknowledged before the call.
	CatchUp(ctx context.Context) error
	// Settle writes what was found out about an endpoint.
	Settle(ctx context.Context, id string, wish *webhookpb.Wish) error
}

// Config is what couriers need. All but Logger, Registerer and Linger is required.
type Config struct {
	Records func() Records // nil result = not yet
	Client  entity.Client
	Try     func(ctx context.Context, to *subscription.Endpoint, message *webhookpb.Message) *deliverypb.Report
	// Places is how many attempts are under way on this node at most. Tenants share them (deliver.Lanes).
	Places int
	// Keep is how long settled deliveries are kept.
	Keep time.Duration
	// Linger is how long a courier stays that has nothing to do. Default 500 ms.
	Linger time.Duration

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Couriers implements webhook.Couriers.
type Couriers struct {
	config   Config
	places   *deliver.Lanes
	outcomes *prometheus.CounterVec
	life     context.Context //nolint:containedctx // of all couriers, until Drain
	end      context.CancelFunc
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		couriers map[string]*courier
		over     bool
	}
}

// New makes Couriers.
func New(config Config) (*Couriers, error) {
	if config.Records == nil || config.Client == nil || config.Try == nil || config.Places < 1 || config.Keep <= 0 {
		return nil, errors.New("courier: Records, Client, Try, Places and Keep are required")
	}
	config.Linger = cmp.Or(config.Linger, 500*time.Millisecond)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	places, err := deliver.NewLanes(deliver.LanesConfig{Max: config.Places, PerTarget: config.Places})
	if err != nil {
		return nil, err
	}
	c := &Couriers{config: config, places: places, outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_webhooks_attempts_total", Help: "Attempts to tell webhook endpoints, by outcome.",
	}, []string{"outcome"})}
	if config.Registerer != nil {
		config.Registerer.MustRegister(c.outcomes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_webhooks_couriers", Help: "Webhook endpoints that are being told of something on this node.",
		}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return float64(len(c.mu.couriers))
		}))
	}
	c.life, c.end = context.WithCancel(context.Background())
	c.mu.couriers = make(map[string]*courier)
	return c, nil
}

// Test makes an attempt that somebody waits for, nil if there was no place for it before ctx ended. It counts as one of a slow
// endpoint: those who test leave half of the places to deliveries.
func (c *Couriers) Test(ctx context.Context, to *subscription.Endpoint, message *webhookpb.Message) *deliverypb.Report {
	leave, ok := c.places.Take(ctx, deliver.Place{Tenant: to.GetTenantId(), Target: to.GetId(), Slow: true})
	if !ok {
		return nil
	}
	defer leave()
	return c.config.Try(ctx, to, message)
}

// share is how many attempts of one endpoint are under way at most.
func (c *Couriers) share(slow bool) int {
	if slow {
		return 1
	}
	return max(1, c.config.Places/2)
}

// Look implements webhook.Couriers.
func (c *Couriers) Look(at kit.Ref, look webhook.Look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.over {
		return
	}
	former := c.mu.couriers[at.ID]
	if former != nil && former.at.Epoch == at.Epoch {
		former.told(look)
		return
	}
	next := &courier{couriers: c, at: at, woken: make(chan struct{}, 1), done: make(chan struct{}), came: make(chan result, maxHeld)}
	next.ctx, next.cancel = context.WithCancel(c.life)
	next.reports = look.Reports
	next.told(look)
	c.mu.couriers[at.ID] = next
	if former != nil {
		former.cancel()
	}
	c.wg.Go(func() {
		if former != nil {
			<-former.done
		}
		next.run()
	})
}

// Looks implements webhook.Couriers.
func (c *Couriers) Looks(at kit.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.mu.couriers[at.ID]
	return c.mu.over || one != nil && one.at.Epoch == at.Epoch
}

// Release implements webhook.Couriers.
func (c *Couriers) Release(shard uint32, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, one := range c.mu.couriers {
		if one.at.Shard == shard && one.at.Epoch <= epoch {
			one.cancel()
			delete(c.mu.couriers, id)
		}
	}
}

// Drain implements webhook.Couriers: what is under way is cut off, and told again by the next owner.
func (c *Couriers) Drain(context.Context) {
	c.mu.Lock()
	c.mu.over = true
	c.mu.Unlock()
	c.end()
	c.wg.Wait()
}

// leave forgets a courier, unless it was told of something meanwhile.
func (c *Couriers) leave(one *courier) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.ctx.Err() == nil && one.hasNews() {
		return false
	}
	if c.mu.couriers[one.at.ID] == one {
		delete(c.mu.couriers, one.at.ID)
	}
	return true
}
