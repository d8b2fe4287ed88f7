package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"runtime/debug"
	"strings"
	"time"

	"parley/actors/core/attachment"
	"parley/actors/core/letters"
)

// Limits.
const (
	// MaxInput bounds a document that must be in memory as a whole to be read (PDF, office formats) and how much is
	// read of the others, in bytes.
	MaxInput = 32 << 20
	// timeout bounds the reading of one document. What a document may cost is bounded by work and processor time: whoever
	// takes this long had no processor, or its bytes did not come.
	timeout = time.Minute
	// patience bounds the wait for a worker.
	patience = 5 * time.Minute
)

// ErrUnsupported is returned for a type of file whose text cannot be extracted.
var ErrUnsupported = errors.New("document: no text can be taken from this type of file")

// ErrUnreadable is returned for a file that is broken, protected, too large, or takes too much work.
var ErrUnreadable = errors.New("document: the file cannot be read")

// ErrBusy is returned when all workers, or this machine, were busy for too long: a retry may succeed.
var ErrBusy = errors.New("document: too many documents are being read")

// Reader extracts text from documents. Create one with NewReader. Safe for concurrent use.
type Reader struct {
	worker []string
	queue  *queue // for the workers
}

// NewReader returns a Reader that parses documents with a command that calls Work. nil = only plain text is supported.
func NewReader(worker []string) *Reader {
	return &Reader{worker: worker, queue: newQueue(maxWorkers)}
}

//nolint:gochecknoglobals // the workers of one process share its memory
var shared = NewReader(ownWorker())

// WorkerArgument is the command-line argument that makes this project's binary a worker.
const WorkerArgument = "document-text"

// ownWorker returns this binary, if it is the one that supports WorkerArgument: a test binary would run its tests.
func ownWorker() []string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path == "parley/cmd/parley" {
		return []string{"/proc/self/exe", WorkerArgument}
	}
	return nil
}

// Text takes the text out of a tenant's document: at most limit bytes of UTF-8, with a note at the end if there was more.
func Text(ctx context.Context, tenant, mimeType string, in io.Reader, limit int) (string, error) {
	return shared.Text(ctx, tenant, mimeType, in, limit)
}

// Supported reports whether Text supports the type.
func Supported(mimeType string) bool { return shared.read(mimeType) != nil }

// Text takes the text out of a tenant's document: at most limit bytes of UTF-8, with a note at the end if there was more. It
// waits while the tenant has no worker; nothing of the document is in memory before. The error is ErrUnsupported,
// ErrUnreadable, ErrBusy, that of reading in, or the context's.
func (r *Reader) Text(ctx context.Context, tenant, mimeType string, in io.Reader, limit int) (string, error) {
	read := r.read(mimeType)
	if read == nil {
		return "", ErrUnsupported
	}
	if _, parsed := formats[baseType(mimeType)]; parsed {
		leave, err := r.queue.enter(ctx, tenant, patience)
		if err != nil {
			return "", err
		}
		defer leave()
	}
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := &sink{limit: max(limit, 0)}
	err := read(timed, &interruptible{timed, in}, out)
	switch {
	case err == nil, errors.Is(err, errFull):
		return out.text(), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case timed.Err() != nil:
		return "", fmt.Errorf("%w: it takes longer than %s", ErrBusy, timeout)
	}
	return "", err
}

// reading extracts the text of one kind of document. It returns errFull when the text is long enough.
type reading func(ctx context.Context, in io.Reader, out *sink) error

// read returns the function that reads documents of a type, nil if the type is not supported.
func (r *Reader) read(mimeType string) reading {
	kind := baseType(mimeType)
	if _, parsed := formats[kind]; parsed {
		if r.worker == nil {
			return nil
		}
		return func(ctx context.Context, in io.Reader, out *sink) error { return r.ask(ctx, mimeType, in, out) }
	}
	if attachment.IsText(kind) {
		return func(_ context.Context, in io.Reader, out *sink) error { return readPlain(mimeType, in, out) }
	}
	return nil
}

// format is a kind of document that a worker parses.
type format struct {
	read   func(raw []byte, out *sink, work *budget) error
	memory uint64 // bytes that its worker may use, in addition to those it starts with
	begins bool   // it is text, in any encoding: its beginning is a document, too, and only that is read of a long one
}

//nolint:gochecknoglobals // a table; nothing writes to it
var formats = map[string]format{
	"application/pdf":       {read: pages, memory: 512 << 20},
	"application/xhtml+xml": {read: readHTML, memory: 256 << 20, begins: true},
	"text/html":             {read: readHTML, memory: 256 << 20, begins: true},

	"application/vnd.openxmlformats-officedocument.presentationml.presentation": {read: readSlides, memory: 256 << 20},
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         {read: readSheets, memory: 256 << 20},
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   {read: readWords, memory: 256 << 20},
}

func baseType(mimeType string) string {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil && kind == "" {
		kind, _, _ = strings.Cut(mimeType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

// interruptible ends reads when the context ends.
type interruptible struct {
	ctx context.Context //nolint:containedctx // it lives for one call of Text
	in  io.Reader
}

// Read implements io.Reader.
func (i *interruptible) Read(buffer []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.in.Read(buffer)
}

// readAll reads a document that must be in memory as a whole.
func readAll(in io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(in, MaxInput+1))
	if err != nil {
		return nil, fmt.Errorf("document: read: %w", err)
	}
	if len(raw) > MaxInput {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrUnreadable, MaxInput)
	}
	return raw, nil
}

var errFull = errors.New("document: enough text")

// sink collects text up to a limit.
type sink struct {
	limit int
	built strings.Builder
	over  bool
}

// write adds text, made valid UTF-8 if necessary. errFull = the limit has been reached.
func (s *sink) write(text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "")
	if room := s.limit - s.built.Len(); len(text) > room {
		s.built.WriteString(letters.Head(text, room))
		s.over = true
		return errFull
	}
	s.built.WriteString(text)
	return nil
}

const cutNote = "\n[the document is longer; the rest was left out]"

func (s *sink) text() string {
	text := s.built.String()
	if s.over && len(cutNote) <= s.limit {
		text = letters.Head(text, s.limit-len(cutNote)) + cutNote
	}
	return strings.TrimSpace(text)
}
