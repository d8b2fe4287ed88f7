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
	"parley/proto/tracepb"
)

// filePass is files, or sessions, that were let in. It implements quota.FilePass.
type filePass struct{ *pass }

// EnterFiles implements quota.FileDoor.
func (d *Door) EnterFiles(ctx context.Context, call *quota.Call, grows bool) (quota.FilePass, error) {
	files := *call
	files.Domain, files.Free = quota.File, true
	return d.enterKept(ctx, &files, grows)
}

// EnterSessions implements quota.FileDoor. What reports them is counted by itself.
func (d *Door) EnterSessions(ctx context.Context, call *quota.Call) (quota.FilePass, error) {
	sessions := *call
	sessions.Domain, sessions.Free, sessions.Part = quota.Tracing, true, true
	return d.enterKept(ctx, &sessions, false)
}

// enterKept lets in what is to be kept. grows says that more of it comes, of which is asked later even if nothing counts it.
func (d *Door) enterKept(ctx context.Context, call *quota.Call, grows bool) (quota.FilePass, error) {
	p, err := d.begin(ctx, call)
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
	d, began := p.door, time.Now()
	call := proto.CloneOf(p.call) // the one before may be on its way
	allowance, err := entity.Read[*allowancepb.UsedReply](ctx, d.config.Entities, &allowancepb.UsedQuery{Id: d.config.IDFrom(quota.Allowance, p.tenant)})
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		err = nil // nothing was ever used
	}
	if err != nil {
		return err
	}
	call.AsOf = allowance.GetState().GetLastSeq()
	counted := counter{p: p}
	for _, limit := range call.GetCaps() {
		if limit.GetUnit() != allowancepb.Unit_FOREVER || limit.GetCounts() {
			continue
		}
		if limit.There, err = counted.there(ctx, limit); err != nil {
			return err
		}
	}
	p.call, p.counted = call, began
	return nil
}

// counter adds up what is kept.
type counter struct {
	p *pass
	// files are what was added up already, by project and user: most policies bound both measures of the same files.
	files map[[2]string]*conversationpb.KeptFilesReply
}

// there is how much there is of what a limit bounds.
func (c *counter) there(ctx context.Context, limit *allowancepb.Cap) (int64, error) {
	entities, tenant, project, user := c.p.door.config.Entities, c.p.tenant, limit.GetProjectId(), limit.GetUserId()
	if limit.GetMeasure() == allowancepb.Measure_SESSIONS {
		kept, err := entity.Read[*tracepb.KeptReply](ctx, entities, &tracepb.KeptQuery{TenantId: tenant, ProjectId: project, UserId: user})
		return kept.GetSessions(), err
	}
	whose := [2]string{project, user}
	if c.files[whose] == nil {
		kept, err := entity.Read[*conversationpb.KeptFilesReply](ctx, entities, &conversationpb.KeptFilesQuery{TenantId: tenant, ProjectId: project, UserId: user})
		if err != nil {
			return 0, err
		}
		if c.files == nil {
			c.files = map[[2]string]*conversationpb.KeptFilesReply{}
		}
		c.files[whose] = kept
	}
	if limit.GetMeasure() == allowancepb.Measure_STORAGE {
		return c.files[whose].GetBytes(), nil
	}
	return c.files[whose].GetFiles(), nil
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
