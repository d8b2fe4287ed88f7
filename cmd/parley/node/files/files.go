// Package files stores the bytes of files in the shards of their ids and reads them at any node.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/cmd/parley/node/reads"
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/persistence/blob"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Files implements endpoint.Files. Bytes are written by the owner of the file's shard and read locally where this node hosts
// that shard: committed bytes never change.
type Files struct {
	reads.Route
	cutter *blob.Cutter
	flow   func(bytes int) // called for bytes in transit
}

// New returns the files of a cluster, stored and read along way. flow is told of bytes in transit.
func New(way reads.Route, flow func(bytes int)) *Files {
	return &Files{Route: way, cutter: &blob.Cutter{}, flow: flow}
}

func fileNotFound() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
}

const (
	// putTimeout bounds the write of one chunk, including a change of its shard's owner.
	putTimeout = 30 * time.Second
	// putPause is the first pause before a chunk is sent again; pauses double up to putPauseMax.
	putPause    = 20 * time.Millisecond
	putPauseMax = time.Second
)

// Store writes the bytes of r under an id in chunks, a few at a time.
func (f *Files) Store(ctx context.Context, id string, r io.Reader, limit int64) (endpoint.Stored, error) {
	in, valid := f.Shards.Of(id)
	if !valid {
		return endpoint.Stored{}, fileNotFound()
	}
	limits := blob.Limits{Bytes: limit, Head: endpoint.SniffBytes}
	kept, err := f.cutter.Cut(ctx, r, limits, func(ctx context.Context, index uint32, data []byte) error {
		f.flow(len(data))
		return f.put(ctx, in, &nodepb.PutChunk{Id: id, Index: index, Data: data})
	})
	if errors.Is(err, blob.ErrTooLong) {
		err = fmt.Errorf("%w: %w", failure.New(failurepb.Code_TOO_LARGE, failure.UploadTooLarge).Param("most", limit), err)
	}
	if err != nil {
		return endpoint.Stored{}, fmt.Errorf("store file: %w", err)
	}
	return endpoint.Stored{Size: kept.Size, Chunks: kept.Chunks, SHA256: kept.SHA256, Head: kept.Head}, nil
}

// put sends a change of a blob to its owner and retries while that is unavailable; changes are idempotent.
func (f *Files) put(ctx context.Context, in shard.ID, change proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	for pause := putPause; ; pause = min(2*pause, putPauseMax) {
		_, _, err := f.Router.Read(ctx, in, change)
		var refused *machine.Failure
		if err == nil || !errors.As(err, &refused) || refused.Code != failurepb.Code_UNAVAILABLE {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// Commit makes stored bytes a file.
func (f *Files) Commit(ctx context.Context, file *conversationpb.File, stored endpoint.Stored) error {
	in, valid := f.Shards.Of(file.GetId())
	if !valid {
		return fileNotFound()
	}
	record, err := proto.Marshal(file)
	if err != nil {
		return fmt.Errorf("commit file: %w", err)
	}
	err = f.put(ctx, in, &nodepb.CommitBlob{
		Id: file.GetId(), Chunks: stored.Chunks, Size: stored.Size, Record: record, ExpiresAt: file.GetExpiresAt(),
	})
	if err != nil {
		return fmt.Errorf("commit file: %w", err)
	}
	return nil
}

// File returns the record of a committed file.
func (f *Files) File(ctx context.Context, id string) (*conversationpb.File, error) {
	in, valid := f.Shards.Of(id)
	if !valid {
		return nil, fileNotFound()
	}
	reply, _, err := reads.AskShard[*nodepb.BlobReply](ctx, f.Router, in, &nodepb.BlobQuery{Id: id})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read file: %w", err)
	case !reply.GetCommitted():
		return nil, fileNotFound()
	}
	file := &conversationpb.File{}
	if err := proto.Unmarshal(reply.GetRecord(), file); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	return file, nil
}

// Open reads a part of a committed file.
func (f *Files) Open(ctx context.Context, file *conversationpb.File, offset, length int64) (io.ReadCloser, error) {
	in, valid := f.Shards.Of(file.GetId())
	if !valid {
		return nil, fileNotFound()
	}
	reader := blob.NewReader(blob.Range{Size: file.GetSize(), Offset: offset, Length: length}, func(index uint32, buf []byte) ([]byte, error) {
		return f.chunk(ctx, in, &nodepb.ChunkQuery{Id: file.GetId(), Index: index}, buf)
	})
	return io.NopCloser(reader), nil
}

// chunk reads a chunk locally, or from the owner of its shard if this node does not have it (yet).
func (f *Files) chunk(ctx context.Context, in shard.ID, query *nodepb.ChunkQuery, buf []byte) ([]byte, error) {
	if f.Local.Hosts(uint32(in)) {
		data, err := f.Local.Chunk(persistence.WithStale(ctx), uint32(in), query.GetId(), query.GetIndex(), buf)
		switch {
		case err == nil:
			return data, nil
		case !errors.Is(err, persistence.ErrNoChunk) && !errors.Is(err, persistence.ErrNotLeader):
			return nil, reads.BlobFault("read piece", err)
		}
	}
	f.flow(persistence.ChunkSize)
	reply, _, err := reads.AskShard[*nodepb.ChunkReply](ctx, f.Router, in, query)
	if err != nil {
		return nil, err
	}
	return reply.GetData(), nil
}

// Delete removes a file that belongs to no conversation, or bytes without a record.
func (f *Files) Delete(ctx context.Context, id string) error {
	in, valid := f.Shards.Of(id)
	if !valid {
		return fileNotFound()
	}
	if err := f.put(ctx, in, &nodepb.DeleteBlob{Id: id}); err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	return nil
}
