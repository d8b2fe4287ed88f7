package reads

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/persistence"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// blobs answers queries about blobs of a shard that this node owns; known is false for all others. Writes of blobs arrive as
// queries too, since each may safely be repeated.
func (a *Answerer) blobs(ctx context.Context, in uint32, query proto.Message) (answer proto.Message, known bool, err error) {
	store := a.local.store
	switch q := query.(type) {
	case *nodepb.PutChunk:
		err = store.PutChunk(ctx, in, q.GetId(), q.GetIndex(), q.GetData())
		return &nodepb.Done{}, true, BlobFault("keep piece", err)
	case *nodepb.CommitBlob:
		err = store.CommitBlob(ctx, in, q.GetId(), persistence.Blob{
			Chunks: q.GetChunks(), Size: q.GetSize(), Record: q.GetRecord(), ExpiresAt: q.GetExpiresAt(),
		})
		return &nodepb.Done{}, true, BlobFault("commit file", err)
	case *nodepb.DeleteBlob:
		err = store.DeleteBlob(ctx, in, q.GetId())
		return &nodepb.Done{}, true, BlobFault("delete file", err)
	case *nodepb.BlobQuery:
		b, found, err := store.Blob(ctx, in, q.GetId())
		return &nodepb.BlobReply{
			Found: found, Chunks: b.Chunks, Size: b.Size, Record: b.Record, Committed: b.Committed,
		}, true, BlobFault("read file", err)
	case *nodepb.ChunkQuery:
		data, err := store.Chunk(ctx, in, q.GetId(), q.GetIndex(), nil)
		return &nodepb.ChunkReply{Data: data}, true, BlobFault("read piece", err)
	}
	return nil, false, nil
}

// BlobFault turns a failed read or write of bytes into what the caller should see. UNAVAILABLE may be retried; "not the owner"
// is left to the router.
func BlobFault(what string, err error) error {
	var code failurepb.Code
	var reason failure.Reason
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persistence.ErrFull):
		code, reason = failurepb.Code_STORAGE_FULL, failure.DiskFull
	case errors.Is(err, persistence.ErrFailed), errors.Is(err, persistence.ErrCorrupt):
		code, reason = failurepb.Code_STORAGE_FAILED, failure.StoreBroken
	case errors.Is(err, persistence.ErrIncomplete), errors.Is(err, persistence.ErrNoChunk):
		code, reason = failurepb.Code_NOT_FOUND, failure.FileNotFound
	case errors.Is(err, persistence.ErrBlobTaken):
		code, reason = failurepb.Code_ALREADY_EXISTS, failure.FileExists
	case errors.Is(err, persistence.ErrInvalid), errors.Is(err, persistence.ErrTooLarge):
		code, reason = failurepb.Code_VALIDATION, failure.FileNotKept
	case errors.Is(err, persistence.ErrBusy), errors.Is(err, persistence.ErrOutcomeUnknown), errors.Is(err, persistence.ErrStopped),
		errors.Is(err, context.DeadlineExceeded):
		code, reason = failurepb.Code_UNAVAILABLE, failure.FileStorageBusy
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, failure.New(code, reason), err)
}
