package console

import (
	"context"
	"slices"

	"parley/actors/core/entity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// queueRows is how many runs of each kind are shown: each is read where it lives.
const queueRows = 50

// What a run waits for.
const (
	waitsForPlace   = "place"
	waitsForSession = "session"
	waitsForPerson  = "person"
)

type queuedRun struct {
	ID        string  `json:"id"`
	Status    string  `json:"status"`
	Agent     string  `json:"agent"`
	SessionID string  `json:"session_id"`
	User      *string `json:"user"`
	Ahead     *int    `json:"ahead" doc:"Of one that waits for its turn: how many are before it"`
	WaitsFor  *string `json:"waits_for" enum:"place,session,person" doc:"A place among the project's running ones, the turn that its session is at, or a person"`
	CreatedAt string  `json:"created_at"`
	StartedAt *string `json:"started_at"`
}

type queueOut struct {
	Data    []queuedRun `json:"data" doc:"Those that have a place, those that wait for a person, then those that wait for a place, in their order"`
	Running int         `json:"running" doc:"How many have a place"`
	Queued  int         `json:"queued" doc:"How many wait for one"`
	HasMore bool        `json:"has_more" doc:"There are more than are shown"`
}

// listQueue shows the runs that are not over, of what the caller may see.
func (a *api) listQueue(ctx context.Context, _ *struct{}) (*queueOut, error) {
	caller := endpoint.CallerFrom(ctx)
	queue, err := entity.Read[*runpb.Queue](ctx, a.Entities, &runpb.QueueQuery{Id: a.Console.Queue(caller.TenantID, caller.ProjectID)})
	if err != nil && !handler.IsCode(err, failurepb.Code_NOT_FOUND) {
		return nil, err
	}
	out := &queueOut{Data: []queuedRun{}}
	if caller.Trusted {
		out.Running, out.Queued = len(queue.GetPlaces()), len(queue.GetWaiting())
	}
	paused, err := a.pausedRuns(ctx)
	if err != nil {
		return nil, err
	}
	running, err := a.queued(ctx, out, runsAt(queue.GetPlaces()), false)
	if err != nil {
		return nil, err
	}
	if _, err = a.queued(ctx, out, paused, false); err != nil {
		return nil, err
	}
	waiting, err := a.queued(ctx, out, runsAt(queue.GetWaiting()), true)
	if err != nil {
		return nil, err
	}
	if !caller.Trusted {
		out.Running, out.Queued = running, waiting
	}
	return out, nil
}

// queued adds runs that the caller may see, and says how many.
func (a *api) queued(ctx context.Context, out *queueOut, ids []string, waits bool) (seen int, err error) {
	out.HasMore = out.HasMore || len(ids) > queueRows
	for i, id := range ids[:min(len(ids), queueRows)] {
		if slices.ContainsFunc(out.Data, func(row queuedRun) bool { return row.ID == id }) {
			continue // it went on while this was read
		}
		reply, failed := a.Run(ctx, id)
		if handler.IsCode(failed, failurepb.Code_RUN_NOT_FOUND) {
			continue // over and removed meanwhile, or somebody else's
		}
		if failed != nil {
			return seen, failed
		}
		row := queuedView(reply.GetRun())
		if waits {
			row.Ahead = &i
		}
		seen++
		out.Data = append(out.Data, row)
	}
	return seen, nil
}

// pausedRuns are the runs of the newest sessions that wait for a person: these hold no place meanwhile.
func (a *api) pausedRuns(ctx context.Context) (ids []string, err error) {
	caller := endpoint.CallerFrom(ctx)
	reply, err := entity.Read[*conversationpb.SessionsReply](ctx, a.Entities, &conversationpb.SessionsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
		Status: conversationpb.RuntimeRequiresAction, Limit: 2 * queueRows,
	})
	for _, state := range reply.GetSessions() {
		if id := state.GetBackgroundRun(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func runsAt(places []*runpb.Place) []string {
	ids := make([]string, len(places))
	for i, place := range places {
		ids[i] = place.GetRunId()
	}
	return ids
}

func queuedView(run *runpb.State) queuedRun {
	row := queuedRun{
		ID: run.GetId(), Status: run.GetStatus().WireName(), Agent: run.GetAgentId(), SessionID: run.GetConversationId(),
		User: render.Nullable(run.GetUserId()), CreatedAt: render.Time(run.GetCreatedAt()), StartedAt: render.NullableTime(run.GetStartedAt()),
	}
	reason := ""
	switch {
	case run.GetStatus() == runpb.Status_REQUIRES_ACTION:
		reason = waitsForPerson
	case run.GetStatus() == runpb.Status_QUEUED && !run.GetPlaced():
		reason = waitsForPlace
	case run.GetStatus() == runpb.Status_QUEUED:
		reason = waitsForSession
	}
	row.WaitsFor = render.Nullable(reason)
	return row
}
