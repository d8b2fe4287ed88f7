package node

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
	"parley/httpedge/endpoint"
	"parley/persistence"
	"parley/persistence/blob"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// files is the store as the edge's endpoint.Files. Bytes are written at the owner of the shard that a file's id names,
// and read here where this node holds that shard: what is committed never changes.
type files struct {
	route
	cutter *blob.Cutter
	flow   func(bytes int) // hears of bytes that pass
}

func newFiles(way route, flow func(bytes int)) *files {
	return &files{route: way, cutter: &blob.Cutter{}, flow: flow}
}

func fileNotFound() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
}

const (
	// putTimeout bounds the way of one piece into the log, while its shard changes hands too.
	putTimeout = 30 * time.Second
	// putPause is the first pause before a piece is sent again; pauses double up to putPauseMax.
	putPause    = 20 * time.Millisecond
	putPauseMax = time.Second
)

// Store keeps the bytes of r under an id, in pieces, of which a few are on their way at once.
func (f *files) Store(ctx context.Context, id string, r io.Reader, limit int64) (endpoint.Stored, error) {
	in, valid := f.shards.Of(id)
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

// put sends a change of a blob to its owner, and again while that is busy or changing: twice is as good as once.
func (f *files) put(ctx context.Context, in shard.ID, change proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	for pause := putPause; ; pause = min(2*pause, putPauseMax) {
		_, _, err := f.router.Read(ctx, in, change)
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

// Commit makes stored bytes a file of its own.
func (f *files) Commit(ctx context.Context, file *conversationpb.File, stored endpoint.Stored) error {
	in, valid := f.shards.Of(file.GetId())
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
func (f *files) File(ctx context.Context, id string) (*conversationpb.File, error) {
	in, valid := f.shards.Of(id)
	if !valid {
		return nil, fileNotFound()
	}
	reply, _, err := askShard[*nodepb.BlobReply](ctx, f.router, in, &nodepb.BlobQuery{Id: id})
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
func (f *files) Open(ctx context.Context, file *conversationpb.File, offset, length int64) (io.ReadCloser, error) {
	in, valid := f.shards.Of(file.GetId())
	if !valid {
		return nil, fileNotFound()
	}
	reader := blob.NewReader(blob.Range{Size: file.GetSize(), Offset: offset, Length: length}, func(index uint32, buf []byte) ([]byte, error) {
		return f.chunk(ctx, in, &nodepb.ChunkQuery{Id: file.GetId(), Index: index}, buf)
	})
	return io.NopCloser(reader), nil
}

// chunk reads a piece here, or where its shard is owned when there is none here, or not yet.
func (f *files) chunk(ctx context.Context, in shard.ID, query *nodepb.ChunkQuery, buf []byte) ([]byte, error) {
	if f.store.Hosts(uint32(in)) {
		data, err := f.store.Chunk(persistence.WithStale(ctx), uint32(in), query.GetId(), query.GetIndex(), buf)
		switch {
		case err == nil:
			return data, nil
		case !errors.Is(err, persistence.ErrNoChunk) && !errors.Is(err, persistence.ErrNotLeader):
			return nil, blobFault("read piece", err)
		}
	}
	f.flow(persistence.ChunkSize)
	reply, _, err := askShard[*nodepb.ChunkReply](ctx, f.router, in, query)
	if err != nil {
		return nil, err
	}
	return reply.GetData(), nil
}

// Delete removes a file of no conversation, or bytes that no record names.
func (f *files) Delete(ctx context.Context, id string) error {
	in, valid := f.shards.Of(id)
	if !valid {
		return fileNotFound()
	}
	if err := f.put(ctx, in, &nodepb.DeleteBlob{Id: id}); err != nil {
		return fmt.Errorf("delete file: %w", err)
	}
	return nil
}

// turnFiles is the files of a node as a turn reads them: whole, by id.
type turnFiles struct{ node *Node }

// Open reads a committed file.
func (t turnFiles) Open(ctx context.Context, fileID string) (io.ReadCloser, error) {
	f := t.node.files // there is one before any turn runs
	file, err := f.File(ctx, fileID)
	if err != nil {
		return nil, err
	}
	return f.Open(ctx, file, 0, -1)
}
