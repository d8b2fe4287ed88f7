package placement

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cluster/peer/peertest"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
)

// nodeEnv has the test binary be a node: the members, itself first, as JSON.
const nodeEnv = "PARLEY_PLACEMENT_NODE"

// runNode is a node in a process of its own. It lives until its input ends.
func runNode() {
	var members []Member
	if err := json.Unmarshal([]byte(os.Getenv(nodeEnv)), &members); err != nil {
		panic(err)
	}
	shards, _ := shard.New(4)
	sh := newShell()
	s, err := New(Config{
		Name: members[0].Name, Boot: members[0].Boot, Cluster: "c1", Listen: members[0].Address, Shards: shards,
		Members: func() []Member { return members }, Owners: noOwners{}, Serve: &chatty{sh}, Encode: encodeFault, Decode: decodeFault,
	})
	if err != nil {
		panic(err)
	}
	if err := s.Start(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type noOwners struct{}

func (noOwners) Owner(shard.ID) (cluster.Owner, bool) { return cluster.Owner{}, false }

// chatty is a shell whose conversations say something all the time.
type chatty struct{ *shell }

func (c *chatty) Follow(_ context.Context, _ uint32, _ string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for offset := uint64(0); ; offset++ {
			select {
			case <-ticker.C:
				sink.Change(&conversationpb.Change{Epoch: 1, Delta: &conversationpb.Delta{RunId: "run_1", Offset: offset, Text: "x"}})
			case <-stop:
				return
			}
		}
	}()
	return &conversationpb.Snapshot{Epoch: 1}, func() { close(stop) }, nil
}

// process starts a node in a process of its own.
func (w *world) process(member Member, others ...Member) *exec.Cmd {
	w.t.Helper()
	members, err := json.Marshal(append([]Member{member}, others...))
	require.NoError(w.t, err)
	command := exec.CommandContext(w.t.Context(), os.Args[0])
	command.Env = append(os.Environ(), nodeEnv+"="+string(members))
	command.Stderr = os.Stderr
	_, err = command.StdinPipe()
	require.NoError(w.t, err)
	output, err := command.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, command.Start())
	w.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGCONT)
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(w.t, err)
	require.Equal(w.t, "ready\n", line)
	w.join(member)
	return command
}

// hang starts a call that is not answered and a follow, on another node; b is nil for another process, which speaks
// unasked.
func hang(t *testing.T, a, b *node, to cluster.Owner) (call <-chan error, followed *sinkOf) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		_, err := a.Ask(t.Context(), to, "conv_1", command("block"))
		failed <- err
	}()
	sink := newSink()
	_, _, err := a.Follow(t.Context(), to, "conv_1", sink)
	require.NoError(t, err)
	if b != nil {
		require.Eventually(t, func() bool { return b.shell.asked.Load() > 0 }, patience, time.Millisecond)
		b.shell.feed("conv_1").sink.Change(event(2))
	}
	require.Eventually(t, func() bool { return len(sink.heard()) > 0 }, patience, time.Millisecond)
	return failed, sink
}

func TestKilledProcess(t *testing.T) {
	w := newWorld(t)
	a := w.start("a", func(c *Config) { c.Silence = patience }) // longer than the kill needs to be noticed
	b := Member{Name: "b", Boot: "p1", Address: peertest.Address()}
	process := w.process(b, a.member)
	linked(t, a.System, "b")
	to := cluster.Owner{Node: "b", Shard: 1}
	measure(t, a, to)
	failed, sink := hang(t, a, nil, to)
	start := time.Now()
	require.NoError(t, process.Process.Kill())
	require.True(t, follow.IsLost(<-failed))
	require.True(t, follow.IsLost(<-sink.closed))
	t.Logf("told %v after the kill", time.Since(start))
	require.Less(t, time.Since(start), patience/2)

	// Again at its old address, before anybody has found out.
	_ = process.Wait()
	b.Boot = "p2"
	w.process(b, a.member)
	start = time.Now()
	require.Eventually(t, func() bool {
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		return err == nil
	}, patience, time.Millisecond)
	t.Logf("served again %v after the new one is known", time.Since(start))
}

// measure logs how long a call to another process takes.
func measure(t *testing.T, a *node, to cluster.Owner) {
	t.Helper()
	took := make([]time.Duration, 1000)
	for i := range took {
		start := time.Now()
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		require.NoError(t, err)
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	t.Logf("a call takes p50 %v, p99 %v", took[500], took[990])
}

func TestSuspendedProcess(t *testing.T) {
	w := newWorld(t)
	a := w.start("a")
	b := Member{Name: "b", Boot: "p1", Address: peertest.Address()}
	process := w.process(b, a.member)
	linked(t, a.System, "b")
	to := cluster.Owner{Node: "b", Shard: 1}
	failed, sink := hang(t, a, nil, to)
	start := time.Now()
	require.NoError(t, process.Process.Signal(syscall.SIGSTOP))
	require.True(t, follow.IsLost(<-failed))
	require.True(t, follow.IsLost(<-sink.closed))
	t.Logf("told %v after it stopped", time.Since(start))
	require.Less(t, time.Since(start), patience/2)

	start = time.Now()
	_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.True(t, follow.IsNotOwner(err))
	require.Less(t, time.Since(start), patience/2, "it is not waited for")

	require.NoError(t, process.Process.Signal(syscall.SIGCONT))
	start = time.Now()
	require.Eventually(t, func() bool {
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		return err == nil
	}, patience, time.Millisecond)
	t.Logf("served again %v after it went on", time.Since(start))
}
