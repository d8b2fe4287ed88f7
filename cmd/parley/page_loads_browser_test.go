package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// stalledLoad is from when on the loading of a page counts as stalled.
const stalledLoad = 5 * time.Second

// TestPageLoads loads the page many times, by a browser with and without what it has kept, and by a client that opens six connections and
// asks as browsers do: make page-loads. The first load that stalls ends it, with what the sockets, the server's goroutines and the
// browser's net log say of that moment.
func TestPageLoads(t *testing.T) {
	t.Parallel()
	loads, _ := strconv.Atoi(os.Getenv("PARLEY_PAGE_LOADS"))
	if loads == 0 {
		t.Skip("make page-loads loads the page PARLEY_PAGE_LOADS times in a browser and 20 times as often by a client")
	}
	evidence := cmp.Or(os.Getenv("PARLEY_PAGE_EVIDENCE"), t.TempDir())
	require.NoError(t, os.MkdirAll(evidence, 0o700))
	p := newProcess(t, "")
	p.start()
	t.Run("client", func(t *testing.T) { loadAsAClient(t, p, evidence, 20*loads) })
	t.Run("browser", func(t *testing.T) {
		b := newBrowser(t, chromedp.Flag("log-net-log", filepath.Join(evidence, "net-log.json")))
		var longest time.Duration
		for i := range loads {
			if i%2 == 0 {
				_, err := chromedp.Call(b.ctx, network.ClearBrowserCache, cdp.Empty{})
				require.NoError(t, err)
			}
			began := time.Now()
			b.do(chromedp.Navigate("http://" + p.listen + "/"))
			b.see(pageReady)
			longest = max(longest, time.Since(began))
			if longest > stalledLoad {
				keepEvidence(p, evidence)
				t.Fatalf("load %d took %s: see %s", i, longest, evidence)
			}
		}
		t.Logf("%d loads, the longest took %s", loads, longest)
	})
}

// loadAsAClient loads the page, four at a time.
func loadAsAClient(t *testing.T, p *process, evidence string, loads int) {
	t.Helper()
	var took []time.Duration
	var mu sync.Mutex
	var next atomic.Int64
	var loading sync.WaitGroup
	for range 4 {
		loading.Go(func() {
			for int(next.Add(1)) <= loads && !t.Failed() {
				began := time.Now()
				err := loadOnce("http://" + p.listen)
				passed := time.Since(began)
				if err != nil || passed > stalledLoad {
					keepEvidence(p, evidence)
					t.Errorf("a load took %s: %v: see %s", passed, err, evidence)
					return
				}
				mu.Lock()
				took = append(took, passed)
				mu.Unlock()
			}
		})
	}
	loading.Wait()
	slices.Sort(took)
	if n := len(took); n > 0 {
		t.Logf("%d loads: half within %s, 99 %% within %s, all within %s", n, took[n/2], took[n*99/100], took[n-1])
	}
}

var partOfPage = regexp.MustCompile(`(?:src|href)="(/[^"]+\.(?:js|css|svg|png|ico|webmanifest|woff2))"`)

// loadOnce asks for the page and what it names, over six connections of its own.
func loadOnce(base string) error {
	const connections = 6
	transport := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(context.Background(), waitLong)
	defer cancel()
	get := func(path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("GET %s: %s", path, response.Status)
		}
		return body, err
	}
	body, err := get("/")
	if err != nil {
		return err
	}
	paths := []string{"/api/agents/agents"} // what the page asks first
	for _, found := range partOfPage.FindAllSubmatch(body, -1) {
		paths = append(paths, string(found[1]))
	}
	failed := make(chan error, len(paths))
	for _, path := range paths {
		go func() { _, failure := get(path); failed <- failure }()
	}
	for range paths {
		err = cmp.Or(err, <-failed)
	}
	return err
}

// keepEvidence writes down what the machine and the server are doing.
func keepEvidence(p *process, dir string) {
	sockets, err := exec.Command("ss", "-tnop").CombinedOutput() //nolint:noctx // it is the last thing that the test does
	if err != nil {
		sockets = append(sockets, err.Error()...)
	}
	_ = os.WriteFile(filepath.Join(dir, "ss.txt"), sockets, 0o600)
	response, err := client().Get("http://" + p.ops + "/debug/pprof/goroutine?debug=2") //nolint:noctx // the same
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	stacks, _ := io.ReadAll(response.Body)
	_ = os.WriteFile(filepath.Join(dir, "goroutines.txt"), stacks, 0o600)
}
