package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Node is one node: an identity, its addresses and directory, and at times a process.
type Node struct {
	Name    string
	Listen  string // host:port of the API
	Ops     string // host:port of the operations surface
	Cluster string // host:port for other nodes
	Dir     string // its data
	Log     string // log file of its processes, appended at each start

	// Binary and Environ apply from the next start on: an executable instead of the fleet's, and additional
	// environment.
	Binary  string
	Environ []string

	fleet     *Fleet
	namespace string // of its network; empty = this one

	mu struct {
		sync.Mutex
		running *process
	}
}

// process is one start of a node.
type process struct {
	command *exec.Cmd
	exited  chan struct{} // closed when it has ended
	err     error         // how, once exited is closed
	paused  bool          // guarded by Node.mu
}

// ErrNotRunning means that a node has no process.
var ErrNotRunning = errors.New("node does not run")

// URL is the base URL of the node's API.
func (n *Node) URL() string { return "http://" + n.Listen }

// OpsURL is the base URL of the node's operations surface.
func (n *Node) OpsURL() string { return "http://" + n.Ops }

// Launch starts the node's process and does not wait for it. The process dies with this one.
func (n *Node) Launch() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.aliveLocked() {
		return fmt.Errorf("%s runs already", n.Name)
	}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	name, args := cmp.Or(n.Binary, n.fleet.config.Binary), append([]string{"serve"}, n.fleet.flags(n)...)
	if n.namespace != "" {
		name, args = "ip", append([]string{"netns", "exec", n.namespace, name}, args...)
	}
	// Kill or Terminate ends it, not a context.
	command := exec.CommandContext(context.Background(), name, args...)
	command.Env = slices.Concat(os.Environ(), n.fleet.config.Environ, n.Environ)
	command.Stdout, command.Stderr = log, log
	// In another process group: an interrupt at the terminal must only reach the harness, which then stops its nodes.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if _, err := fmt.Fprintf(log, "--- %s %s starts: %v\n", time.Now().UTC().Format(time.RFC3339Nano), n.Name, args); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	p := &process{command: command, exited: make(chan struct{})}
	go func() { // ends with the process, which Stop kills
		p.err = command.Wait()
		close(p.exited)
	}()
	n.mu.running = p
	return nil
}

// Start launches the node and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Launch(); err != nil { //nolint:contextcheck // a process outlives the call that starts it
		return err
	}
	return n.AwaitReady(ctx)
}

func (n *Node) aliveLocked() bool {
	if n.mu.running == nil {
		return false
	}
	select {
	case <-n.mu.running.exited:
		return false
	default:
		return true
	}
}

// Running reports whether the node has a process, frozen or not.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.aliveLocked()
}

// Paused reports whether the node's process is frozen.
func (n *Node) Paused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.aliveLocked() && n.mu.running.paused
}

func (n *Node) process() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.running
}

// AwaitReady waits until the node is ready, its process ends, or Config.ReadyWithin has passed.
func (n *Node) AwaitReady(ctx context.Context) error {
	p := n.process()
	if p == nil {
		return fmt.Errorf("%s: %w", n.Name, ErrNotRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, n.fleet.config.ReadyWithin)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		unready := n.Unready(ctx)
		if unready == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready: %w; its log is %s", n.Name, exitError(p), n.Log)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready in time: %w; its log is %s", n.Name, unready, n.Log)
		case <-again.C:
		}
	}
}

func exitError(p *process) error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Ready checks once whether the node is ready.
func (n *Node) Ready(ctx context.Context) bool { return n.Unready(ctx) == nil }

// Unready asks the node once why it is not ready, within 10 s; nil if it is.
func (n *Node) Unready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.OpsURL()+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask whether %s is ready: %w", n.Name, err)
	}
	request.Close = true // a kept-alive connection might be to a dead process
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask whether %s is ready: %w", n.Name, err)
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // the status decides, the words are for people
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s", n.Name, said)
	}
	return nil
}

// Kill kills the node's process, frozen or not, and waits until it is gone. It does nothing if there is none.
func (n *Node) Kill() error {
	p := n.process()
	if p == nil {
		return nil
	}
	if err := p.command.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", n.Name, err)
	}
	<-p.exited
	return nil
}

// Terminate stops the node gracefully (SIGTERM) and waits until it is gone. An exit status other than 0 is an error.
func (n *Node) Terminate(ctx context.Context) error {
	p := n.process()
	if p == nil {
		return fmt.Errorf("%s: %w", n.Name, ErrNotRunning)
	}
	if err := n.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s stopped: %w; its log is %s", n.Name, p.err, n.Log)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not stop: %w; its log is %s", n.Name, ctx.Err(), n.Log)
	}
}

// Pause freezes the node: its sockets stay open and do not respond. It returns when all threads are stopped.
func (n *Node) Pause() error {
	if err := n.freeze(syscall.SIGSTOP, true); err != nil {
		return err
	}
	const patience = 5 * time.Second
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if n.stopped() {
			return nil
		}
	}
	return fmt.Errorf("%s does not stand still", n.Name)
}

// Resume thaws a frozen node.
func (n *Node) Resume() error { return n.freeze(syscall.SIGCONT, false) }

func (n *Node) freeze(signal syscall.Signal, paused bool) error {
	if err := n.signal(signal); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.running.paused = paused
	return nil
}

func (n *Node) signal(signal syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.aliveLocked() {
		return fmt.Errorf("%s: %w", n.Name, ErrNotRunning)
	}
	if err := n.mu.running.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("%s to %s: %w", signal, n.Name, err)
	}
	return nil
}

// Exited returns a channel that is closed when the node's current process ends; nil if it never had one.
func (n *Node) Exited() <-chan struct{} {
	if p := n.process(); p != nil {
		return p.exited
	}
	return nil
}

// Wipe removes the data of a node that is not running, as if its disk were lost.
func (n *Node) Wipe() error {
	if n.Running() {
		return fmt.Errorf("%s runs: its data stays", n.Name)
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		return fmt.Errorf("wipe %s: %w", n.Name, err)
	}
	return nil
}
