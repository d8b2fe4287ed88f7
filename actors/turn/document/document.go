package document

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits.
const (
	// MaxInput bounds a document that must be held as a whole to be read (PDF, office formats) and how much is read of the
	// others, in bytes.
	MaxInput = 32 << 20
	// maxWholes bounds the office documents that are read at a time: each takes up to three times MaxInput.
	maxWholes = 4
	// timeout bounds the reading of one document.
	timeout = 20 * time.Second
)

// ErrUnsupported is returned for a type of file that no text is taken from.
var ErrUnsupported = errors.New("document: no text can be taken from this type of file")

// ErrUnreadable is returned for a file that is broken, protected, too large, or takes too long.
var ErrUnreadable = errors.New("document: the file cannot be read")

// Reader takes text out of documents. Make one with NewReader. Safe for concurrent use.
type Reader struct {
	worker []string
	slots  chan struct{} // one for each worker that may run at a time
	wholes chan struct{} // one for each other document that may be held as a whole at a time
}

// NewReader makes a Reader whose PDFs are read by a command that calls Work. nil = PDFs are not supported.
func NewReader(worker []string) *Reader {
	return &Reader{worker: worker, slots: make(chan struct{}, maxWorkers), wholes: make(chan struct{}, maxWholes)}
}

//nolint:gochecknoglobals // the workers of one process share its memory
var shared = NewReader(ownWorker())

// WorkerArgument is the command-line argument with which this project's binary becomes a worker.
const WorkerArgument = "document-text"

// ownWorker is this binary, if it is the one that knows WorkerArgument: another (a test) would run as itself.
func ownWorker() []string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path == "parley/cmd/parley" {
		return []string{"/proc/self/exe", WorkerArgument}
	}
	return nil
}

// Text takes the text out of a document: at most limit bytes of UTF-8, with a note at the end if there was more.
func Text(ctx context.Context, mimeType string, in io.Reader, limit int) (string, error) {
	return shared.Text(ctx, mimeType, in, limit)
}

// Supported says whether Text knows the type.
func Supported(mimeType string) bool { return shared.read(baseType(mimeType)) != nil }

// Text takes the text out of a document: at most limit bytes of UTF-8, with a note at the end if there was more. The error
// is ErrUnsupported, ErrUnreadable, what reading in failed with, or the context's.
func (r *Reader) Text(ctx context.Context, mimeType string, in io.Reader, limit int) (string, error) {
	read := r.read(baseType(mimeType))
	if read == nil {
		return "", ErrUnsupported
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
		return "", fmt.Errorf("%w: it takes longer than %s", ErrUnreadable, timeout)
	}
	return "", err
}

// reading takes the text out of one kind of document. It ends with errFull when the text is long enough.
type reading func(ctx context.Context, in io.Reader, out *sink) error

// oneOf reads when there is a place: before, nothing of the document is in memory.
func oneOf(places chan struct{}, read reading) reading {
	return func(ctx context.Context, in io.Reader, out *sink) error {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			return read(ctx, in, out)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnreadable, context.Cause(ctx))
		}
	}
}

func (r *Reader) read(kind string) reading {
	switch kind {
	case "text/html", "application/xhtml+xml":
		return readHTML
	case "application/pdf":
		if r.worker != nil {
			return oneOf(r.slots, r.readPDF)
		}
		return nil
	case "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return oneOf(r.wholes, readWords)
	case "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":
		return oneOf(r.wholes, readSheets)
	case "application/vnd.openxmlformats-officedocument.presentationml.presentation":
		return oneOf(r.wholes, readSlides)
	}
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		slices.Contains(plainTypes, kind) {
		return readPlain
	}
	return nil
}

//nolint:gochecknoglobals // a list; nothing writes to it
var plainTypes = []string{
	"application/javascript", "application/json", "application/jsonl", "application/sql", "application/toml", "application/x-ndjson",
	"application/x-sh", "application/x-yaml", "application/xml", "application/yaml",
}

func baseType(mimeType string) string {
	kind, _, err := mime.ParseMediaType(mimeType)
	if err != nil && kind == "" {
		kind, _, _ = strings.Cut(mimeType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

// interruptible ends a read when the context does.
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

// readAll holds a document that can only be read as a whole.
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

// write adds text, valid UTF-8 or made so. errFull = there is room for no more.
func (s *sink) write(text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "")
	room := s.limit - s.built.Len()
	if len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		s.built.WriteString(text[:max(room, 0)])
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
		keep := min(len(text), s.limit-len(cutNote))
		for keep > 0 && keep < len(text) && !utf8.RuneStart(text[keep]) {
			keep--
		}
		text = text[:keep] + cutNote
	}
	return strings.TrimSpace(text)
}
