package peer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster/peer/peertest"
)

// childEnv makes the test binary a node of its own, at this address, until its input ends.
const childEnv = "PARLEY_PEER_TEST_LISTEN"

func runChild(addr string) error {
	listener, err := net.Listen("tcp", addr) //nolint:noctx // the process is the context
	if err != nil {
		return err
	}
	t, err := New(Config{
		Hello: testHello(2), Listener: listener,
		Address:  func(uint64) (string, bool) { return "", false },
		OnFrames: func(_ uint64, _ Kind, frames [][]byte) { fmt.Printf("%s\n", frames[len(frames)-1]) },
	})
	if err != nil {
		return err
	}
	t.Start()
	defer t.Stop()
	fmt.Printf("listening %s\n", listener.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a node in a process.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
	addr  string
}

func startChild(t *testing.T, addr string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+addr)
	c.Stderr = os.Stderr
	_, err := c.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	c.lines = bufio.NewScanner(stdout)
	t.Cleanup(c.kill)
	require.True(t, c.lines.Scan())
	_, err = fmt.Sscanf(c.lines.Text(), "listening %s", &c.addr)
	require.NoError(t, err)
	return c
}

func (c *child) kill() {
	_ = c.Process.Kill()
	_ = c.Wait() // says that it was killed
}

// hears says something until the child prints it, and returns how long that took.
func (c *child) hears(t *testing.T, n *testNode, text string) time.Duration {
	t.Helper()
	begin := time.Now()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for c.lines.Scan() && c.lines.Text() != text {
		}
	}()
	eventually(t, "heard", func() bool {
		select {
		case <-heard:
			return true
		default:
			n.say(2, text)
			return false
		}
	})
	return time.Since(begin)
}

// TestProcess: kill -9 is noticed at once, not after the timeout, and the process's return within 100 ms; SIGSTOP is noticed
// within the timeout, and SIGCONT soon. A loaded machine adds some seconds to each.
func TestProcess(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, func(c *Config) { c.Dial, c.Timeout = nil, 10*time.Second })
	c := startChild(t, peertest.Address())
	w.setAddress(2, c.addr)
	c.hears(t, a, "first")

	begin := time.Now()
	c.kill()
	eventually(t, "noticed", func() bool { a.say(2, "void"); return a.counted(a.unreachable, 2) > 0 })
	t.Logf("kill noticed after %v", time.Since(begin))
	require.Less(t, time.Since(begin), a.cfg.Timeout)
	c = startChild(t, c.addr)
	back := c.hears(t, a, "second")
	t.Logf("reached %v after it came back", back)
	require.Less(t, back, a.cfg.Timeout)

	begin = time.Now()
	require.NoError(t, c.Process.Signal(syscall.SIGSTOP))
	eventually(t, "noticed", func() bool { a.say(2, "void"); return !a.connected(2) })
	stopped := time.Since(begin)
	t.Logf("stop noticed after %v", stopped)
	require.Less(t, stopped, 3*a.cfg.Timeout)
	require.NoError(t, c.Process.Signal(syscall.SIGCONT))
	resumed := c.hears(t, a, "third")
	t.Logf("reached %v after it went on", resumed)
	require.Less(t, resumed, 3*a.cfg.Timeout) // an attempt that began while it was stopped, and a backoff
}
