package password

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// WorkerArgument is the command line argument that makes this program a worker.
const WorkerArgument = "hash-passwords"

// OwnWorker is the command that runs this binary as a worker, if it is the one that supports WorkerArgument: a test binary would run
// its tests.
func OwnWorker() []string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Path == "parley/cmd/parley" {
		return []string{"/proc/self/exe", WorkerArgument}
	}
	return nil
}

// maxLine bounds a message between node and worker.
const maxLine = 4 << 10

// longestHash is how long a worker may take for one hash; after that it is ended.
const longestHash = time.Minute

// worker is a process that makes hashes, or this one where it cannot be started. It is used by one goroutine at a time.
type worker struct {
	command []string
	logger  *slog.Logger
	process *exec.Cmd // nil = not started
	in      io.WriteCloser
	out     *bufio.Reader
	failed  bool // processes cannot be started here
}

// do has the worker carry out a request. A hash that was begun is finished, even if nobody waits for it any more: so the next
// request does not get its reply.
func (w *worker) do(ctx context.Context, asked request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	const attempts = 2 // a process that has died meanwhile is started again
	for range attempts {
		if !w.started() {
			break
		}
		if answered, err := w.exchange(asked); err == nil {
			return answered.checked()
		}
		w.stop()
	}
	return asked.answer().checked()
}

func (r reply) checked() (reply, error) {
	if r.Error != "" {
		return reply{}, fmt.Errorf("hash a password: %s", r.Error)
	}
	return r, nil
}

func (w *worker) started() bool {
	if len(w.command) == 0 || w.failed {
		return false
	}
	if w.process != nil {
		return true
	}
	if err := w.start(); err != nil {
		w.failed = true
		w.logger.Warn("passwords are hashed in this process: no worker can be started", slog.Any("err", err))
		return false
	}
	return true
}

func (w *worker) start() error {
	process := exec.Command(w.command[0], w.command[1:]...) //nolint:noctx // it ends with its standard input
	process.Env = []string{"GOMAXPROCS=1"}                  // and none of this process's keys
	in, err := process.StdinPipe()
	if err != nil {
		return err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	if err = process.Start(); err != nil {
		return err
	}
	w.process, w.in, w.out = process, in, bufio.NewReaderSize(out, maxLine)
	return nil
}

func (w *worker) exchange(asked request) (answered reply, err error) {
	process := w.process.Process
	overdue := time.AfterFunc(longestHash, func() { _ = process.Kill() }) // it ends in any case
	defer overdue.Stop()
	line, err := json.Marshal(asked)
	if err != nil {
		return reply{}, err
	}
	if _, err = w.in.Write(append(line, '\n')); err != nil {
		return reply{}, err
	}
	line, err = w.out.ReadSlice('\n')
	if err != nil {
		return reply{}, err
	}
	return answered, json.Unmarshal(line, &answered)
}

// stop ends the process.
func (w *worker) stop() {
	if w.process == nil {
		return
	}
	process := w.process.Process
	_ = w.in.Close()                                                      // the worker ends with its input
	overdue := time.AfterFunc(time.Second, func() { _ = process.Kill() }) // or so
	_ = w.process.Wait()                                                  // how it ended does not matter
	overdue.Stop()
	w.process = nil
}

// Work is the main function of a worker process. It answers requests until its input ends, and returns the exit status.
func Work(in io.Reader, out io.Writer) int {
	// Its sums yield to everybody's requests. At the lowest priority they would end only where the machine has nothing else to do:
	// beside two busy loops on two processors a sign-in took 17 s.
	const memory, low = 64 << 20, 5
	debug.SetMemoryLimit(memory)
	runtime.LockOSThread() // a priority is that of a thread
	// The queue bounds the work without it, too.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, low)
	lines := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return 0
		}
		var asked request
		if err != nil || json.Unmarshal(line, &asked) != nil {
			return 1
		}
		answered, err := json.Marshal(asked.answer())
		if err != nil {
			return 1
		}
		if _, err = out.Write(append(answered, '\n')); err != nil {
			return 1
		}
	}
}
