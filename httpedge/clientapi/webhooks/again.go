package webhooks

import (
	"context"
	"strconv"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/httpedge/clientapi/render"
	"parley/proto/failurepb"
)

type redeliverFailedInput struct {
	ID     string `path:"id"`
	From   string `json:"from" doc:"RFC 3339, inclusive: what failed from then on; all that is kept when it is not given"`
	To     string `json:"to" doc:"RFC 3339, exclusive; now when it is not given or later"`
	Cursor string `json:"cursor" doc:"nextCursor of the answer before, with the same from and to"`
	DryRun bool   `json:"dryRun" doc:"Only say how many there are"`

	of subscription.Failed
}

// Validate implements endpoint.Validator.
func (in *redeliverFailedInput) Validate() *failure.Failure {
	now := time.Now().UnixMilli()
	in.of = subscription.Failed{To: now, Only: in.DryRun}
	for _, bound := range []struct {
		name, text string
		into       *int64
	}{{"from", in.From, &in.of.From}, {"to", in.To, &in.of.To}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, bound.text)
		if err != nil {
			return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadAuditTime).In(bound.name)
		}
		*bound.into = at.UnixMilli()
	}
	in.of.To = min(in.of.To, now)
	if in.Cursor == "" {
		return nil
	}
	var err error
	if in.of.After, err = strconv.ParseUint(in.Cursor, 10, 63); err != nil {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.ForeignCursor).In("cursor")
	}
	return nil
}

// redeliveredOut says how many are sent again, and what to repeat the request with.
type redeliveredOut struct {
	Redelivered int     `json:"redelivered" doc:"How many are sent again, or with dryRun would be"`
	HasMore     bool    `json:"hasMore"`
	NextCursor  *string `json:"nextCursor"`
	From        *string `json:"from"`
	To          string  `json:"to" doc:"As it counted: to be repeated with"`
}

func (a *api) redeliverFailed(ctx context.Context, in *redeliverFailedInput) (*redeliveredOut, error) {
	done, err := a.Webhooks.RedeliverFailed(ctx, a.reach(ctx), in.ID, in.of)
	if err != nil {
		return nil, err
	}
	out := &redeliveredOut{Redelivered: done.Count, HasMore: done.More, From: render.NullableTime(in.of.From), To: render.Time(in.of.To)}
	if out.HasMore {
		next := strconv.FormatUint(done.Next, 10)
		out.NextCursor = &next
	}
	return out, nil
}
