package analytics

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/tracing"
	"parley/actors/machine"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/tracepb"
)

const (
	// dailyRows is how many days an overview has at most.
	dailyRows = 30
	// recentRows is how many sessions it shows.
	recentRows = 10
	// week is how many rows of days a trend compares with as many before.
	week = 7
	// agentsService is the service of turns, see package conversation.
	agentsService = "agents"
	// overviewSlack is how far a clock of another node may be ahead of this one.
	overviewSlack = time.Hour
)

type overviewInput struct{ spanInput }

// Validate implements endpoint.Validator.
func (in *overviewInput) Validate() *failure.Failure { return in.read() }

type analyticsStatsRecord struct {
	Models struct {
		Total     int `json:"total" doc:"Recorded in the time"`
		LLM       int `json:"llm"`
		Embedding int `json:"embedding"`
	} `json:"models"`
	Vectors struct {
		Providers int `json:"providers" doc:"There are none on this server"`
		Indexes   int `json:"indexes"`
	} `json:"vectors"`
	Tracing struct {
		TotalSessions  int64 `json:"totalSessions" doc:"Created in the time, here or reported"`
		TotalTokens    int64 `json:"totalTokens" doc:"Of all turns in the time, and of the 1000 newest sessions that were reported"`
		ActiveSessions int   `json:"activeSessions" doc:"Of the recent ones, those that run"`
	} `json:"tracing"`
	APICalls struct {
		Total int64   `json:"total"`
		Trend float64 `json:"trend" doc:"Sessions of the last seven days of daily against the seven before, in percent"`
	} `json:"apiCalls"`
}

type sessionRow struct {
	SessionID   string `json:"sessionId"`
	AgentName   string `json:"agentName"`
	Status      string `json:"status" doc:"runtime_status of the session; of one that was reported as it was reported"`
	StartedAt   string `json:"startedAt" format:"date-time"`
	DurationMS  int64  `json:"durationMs" doc:"Until its newest event"`
	TotalEvents uint64 `json:"totalEvents"`
	TotalTokens int64  `json:"totalTokens"`
}

type dayRow struct {
	Date          string `json:"date"`
	SessionsCount int64  `json:"sessionsCount"`
	TotalTokens   int64  `json:"totalTokens"`
}

type analyticsOverviewOut struct {
	Object         string               `json:"object" enum:"analytics.overview"`
	Stats          analyticsStatsRecord `json:"stats"`
	RecentSessions []sessionRow         `json:"recent_sessions" doc:"Newest first"`
	Daily          []dayRow             `json:"daily" doc:"The last 30 days that have data"`
}

func (a *api) analyticsOverview(ctx context.Context, in *overviewInput) (*analyticsOverviewOut, error) {
	caller, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	return a.overviewOf(ctx, caller, in.span)
}

func (a *api) overviewOf(ctx context.Context, caller endpoint.Caller, of span) (*analyticsOverviewOut, error) {
	out := &analyticsOverviewOut{Object: "analytics.overview", RecentSessions: []sessionRow{}, Daily: []dayRow{}}
	start, end := of.exact(time.Now().Add(overviewSlack).UnixMilli())
	models, err := a.Catalog.ListModels(caller.ProjectID)
	if err != nil {
		return nil, err
	}
	for _, model := range models {
		if at := model.GetCreatedAt(); at == 0 || at < start || at >= end {
			continue // the one that is built in was made at no time
		}
		out.Stats.Models.Total++
		switch model.GetCategory() {
		case "llm":
			out.Stats.Models.LLM++
		case "embedding":
			out.Stats.Models.Embedding++
		}
	}
	sessions, err := entity.Read[*conversationpb.OverviewReply](ctx, a.Entities, &conversationpb.OverviewQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, From: start, To: end,
	})
	if err != nil {
		return nil, err
	}
	parts, periods, err := a.added(ctx, caller, of, hour, &nodepb.UsageQuery{
		By: uint32(machine.UsageByService), Interval: uint32(machine.UsageDaily), Only: uint32(machine.UsageByService), Value: agentsService,
	})
	if err != nil {
		return nil, err
	}
	sum := machine.SumUsage(parts)
	reported, err := a.reported(ctx, caller, start, end)
	if err != nil {
		return nil, err
	}
	out.Stats.Tracing.TotalTokens = totalTokens(&sum)
	for _, tokens := range reported.GetTokens() {
		out.Stats.Tracing.TotalTokens += tokens
	}
	out.Daily, out.Stats.Tracing.TotalSessions = daily(periods, reported.GetTokens(), sessions.GetDays(), reported.GetDays())
	out.Stats.APICalls.Total, out.Stats.APICalls.Trend = out.Stats.Tracing.TotalSessions, trend(out.Daily)
	for _, state := range sessions.GetSessions() {
		row := sessionRow{
			SessionID: state.GetId(), AgentName: state.GetAgentName(), Status: state.RuntimeStatus(), StartedAt: render.Time(state.GetCreatedAt()),
			DurationMS: max(0, state.GetUpdatedAt()-state.GetCreatedAt()), TotalEvents: state.GetLastSeq(),
		}
		if row.TotalTokens, err = a.tokensOf(ctx, state.GetId()); err != nil {
			return nil, err
		}
		out.RecentSessions = append(out.RecentSessions, row)
	}
	for _, s := range reported.GetSessions() {
		out.RecentSessions = append(out.RecentSessions, sessionRow{
			SessionID: s.GetSessionId(), AgentName: s.GetRecord().GetAgentName(), Status: s.GetRecord().GetStatus(), StartedAt: render.Time(s.GetRecord().GetStartedAt()),
			DurationMS: tracing.Duration(s), TotalEvents: uint64(tracing.Events(s)), TotalTokens: tracing.Took(s),
		})
	}
	slices.SortStableFunc(out.RecentSessions, func(a, b sessionRow) int { return cmp.Compare(b.StartedAt, a.StartedAt) }) // RFC 3339 in UTC sorts as time does
	out.RecentSessions = out.RecentSessions[:min(len(out.RecentSessions), recentRows)]
	for _, row := range out.RecentSessions {
		if row.Status == conversationpb.RuntimeRunning || row.Status == tracing.InProgress {
			out.Stats.Tracing.ActiveSessions++
		}
	}
	return out, nil
}

