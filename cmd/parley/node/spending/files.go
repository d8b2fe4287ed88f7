package spending

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/quota"
	"parley/proto/allowancepb"
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
	p.pass.call = more
	reply, err := p.await(ctx)
	if err == nil && reply.GetReached() != nil {
		return quota.Reached(reply.GetReached(), reply.GetAmount(), time.Now().UnixMilli())
	}
	return err
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
