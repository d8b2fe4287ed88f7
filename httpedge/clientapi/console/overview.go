package console

import (
	"context"
	"maps"
	"sync"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/entity"
	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

const (
	// waitingRows is how many of the sessions that wait for a person are shown.
	waitingRows = 20
	// maxUsageRows bounds the rows of usage that are read for the sums: beyond it they are lower bounds, and say so.
	maxUsageRows = 32 << 10
	// usageAge is how old the sums may be: they are read from all nodes, and many pages are opened at once.
	usageAge = 10 * time.Second
	// maxUsageKept bounds the sums that are kept.
	maxUsageKept = 1024

	day = 24 * time.Hour
)

// Routes returns the routes that only pages have, of callers who manage these webhook endpoints.
func Routes(shared *handler.API, reach Reach) []endpoint.Route {
	a := &api{API: shared, sums: &sums{kept: map[sumsKey]usage{}}, reach: reach}
	return append(a.trialRoutes(),
		endpoint.On("GET /permissions", "session:read", a.levels, endpoint.Tag("Console"), endpoint.Summary("What one may do in the project, by service")),
		endpoint.On("GET /overview", "agents:read", a.overview, endpoint.Tag("Console"),
			endpoint.Summary("What runs, waits, failed and cost in the project, of what one may see; for owners the cluster, too")),
		endpoint.On("GET /runs", "agents:read", a.listQueue, endpoint.Tag("Console"),
			endpoint.Summary("The project's background runs that are not over, of what one may see: those that run, those that wait, and for what")),
		endpoint.On("GET /tasks/{id}", "agents:read", a.getTask, endpoint.Tag("Console"), endpoint.Errors(failurepb.Code_NOT_FOUND),
			endpoint.Summary("A background task that one may see, with its comments and result")),
		endpoint.On("GET /find/{id}", "agents:read", a.findAnything, endpoint.Tag("Console"), endpoint.Errors(failurepb.Code_NOT_FOUND),
			endpoint.Summary("What an id is, of what one may see, and where its page is")),
	)
}

type countSchema struct {
	Count int64 `json:"count"`
	More  bool  `json:"more" doc:"There may be more: counts are bounded"`
}

type runCounts struct {
	Queued  int `json:"queued"`
	Running int `json:"running"`
}

type usage struct {
	TodayUSD     float64 `json:"today_usd" doc:"Since midnight UTC"`
	SevenDaysUSD float64 `json:"seven_days_usd" doc:"Today and the six days before"`
	FailedTurns  int64   `json:"failed_24h" doc:"Turns and model calls that ended in an error in the last 24 full hours and this one"`
	Unpriced     int64   `json:"unpriced_calls" doc:"Of seven days, whose cost is not in it"`
	Partial      bool    `json:"partial" doc:"There is more than could be added up: these are lower bounds"`

	at time.Time
}

// overviewOut is the answer.
type overviewOut struct {
	Sessions map[string]countSchema `json:"sessions" doc:"By runtime_status: running, requires_action, budget_paused"`
	Waiting  rows                   `json:"waiting" doc:"The newest sessions that wait for a person, as events session of /live have them"`
	Runs     *runCounts             `json:"runs" doc:"The project's; null where one sees one's own only, or they are not known right now"`
	Usage    *usage                 `json:"usage" doc:"null when it is not known right now"`
	Cluster  *handler.ClusterView   `json:"cluster" doc:"For owners"`
}

// rows are sessions as the stream tells of them.
type rows []*conversationpb.State

// MarshalJSON implements json.Marshaler.
func (r rows) MarshalJSON() ([]byte, error) {
	return wire.AppendList(nil, r, func(dst []byte, state *conversationpb.State) []byte {
		return appendRow(dst, state.ListRow(), eventSession)
	}), nil
}

type rowSchema struct {
	ID           string   `json:"id"`
	LastEventSeq uint64   `json:"last_event_seq"`
	Agent        string   `json:"agent"`
	User         *string  `json:"user"`
	CreatedAt    *string  `json:"created_at"`
	UpdatedAt    *string  `json:"updated_at"`
	Waiting      int      `json:"waiting" doc:"Actions that wait for a person"`
	Title        *string  `json:"title"`
	Status       string   `json:"runtime_status"`
	StopReason   *string  `json:"stop_reason"`
	SpentUSD     *float64 `json:"spent_usd"`
}

// Described implements openapi.Described.
func (r rows) Described() (value any, nullable bool) { return []rowSchema{}, false }

// overview reads bounded lists, the queue's head, and the sums of a week.
func (a *api) overview(ctx context.Context, _ *struct{}) (*overviewOut, error) {
	caller := endpoint.CallerFrom(ctx)
	counts, err := entity.Read[*conversationpb.SessionCountsReply](ctx, a.Entities, &conversationpb.SessionCountsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
	})
	if err != nil {
		return nil, err
	}
	waiting, err := entity.Read[*conversationpb.SessionsReply](ctx, a.Entities, &conversationpb.SessionsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
		Status: conversationpb.RuntimeRequiresAction, Limit: waitingRows,
	})
	if err != nil {
		return nil, err
	}
	out := &overviewOut{Sessions: map[string]countSchema{}, Waiting: waiting.GetSessions()}
	for _, count := range counts.GetCounts() {
		out.Sessions[count.GetStatus()] = countSchema{count.GetCount(), count.GetMore()}
	}
	if caller.Trusted {
		out.Runs = a.runs(ctx, caller)
	}
	out.Usage = a.usage(ctx, caller)
	if caller.Grant.Role() == access.RoleOwner {
		view := a.Console.Cluster()
		out.Cluster = &view
	}
	return out, nil
}

