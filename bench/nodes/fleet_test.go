package nodes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asNode makes the test's own program a stand-in for the server.
const asNode = "PARLEY_TEST_AS_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(standIn(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// standIn answers on its addresses with its name, fetches what it is asked to, and stops on SIGTERM.
func standIn(args []string) int {
	if args[0] == "certs" {
		return 0
	}
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	name, dir, listen, ops := set.String("node-name", "", ""), set.String("data-dir", "", ""), set.String("listen", "", ""), set.String("ops-listen", "", "")
	broken := set.Bool("broken", false, "")
	for _, ignored := range []string{"cluster-listen", "join", "cluster-tls-cert", "cluster-tls-key", "cluster-tls-ca", "cluster-gossip-key-file"} {
		set.String(ignored, "", "")
	}
	set.Bool("auth-allow-insecure", false, "")
	if set.Parse(args[1:]) != nil || *broken || os.MkdirAll(*dir, 0o755) != nil {
		return 2
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.URL.Query().Get("fetch")
		if target == "" {
			fmt.Fprint(w, *name)
			return
		}
		text, err := get(r.Context(), target, time.Second)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, text)
	})
	for _, at := range []string{*listen, *ops} {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", at)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go func() { _ = http.Serve(listener, handler) }()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "stopped in good order")
	return 0
}

func fleetOf(t *testing.T, config Config) *Fleet {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	config.Binary, config.Dir, config.Environ = binary, t.TempDir(), []string{asNode + "=1"}
	f, err := New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Stop()) })
	return f
}

func ask(t *testing.T, url string, within time.Duration) (string, error) {
	t.Helper()
	return get(t.Context(), url, within)
}

func get(ctx context.Context, url string, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", response.StatusCode)
	}
	return string(text), nil
}

func TestLifeOfNodes(t *testing.T) {
	f := fleetOf(t, Config{Count: 2})
	require.NoError(t, f.Start(t.Context()))
	require.Len(t, f.URLs(), 2)
	one, two := f.Node("n1"), f.Node("n2")
	require.Nil(t, f.Node("n3"))
	for _, n := range f.Nodes() {
		require.True(t, n.Running())
		name, err := ask(t, n.URL(), time.Second)
		require.NoError(t, err)
		require.Equal(t, n.Name, name)
		usage, err := n.Usage()
		require.NoError(t, err)
		require.Greater(t, usage.RSS, int64(1<<20))
	}

	require.Error(t, one.Launch(), "it runs already")
	require.Error(t, one.Wipe(), "it runs")
	require.NoError(t, one.Kill())
	require.NoError(t, one.Kill(), "again")
	require.False(t, one.Running())
	_, err := one.Usage()
	require.Error(t, err)
	require.ErrorIs(t, one.Pause(), ErrNotRunning)
	require.ErrorIs(t, one.Terminate(t.Context()), ErrNotRunning)
	require.DirExists(t, one.Dir)
	require.NoError(t, one.Wipe())
	require.NoDirExists(t, one.Dir)
	require.NoError(t, one.Start(t.Context()))

	require.NoError(t, two.Pause())
	require.True(t, two.Paused())
	require.False(t, two.Ready(t.Context()))
	require.NoError(t, two.Resume())
	require.False(t, two.Paused())
	require.NoError(t, two.AwaitReady(t.Context()))
	require.NoError(t, two.Pause())
	require.NoError(t, two.Kill(), "a frozen node dies too")

	require.NoError(t, one.Terminate(t.Context()))
	<-one.Exited()
	require.Contains(t, f.Logs(1), "stopped in good order")

	three, err := f.Add(t.Context())
	require.NoError(t, err)
	require.Equal(t, "n3", three.Name)
	require.NoError(t, three.Start(t.Context()))
	double, err := f.Double(t.Context(), one)
	require.NoError(t, err)
	require.NoError(t, double.Start(t.Context()))
	name, err := ask(t, double.URL(), time.Second)
	require.NoError(t, err)
	require.Equal(t, "n1", name)
	require.NotEqual(t, one.Dir, double.Dir)
	require.Len(t, f.Nodes(), 3)
	require.Error(t, f.Cut(t.Context(), one, three), "no networks to cut")
	require.NoError(t, f.Heal(t.Context()))
}

func TestFlags(t *testing.T) {
	f := fleetOf(t, Config{Count: 3, Flags: []string{"--log-level", "warn"}})
	flags := strings.Join(f.flags(f.nodes[1]), " ")
	require.Contains(t, flags, "--node-name n2 --data-dir "+filepath.Join(f.config.Dir, "n2"))
	require.Contains(t, flags, "--cluster-listen "+f.nodes[1].Cluster+" --join "+f.nodes[0].Cluster+","+f.nodes[1].Cluster+","+f.nodes[2].Cluster)
	require.NotContains(t, flags, "tls")
	require.Contains(t, flags, "--log-level warn")
	alone := fleetOf(t, Config{Count: 1, Alone: true})
	require.NotContains(t, strings.Join(alone.flags(alone.nodes[0]), " "), "join")
}

func TestEndOfANodeIsReported(t *testing.T) {
	f := fleetOf(t, Config{Count: 1, Flags: []string{"--broken"}})
	err := f.Start(t.Context())
	require.ErrorContains(t, err, "n1 ended before it was ready: exit status 2")
	require.ErrorContains(t, err, f.nodes[0].Log)
	_, err = New(t.Context(), Config{Count: 0})
	require.Error(t, err)
}

func TestCuts(t *testing.T) {
	if err := Permitted(t.Context()); err != nil {
		t.Skip(err)
	}
	f := fleetOf(t, Config{Count: 2, Network: true})
	require.NoError(t, f.Start(t.Context()))
	one, two := f.Node("n1"), f.Node("n2")
	through := func(from, to *Node) error {
		_, err := ask(t, from.URL()+"?fetch="+to.URL(), 3*time.Second)
		return err
	}
	require.NoError(t, through(one, two))
	require.NoError(t, f.Cut(t.Context(), one, two))
	require.Error(t, through(one, two))
	_, err := ask(t, two.URL(), time.Second)
	require.NoError(t, err, "clients still reach it")
	require.NoError(t, f.Heal(t.Context()))
	require.NoError(t, through(one, two))
	require.NoError(t, f.Isolate(t.Context(), two))
	require.Error(t, through(one, two))
	require.Error(t, through(two, one))
	require.NoError(t, f.Heal(t.Context()))
	require.NoError(t, f.Heal(t.Context()), "nothing left to heal")
	require.NoError(t, through(two, one))
	require.NoError(t, f.Stop())
	require.NoError(t, f.Stop(), "again")
}

func TestLeftovers(t *testing.T) {
	require.False(t, leftover("eth0"))
	require.False(t, leftover("ply"))
	require.False(t, leftover(fmt.Sprintf("ply%dan1", os.Getpid())))
	require.False(t, leftover("ply1a"), "process 1 runs")
	require.True(t, leftover("ply4194999an1"), "no process has so high a number")
}

func TestParseStat(t *testing.T) {
	text := "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 100 4096 7 18446744073709551615"
	usage, err := parseStat([]byte(text))
	require.NoError(t, err)
	require.Equal(t, Usage{CPU: 2 * time.Second, RSS: 7 * int64(os.Getpagesize())}, usage)
	for _, bad := range []string{"", "1 (x) S 2", strings.Replace(text, "150", "x", 1)} {
		_, err := parseStat([]byte(bad))
		require.Error(t, err)
	}
}
