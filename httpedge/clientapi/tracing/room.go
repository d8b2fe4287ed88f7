package tracing

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"parley/actors/core/quota"
	"parley/actors/core/tracing"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/allowancepb"
	"parley/proto/failurepb"
	"parley/proto/tracepb"
)

const (
	// atOnce is how many sessions of a request are read or stored at the same time.
	atOnce = 8
	// tries is how often new sessions are asked for: again as many as there was room for.
	tries = 3
)

// storeOne adds to a session, if that is known or there is room for it.
func (a *api) storeOne(ctx context.Context, caller endpoint.Caller, put *tracepb.Put) (*tracepb.Reply, error) {
	stored, err := a.store(ctx, caller, put)
	return stored[put], handler.QuotaFailure(err)
}

// store adds to sessions. Those that are new are let in before, as far as the quota of sessions has room for them: where there is none
// the error is a *quota.Refusal, and the replies are those of the others.
func (a *api) store(ctx context.Context, caller endpoint.Caller, puts ...*tracepb.Put) (map[*tracepb.Put]*tracepb.Reply, error) {
	replies := make(map[*tracepb.Put]*tracepb.Reply, len(puts))
	if len(puts) == 1 && puts[0].GetKnown() {
		reply, err := a.write(ctx, caller, puts[0])
		replies[puts[0]] = reply
		return replies, err
	}
	if !a.boundsSessions(caller) {
		return replies, a.writeAll(ctx, caller, puts, nil, replies)
	}
	known, fresh, err := a.split(ctx, caller, puts)
	if err != nil {
		return nil, err
	}
	pass, let, full := a.enterSessions(ctx, caller, len(fresh))
	if refused, is := errors.AsType[*quota.Refusal](full); full != nil && (!is || refused.Full == "") {
		return nil, full
	}
	again, left, err := a.split(ctx, caller, fresh[let:]) // who reported them first may have had room
	if err == nil {
		err = a.writeAll(ctx, caller, slices.Concat(known, again, fresh[:let]), pass, replies)
	} else if pass != nil {
		pass.Unkept()
	}
	if err != nil {
		return nil, err
	}
	var lapsed []*tracepb.Put
	for _, put := range slices.Concat(known, again) {
		if replies[put] == nil {
			put.Known = false
			lapsed = append(lapsed, put)
		}
	}
	if len(lapsed) > 0 { // removed since they were found: they are new
		more, failed := a.store(ctx, caller, lapsed...)
		maps.Copy(replies, more)
		if failed != nil {
			return replies, failed
		}
	}
	if len(left) == 0 {
		return replies, nil
	}
	return replies, full
}

// boundsSessions says whether a quota bounds how many sessions are kept that a caller reports.
func (a *api) boundsSessions(caller endpoint.Caller) bool {
	if a.FileDoor == nil || a.Policies == nil {
		return false
	}
	limit := quota.InForce(a.Policies(caller.TenantID), callOf(caller)).Cap(allowancepb.Measure_SESSIONS, allowancepb.Unit_FOREVER)
	return limit != nil && limit.GetMost() >= 0
}

// split tells sessions that are known, whose puts then only add to what is there, from new ones.
func (a *api) split(ctx context.Context, caller endpoint.Caller, puts []*tracepb.Put) (known, fresh []*tracepb.Put, err error) {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, put := range puts {
		group.Go(func() error {
			found, failed := a.session(within, a.ReportedID(tracing.Prefix, caller, put.GetSessionId()))
			put.Known = found != nil
			return failed
		})
	}
	if err = group.Wait(); err != nil {
		return nil, nil, err
	}
	for _, put := range puts {
		if put.GetKnown() {
			known = append(known, put)
		} else {
			fresh = append(fresh, put)
		}
	}
	return known, fresh, nil
}

// enterSessions lets new sessions in, or as many of them as there is room for: then the error says why not all.
func (a *api) enterSessions(ctx context.Context, caller endpoint.Caller, fresh int) (pass quota.FilePass, let int, full error) {
	for try := 0; try < tries && fresh > 0; try++ {
		call := callOf(caller)
		call.Sessions = int64(fresh)
		got, err := a.FileDoor.EnterSessions(ctx, call)
		if err == nil {
			return got, fresh, full
		}
		full = err
		refused, is := errors.AsType[*quota.Refusal](err)
		if !is || refused.Full == "" {
			break
		}
		fresh = int(min(int64(fresh-1), refused.Most-refused.Count))
	}
	return nil, 0, full
}

// writeAll adds to sessions that are let in. One that was known and is not any more has no reply.
func (a *api) writeAll(
	ctx context.Context, caller endpoint.Caller, puts []*tracepb.Put, pass quota.FilePass, replies map[*tracepb.Put]*tracepb.Reply,
) error {
	if pass != nil {
		defer pass.Kept() // or may be: what was stored is counted where it is
	}
	stored := make([]*tracepb.Reply, len(puts))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, put := range puts {
		group.Go(func() (err error) {
			if stored[i], err = a.write(within, caller, put); put.GetKnown() && handler.IsCode(err, failurepb.Code_SESSION_NOT_FOUND) {
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	for i, put := range puts {
		if stored[i] != nil {
			replies[put] = stored[i]
		}
	}
	return err
}