// runs counts the runs of the queue. There is none while there are no runs.
func (a *api) runs(ctx context.Context, caller endpoint.Caller) *runCounts {
	queue, err := entity.Read[*runpb.Queue](ctx, a.Entities, &runpb.QueueQuery{Id: a.Console.Queue(caller.TenantID, caller.ProjectID)})
	if err != nil && !handler.IsCode(err, failurepb.Code_NOT_FOUND) {
		return nil // its owner is away, or knows no such question yet: the rest is worth showing
	}
	return &runCounts{Queued: len(queue.GetWaiting()), Running: len(queue.GetPlaces())}
}

// sums are the newest sums of usage, by whose they are.
type sums struct {
	mu   sync.Mutex
	kept map[sumsKey]usage
}

type sumsKey struct{ tenantID, projectID, userID string }

func (s *sums) get(key sumsKey, now time.Time) (usage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.kept[key]
	return found, known && now.Sub(found.at) < usageAge
}

func (s *sums) put(key sumsKey, made usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxUsageKept {
		maps.DeleteFunc(s.kept, func(_ sumsKey, old usage) bool { return made.at.Sub(old.at) >= usageAge })
	}
	if len(s.kept) < maxUsageKept {
		s.kept[key] = made
	}
}

// usage adds up what was used, of a project or of one user in it; nil when that is not known right now.
func (a *api) usage(ctx context.Context, caller endpoint.Caller) *usage {
	now := time.Now().UTC()
	key := sumsKey{caller.TenantID, caller.ProjectID, ""}
	if !caller.Trusted {
		key.userID = caller.UserID
	}
	if known, fresh := a.sums.get(key, now); fresh {
		return &known
	}
	made := usage{at: now}
	today, read := now.Truncate(day), 0
	var todayNano, weekNano int64
	name := machine.UsageName(caller.TenantID, caller.ProjectID)
	// The newest first, so that what is left out beyond the bound is what is oldest.
	for back := range 7 {
		from := today.Add(-time.Duration(back) * day)
		err := a.Console.Usage(ctx, name, machine.UsageHour(from.UnixMilli()), machine.UsageHour(from.Add(day).UnixMilli()),
			func(member string, numbers []int64) bool {
				if read++; read > maxUsageRows {
					return false
				}
				at, of, known := machine.ParseUsageMember(member)
				if !known || !caller.Trusted && of.User != caller.UserID {
					return true
				}
				cost := column(numbers, machine.UsageCostNanoUSD)
				weekNano += cost
				if back == 0 {
					todayNano += cost
				}
				made.Unpriced += column(numbers, machine.UsageUnpriced)
				if at >= now.Add(-day).Truncate(time.Hour).UnixMilli() {
					made.FailedTurns += column(numbers, machine.UsageErrors)
				}
				return true
			})
		if err != nil {
			return nil
		}
		if read > maxUsageRows {
			made.Partial = true
			break
		}
	}
	made.TodayUSD, made.SevenDaysUSD = money.USD(todayNano), money.USD(weekNano)
	a.sums.put(key, made)
	return &made
}

// column is a number of a row, whose last ones are left out when they are 0.
func column(numbers []int64, at int) int64 {
	if at >= len(numbers) {
		return 0
	}
	return numbers[at]
}
