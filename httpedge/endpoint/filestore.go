package endpoint

import (
	"context"
	"io"

	"parley/proto/conversationpb"
)

// Files is what handlers need of stored bytes. A file's record is written by whoever owns the file: the conversation
// (command AddFile commits record and bytes in one step), or Commit for a file of no conversation. What is neither is
// swept after an hour. Errors are a *machine.Failure (errors.As) or a fault.
type Files interface {
	// Store reads r to its end and keeps the bytes under id, whose shard holds them. It holds no more than a few
	// pieces in memory. More than limit bytes is a TOO_LARGE failure, a full disk STORAGE_FULL; an error of r is
	// returned as it is (wrapped). What was written of a file that did not end well is the sweep's.
	Store(ctx context.Context, id string, r io.Reader, limit int64) (Stored, error)
	// Commit makes stored bytes a file of its own, without a conversation.
	Commit(ctx context.Context, file *conversationpb.File, stored Stored) error
	// File returns the record of a committed file, or a NOT_FOUND failure.
	File(ctx context.Context, id string) (*conversationpb.File, error)
	// Open reads length bytes of a committed file from offset; length < 0 = to its end. The reader is to be closed;
	// it does not outlive ctx.
	Open(ctx context.Context, file *conversationpb.File, offset, length int64) (io.ReadCloser, error)
	// Delete removes a file of no conversation with its bytes, or bytes that no record names. A file that is not
	// there is no error.
	Delete(ctx context.Context, id string) error
}

// Stored says what Files.Store has kept.
type Stored struct {
	Size   int64
	Chunks uint32
	SHA256 []byte
	Head   []byte // the first bytes, at most SniffBytes, to tell the type from
}

// SniffBytes is how much of a file's beginning tells its type.
const SniffBytes = 3 << 10
