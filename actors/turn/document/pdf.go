package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/ledongthuc/pdf"
)

// Limits of the processes that read PDFs.
const (
	maxWorkers   = 2
	workerMemory = 768 << 20 // bytes, more than it starts with; a large document takes some 100 MB
	workerCPU    = 15        // seconds
	maxPages     = 5000
)

// readPDF lets a worker read the document.
func (r *Reader) readPDF(ctx context.Context, in io.Reader, out *sink) error {
	raw, err := readAll(in)
	if err != nil {
		return err
	}
	// One byte more than the limit: then it is known to be longer.
	args := append(append([]string(nil), r.worker[1:]...), strconv.Itoa(out.limit+1))
	worker := exec.CommandContext(ctx, r.worker[0], args...)
	worker.Env = []string{"GOMAXPROCS=1"} // and no key of ours
	worker.Stdin = bytes.NewReader(raw)
	text := &bounded{left: out.limit + 1}
	worker.Stdout = text
	worker.WaitDelay = timeout
	if err := worker.Run(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return out.write(text.String())
}

// bounded keeps the beginning of what is written.
type bounded struct {
	strings.Builder
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(said []byte) (int, error) {
	keep := min(len(said), b.left)
	b.left -= keep
	b.Builder.Write(said[:keep])
	return len(said), nil
}

// Work is the whole of a worker process: it reads a PDF from in and writes its text to out, at most as many bytes as the
// argument says, and gives the process's exit status. It limits the process for good: nothing else can run in it.
func Work(args []string, in io.Reader, out io.Writer) int {
	limit := 0
	if len(args) == 1 {
		limit, _ = strconv.Atoi(args[0])
	}
	if limit <= 0 || confine() != nil {
		return 2
	}
	raw, err := readAll(in)
	if err != nil {
		return 1
	}
	text := &sink{limit: limit}
	if err := pages(raw, text); err != nil && !errors.Is(err, errFull) {
		return 1
	}
	if _, err := io.WriteString(out, text.built.String()); err != nil {
		return 1
	}
	return 0
}

// confine sets limits that hold whatever the library does.
func confine() error {
	debug.SetMemoryLimit(workerMemory / 2)
	data, err := dataSize()
	if err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{
		syscall.RLIMIT_DATA: data + workerMemory, syscall.RLIMIT_CPU: workerCPU, syscall.RLIMIT_CORE: 0,
	} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	return nil
}

// dataSize is how much of what RLIMIT_DATA counts the process has already.
func dataSize() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if size, found := strings.CutPrefix(line, "VmData:"); found {
			kilobytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("document: the size of this process is not known")
}

// usual makes a PDF one that the library accepts, which is strict about the first and the last line.
func usual(raw []byte) []byte {
	const header = "%PDF-1.7\n"
	if len(raw) > len(header) && bytes.HasPrefix(raw, []byte("%PDF-")) {
		copy(raw, header)
	}
	if end := bytes.LastIndex(raw, []byte("%%EOF")); end >= 0 {
		raw = raw[:end+len("%%EOF")]
	}
	return raw
}

// pages writes the text of all pages. What cannot be read is left out, as long as something can.
func pages(raw []byte, out *sink) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%w: %v", ErrUnreadable, panicked)
		}
	}()
	raw = usual(raw)
	reader, err := pdf.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var problem error
	for number := range min(reader.NumPage(), maxPages) {
		drawn := &script{fonts: make(map[string]*pdf.Font), scale: 1, out: out}
		err := drawn.run(reader, number+1)
		if errors.Is(err, errFull) {
			return err
		}
		if err != nil {
			problem = err
		}
		if err := out.write("\n\n"); err != nil {
			return err
		}
	}
	if strings.TrimSpace(out.built.String()) == "" {
		return problem // nil for a document of pictures
	}
	return nil
}
