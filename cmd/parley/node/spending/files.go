package spending

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/quota"
	"parley/actors/machine"
	"parley/proto/allowancepb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// filePass is files that were let in. It implements quota.FilePass.
type filePass struct{ *pass }

// EnterFiles implements quota.FileDoor.
func (d *Door) EnterFiles(ctx context.Context, call *quota.Call, grows bool) (quota.FilePass, error) {
	files := *call
	files.Domain, files.Free = quota.File, true
	p, err := d.begin(ctx, &files)
	if err != nil || p == nil || p.call == nil && !grows {
		return nil, err
	}
	return filePass{p}, nil
}

// More implements quota.FilePass. A call that is asked for again with more is let in with it, or goes on as it was.
func (p filePass) More(ctx context.Context, came int64) error {
	if refused := p.force.CheckRequest(&quota.Call{Largest: came}); refused != nil {
		return refused
	}
	if p.call == nil {
		return nil
	}
	more := proto.CloneOf(p.call) // the one before may be on its way
	more.Bytes = came
	p.call = more
	reply, err := p.await(ctx)
	if err == nil && reply.GetReached() != nil {
		return quota.Reached(reply.GetReached(), reply.GetAmount(), time.Now().UnixMilli())
	}
	return err
}

// fills says whether the call brings what a quota of all that is kept bounds.
func (p *pass) fills() bool {
	return slices.ContainsFunc(p.call.GetCaps(), func(c *allowancepb.Cap) bool { return c.GetUnit() == allowancepb.Unit_FOREVER })
}

// recount finds out what there is, for the quotas of all that is kept. The allowance is read before: whatever is settled after that it
// counts by itself.
func (p *pass) recount(ctx context.Context) error {
	d := p.door
	call := proto.CloneOf(p.call) // the one before may be on its way
	allowance, err := entity.Read[*allowancepb.UsedReply](ctx, d.config.Entities, &allowancepb.UsedQuery{Id: d.config.IDFrom(quota.Allowance, p.tenant)})
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		err = nil // nothing was ever used
	}
	if err != nil {
		return err
	}
	call.AsOf = allowance.GetState().GetLastSeq()
	counted := map[[2]string]*conversationpb.KeptFilesReply{} // by project and user: most policies bound both measures of the same files
	for _, limit := range call.GetCaps() {
		if limit.GetUnit() != allowancepb.Unit_FOREVER || limit.GetCounts() {
			continue
		}
		whose := [2]string{limit.GetProjectId(), limit.GetUserId()}
		if counted[whose] == nil {
			counted[whose], err = entity.Read[*conversationpb.KeptFilesReply](ctx, d.config.Entities, &conversationpb.KeptFilesQuery{
				TenantId: p.tenant, ProjectId: whose[0], UserId: whose[1],
			})
			if err != nil {
				return err
			}
		}
		if limit.There = counted[whose].GetFiles(); limit.GetMeasure() == allowancepb.Measure_STORAGE {
			limit.There = counted[whose].GetBytes()
		}
	}
	p.call = call
	return nil
}

// Kept implements quota.FilePass.
func (p filePass) Kept() {
	if p.call != nil {
		p.end(&allowancepb.Settled{Id: p.call.GetId()})
	}
}

// Unkept implements quota.FilePass.
func (p filePass) Unkept() {
	if p.call != nil {
		p.end(&allowancepb.Settled{Id: p.call.GetId(), Unkept: true})
	}
}
