package records

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors"
	"parley/actors/core/failure"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/persistence/directory"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/nodepb"
)

// Answer answers calls about the directory and sums; known is false for all others.
func Answer(ctx context.Context, store *persistence.Store, request proto.Message) (answer proto.Message, known bool, err error) {
	switch r := request.(type) {
	case *nodepb.PutRecord:
		answer, err = putRecord(ctx, store, r)
	case *nodepb.AwaitRecords:
		answer, err = &nodepb.Done{}, store.AwaitRecords(ctx, r.GetVersion())
	case *nodepb.AddSums: // from a node of the release before, while a cluster is upgraded
		answer, err = &nodepb.Done{}, writeFault(r.GetShard(), store.AddSums(ctx, r.GetShard(), r.GetSums()))
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return answer, true, nil
}

// putRecord writes a record, if this node leads the directory.
func putRecord(ctx context.Context, store *persistence.Store, put *nodepb.PutRecord) (*nodepb.PutRecordReply, error) {
	records := store.Directory()
	version, err := records.Write(ctx, &logpb.Put{
		Collection: put.GetCollection(), Key: put.GetKey(), ExpectedVersion: put.GetExpectedVersion(), Value: put.GetValue(),
		Delete: put.GetDelete(), Guard: put.GetGuard(),
	})
	if put.GetDelete() && err == nil {
		version = records.Version()
	}
	var conflict *directory.ConflictError
	if errors.As(err, &conflict) {
		return &nodepb.PutRecordReply{Conflict: true, Stored: conflict.Stored, Version: max(conflict.Stored, records.Version())}, nil
	}
	if err != nil {
		return nil, writeFault(uint32(shard.Directory), err)
	}
	return &nodepb.PutRecordReply{Version: version}, nil
}

// writeFault turns a failed write into an error that another node can decode: not the owner, temporary, or permanent.
func writeFault(in uint32, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persistence.ErrNotLeader), errors.Is(err, persistence.ErrUnknownGroup):
		return fmt.Errorf("%w: %w", &actors.NotOwnerError{Shard: in}, err)
	case errors.Is(err, persistence.ErrFull):
		return fmt.Errorf("%w: %w", failure.New(failurepb.Code_STORAGE_FULL, failure.RecordDiskFull), err)
	case errors.Is(err, persistence.ErrFailed), errors.Is(err, persistence.ErrCorrupt):
		return fmt.Errorf("%w: %w", failure.New(failurepb.Code_STORAGE_FAILED, failure.RecordStoreFailed), err)
	case errors.Is(err, persistence.ErrInvalid), errors.Is(err, persistence.ErrTooLarge):
		return fmt.Errorf("%w: %w", failure.New(failurepb.Code_TOO_LARGE, failure.RecordTooLarge), err)
	case errors.Is(err, persistence.ErrBusy), errors.Is(err, persistence.ErrStopped):
		busy := failure.New(failurepb.Code_UNAVAILABLE, failure.RecordStorageBusy).With(detailUnwritten, true)
		return fmt.Errorf("%w: %w", busy, err)
	case errors.Is(err, persistence.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", failure.New(failurepb.Code_UNAVAILABLE, failure.RecordStorageBusy), err)
	}
	return err
}