// reported is what programs reported of their sessions in the time (document 3, section 12).
func (a *api) reported(ctx context.Context, caller endpoint.Caller, from, to int64) (*tracepb.RecentReply, error) {
	if a.CanTrace != nil && !a.CanTrace() {
		return nil, nil //nolint:nilnil // a node of the cluster keeps none yet
	}
	return entity.Read[*tracepb.RecentReply](ctx, a.Entities, &tracepb.RecentQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, From: from, To: to, Limit: recentRows,
	})
}

// tokensOf is what a session's turns took; 0 when it was deleted in the meantime.
func (a *api) tokensOf(ctx context.Context, id string) (int64, error) {
	reply, err := entity.Read[*nodepb.TokensReply](ctx, a.Entities, &nodepb.TokensQuery{Id: id})
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return 0, nil
	}
	return reply.GetTokens(), err
}

// daily is the last days that have data, of the tokens of turns and of other sessions, and the sessions of all days.
func daily(usage []machine.UsageTotal, tokens map[int64]int64, sessions ...map[int64]int64) (rows []dayRow, total int64) {
	days := map[int64]*dayRow{}
	at := func(n int64) *dayRow {
		if days[n] == nil {
			days[n] = &dayRow{Date: date(n * day)}
		}
		return days[n]
	}
	for _, some := range sessions {
		for n, count := range some {
			at(n).SessionsCount += count
			total += count
		}
	}
	for n, count := range tokens {
		at(n).TotalTokens += count
	}
	for i := range usage {
		at(usage[i].Start / day).TotalTokens += totalTokens(&usage[i].Numbers)
	}
	rows = []dayRow{}
	for _, n := range slices.Sorted(maps.Keys(days)) {
		rows = append(rows, *days[n])
	}
	return rows[max(0, len(rows)-dailyRows):], total
}

// trend is the sessions of the last seven rows against the seven before, in percent with one decimal; 0 without any before.
func trend(rows []dayRow) float64 {
	var now, before int64
	for i, row := range rows {
		switch left := len(rows) - i; {
		case left <= week:
			now += row.SessionsCount
		case left <= 2*week:
			before += row.SessionsCount
		}
	}
	if before == 0 {
		return 0
	}
	return math.Round(float64(now-before)/float64(before)*1000) / 10
}

type activityRow struct {
	Type      string `json:"type" enum:"session"`
	ID        string `json:"id"`
	Title     string `json:"title" doc:"Name of the agent"`
	Status    string `json:"status"`
	Timestamp string `json:"timestamp" format:"date-time"`
}

type dashboardOut struct {
	Stats          analyticsStatsRecord `json:"stats"`
	RecentActivity []activityRow        `json:"recentActivity" doc:"The recent sessions, as what has happened"`
	RecentSessions []sessionRow         `json:"recentSessions"`
	Daily          []dayRow             `json:"daily"`
	User           struct {
		Email       string `json:"email"`
		LicenseType string `json:"licenseType"`
	} `json:"user"`
}

// dashboardOverview is analyticsOverview for whoever is signed in.
func (a *api) dashboardOverview(ctx context.Context, in *overviewInput) (*dashboardOut, error) {
	caller, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.overviewOf(ctx, caller, in.span)
	if err != nil {
		return nil, err
	}
	out := &dashboardOut{Stats: found.Stats, RecentActivity: []activityRow{}, RecentSessions: found.RecentSessions, Daily: found.Daily}
	for i := range found.RecentSessions {
		session := &found.RecentSessions[i]
		out.RecentActivity = append(out.RecentActivity, activityRow{"session", session.SessionID, session.AgentName, session.Status, session.StartedAt})
	}
	out.User.Email = a.Accounts.KnownUser(caller.TenantID, caller.UserID).GetEmail()
	out.User.LicenseType = string(a.Accounts.KnownLicence(caller.TenantID).Tier())
	return out, nil
}
