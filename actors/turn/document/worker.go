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
	"time"
	"unicode/utf8"
)

// Limits of the processes that parse documents. Their memory limit depends on the format.
const (
	maxWorkers = 2
	maxStderr  = 300
	waitDelay  = 20 * time.Second // for the end of its output, once it was killed
	maxStack   = 64 << 20         // bytes; what goes on for longer goes round in circles

	// Seconds of processor time: the smallest document's, and the largest's. What the budget counts ends before.
	leastCPU = 2
	mostCPU  = 15
)

// cutStatus is the exit status of a worker that has written the text of the beginning only.
const cutStatus = 3

// ask has a worker read the document.
func (r *Reader) ask(ctx context.Context, mimeType string, in io.Reader, out *sink) error {
	if formats[baseType(mimeType)].begins {
		in = io.LimitReader(in, MaxInput)
	}
	raw, err := readAll(in)
	if err != nil {
		return err
	}
	most := out.limit + utf8.UTFMax // one character more than the limit, to detect a longer text
	args := append(append([]string(nil), r.worker[1:]...), mimeType, strconv.Itoa(most))
	worker := exec.CommandContext(ctx, r.worker[0], args...)
	worker.Env = []string{"GOMAXPROCS=1"} // and none of this process's keys
	worker.Stdin = bytes.NewReader(raw)
	text, stderr := &bounded{left: most}, &bounded{left: maxStderr}
	worker.Stdout, worker.Stderr = text, stderr
	worker.WaitDelay = waitDelay
	err = worker.Run()
	if worker.ProcessState != nil && worker.ProcessState.ExitCode() == cutStatus {
		if full := out.write(text.String()); full != nil {
			return full
		}
		out.over = true
		return errFull
	}
	if err != nil {
		why, _, _ := strings.Cut(stderr.String(), "\n") // the rest of a fatal error is a stack trace
		return fmt.Errorf("%w: %w: %s", ErrUnreadable, err, strings.ToValidUTF8(why, "\uFFFD"))
	}
	return out.write(text.String())
}

// bounded keeps the beginning of what is written.
type bounded struct {
	strings.Builder
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(written []byte) (int, error) {
	keep := min(len(written), b.left)
	b.left -= keep
	b.Builder.Write(written[:keep])
	return len(written), nil
}

// Work is the main function of a worker process: it reads a document from in and writes its text to out. The arguments
// are the document's type and the maximum number of bytes of text. It returns the process's exit status. It limits the
// process permanently, so nothing else can run in it.
func Work(args []string, in io.Reader, out, stderr io.Writer) int {
	fail := func(status int, err error) int {
		_, _ = fmt.Fprintln(stderr, err) // the exit status reports the failure
		return status
	}
	if len(args) != 2 {
		return fail(2, errors.New("document: a worker takes a type and a limit"))
	}
	one, known := formats[baseType(args[0])]
	limit, err := strconv.Atoi(args[1])
	if !known || err != nil || limit <= 0 {
		return fail(2, fmt.Errorf("document: a worker cannot read %q up to %q", args[0], args[1]))
	}
	if err = confine(one.memory); err != nil {
		return fail(2, fmt.Errorf("document: confine: %w", err))
	}
	raw, err := readAll(in)
	if err != nil {
		return fail(1, err)
	}
	if err = limitTo(syscall.RLIMIT_CPU, slow*min(leastCPU+uint64(len(raw))>>20, mostCPU)); err != nil {
		return fail(2, fmt.Errorf("document: confine: %w", err))
	}
	if one.begins {
		raw = toUTF8(raw, args[0])
	}
	text, status := &sink{limit: limit}, 0
	err = one.read(raw, text, newBudget(len(raw)))
	switch begun := strings.TrimSpace(text.built.String()) != ""; {
	case err == nil, errors.Is(err, errFull):
	case errors.Is(err, errSpent) && begun:
		status = fail(cutStatus, err)
	default:
		return fail(1, err)
	}
	if _, err = io.WriteString(out, text.built.String()); err != nil {
		return fail(1, err)
	}
	return status
}

// confine sets limits that the kernel enforces. If the machine runs short of memory or processor time, the worker
// suffers before the node that started it.
func confine(memory uint64) error {
	debug.SetMemoryLimit(int64(memory / 2)) //nolint:gosec // a constant of formats
	debug.SetMaxStack(maxStack)
	data, err := dataSize()
	if err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{
		syscall.RLIMIT_DATA: data + memory*shadow, syscall.RLIMIT_CPU: mostCPU * slow, syscall.RLIMIT_CORE: 0,
	} {
		if err := limitTo(resource, limit); err != nil {
			return err
		}
	}
	const first, nice = "1000", 10
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(first), 0) // the limits above hold without it
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)         // as above
	return nil
}

func limitTo(resource int, limit uint64) error {
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

// dataSize returns how much memory of the kind that RLIMIT_DATA counts the process already has.
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
