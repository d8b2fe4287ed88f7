package endpointtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Files is an endpoint.Files in memory. The zero value is empty.
type Files struct {
	// Err, when set, is what every call answers.
	Err error

	mu    sync.Mutex
	blobs map[string]*blob
}

type blob struct {
	content []byte
	file    *conversationpb.File // nil = not committed
}

// Store implements endpoint.Files.
func (f *Files) Store(_ context.Context, id string, r io.Reader, limit int64) (endpoint.Stored, error) {
	if f.Err != nil {
		return endpoint.Stored{}, f.Err
	}
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blobs == nil {
		f.blobs = make(map[string]*blob)
	}
	f.blobs[id] = &blob{content: content} // also of a file that did not end well: the sweep's
	if err != nil {
		return endpoint.Stored{}, fmt.Errorf("store file: %w", err)
	}
	if int64(len(content)) > limit {
		return endpoint.Stored{}, failure.New(failurepb.Code_TOO_LARGE, failure.UploadTooLarge).Param("most", limit)
	}
	const chunk = 256 << 10
	sum := sha256.Sum256(content)
	return endpoint.Stored{
		Size: int64(len(content)), Chunks: uint32((len(content) + chunk - 1) / chunk), SHA256: sum[:],
		Head: content[:min(len(content), endpoint.SniffBytes)],
	}, nil
}

// Commit implements endpoint.Files; a test also commits with it what a conversation's AddFile brings.
func (f *Files) Commit(_ context.Context, file *conversationpb.File, stored endpoint.Stored) error {
	if f.Err != nil {
		return f.Err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.blobs[file.GetId()]
	if found == nil || int64(len(found.content)) != stored.Size {
		return errors.New("commit file: bytes are missing")
	}
	found.file, _ = proto.Clone(file).(*conversationpb.File)
	return nil
}

// File implements endpoint.Files.
func (f *Files) File(_ context.Context, id string) (*conversationpb.File, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.blobs[id]
	if found == nil || found.file == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
	}
	return found.file, nil
}

// Open implements endpoint.Files.
func (f *Files) Open(_ context.Context, file *conversationpb.File, offset, length int64) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.blobs[file.GetId()]
	if found == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
	}
	content := found.content[offset:]
	if length >= 0 && length < int64(len(content)) {
		content = content[:length]
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Delete implements endpoint.Files.
func (f *Files) Delete(_ context.Context, id string) error {
	if f.Err != nil {
		return f.Err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.blobs, id)
	return nil
}

// Len is how many blobs there are, committed or not.
func (f *Files) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.blobs)
}
