package bench

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// runUpload stores a file of -state-bytes and reads it back, -count times, and watches the memory of all nodes
// meanwhile. The first round warms up: permanent buffers are then part of the idle memory. Reading a file for the first
// time fills the store's block cache, which is outside the heap; reading it again does not.
func runUpload(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	id, err := nodeClient{c}.createWith(o.Agent, nil)
	if err != nil {
		return nil, err
	}
	t := newTally()
	up, down, again := &memoryWatch{cluster: o.cluster}, &memoryWatch{cluster: o.cluster}, &memoryWatch{cluster: o.cluster}
	began := time.Now()
	var uploading, downloading time.Duration
	rounds := max(o.Count, 1)
	for round := range rounds + 1 {
		live.phase(fmt.Sprintf("round %d of %d", round, rounds))
		file := &transfer{options: o, conversation: id, host: round % len(o.URLs), seed: uint64(round)}
		var stored, loaded time.Duration
		if err = up.during(ctx, round > 0, func() (err error) { stored, err = file.store(ctx); return err }); err == nil {
			err = down.during(ctx, round > 0, func() (err error) { loaded, err = file.load(ctx); return err })
		}
		if err == nil {
			err = again.during(ctx, round > 0, func() (err error) { _, err = file.load(ctx); return err })
		}
		if round > 0 {
			uploading, downloading = uploading+stored, downloading+loaded
			t.add(err, stored+loaded)
		}
		if err == nil {
			err = file.remove(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	report := newReport(o, t, time.Since(began))
	megabytes := float64(o.StateBytes) * float64(rounds) / 1e6
	report.Numbers["file, MB"] = float64(o.StateBytes) / 1e6
	report.Numbers["up, MB/s"], report.Numbers["down, MB/s"] = megabytes/uploading.Seconds(), megabytes/downloading.Seconds()
	up.report(report, "up")
	down.report(report, "down")
	again.report(report, "down again")
	return report, ctx.Err()
}

// transfer is the upload of a file to a node and its download from the next one.
type transfer struct {
	options      *Options
	conversation string
	host         int
	seed         uint64

	id  string
	sum string // hex of SHA-256
}

func (f *transfer) url(host int, path string) string {
	return f.options.URLs[host%len(f.options.URLs)] + f.options.BasePath + path
}

func (f *transfer) do(ctx context.Context, method, url string, body io.Reader, want int) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if body != nil {
		request.ContentLength = f.options.StateBytes
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	if f.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+f.options.Token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if response.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // what there is of it
		return nil, errors.Join(fmt.Errorf("%s %s: %d %s", method, url, response.StatusCode, text), response.Body.Close())
	}
	return response, nil
}

// store uploads bytes that do not compress.
func (f *transfer) store(ctx context.Context) (time.Duration, error) {
	sum := sha256.New()
	var key [32]byte
	key[0] = byte(f.seed)
	bytes := io.TeeReader(io.LimitReader(rand.NewChaCha8(key), f.options.StateBytes), sum)
	began := time.Now()
	response, err := f.do(ctx, http.MethodPost, f.url(f.host, "/files?name=large.bin&conversationId="+f.conversation), bufio.NewReaderSize(bytes, 256<<10), http.StatusCreated)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	var stored struct {
		File struct {
			ID string `json:"id"`
		} `json:"file"`
		ID string `json:"id"`
	}
	err = errors.Join(json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&stored), response.Body.Close())
	f.id, f.sum = cmp.Or(stored.File.ID, stored.ID), hex.EncodeToString(sum.Sum(nil))
	if err != nil || f.id == "" {
		return 0, fmt.Errorf("stored file without an id: %w", err)
	}
	return took, nil
}

// load downloads the file at the next node and compares.
func (f *transfer) load(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	response, err := f.do(ctx, http.MethodGet, f.url(f.host+1, "/files/"+f.id+"/content"), nil, http.StatusOK)
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	_, err = io.CopyBuffer(sum, struct{ io.Reader }{response.Body}, make([]byte, 256<<10))
	took := time.Since(began)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, fmt.Errorf("read file: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.sum {
		return 0, fmt.Errorf("the file came back as %s, not %s", got, f.sum)
	}
	return took, nil
}

func (f *transfer) remove(ctx context.Context) error {
	response, err := f.do(ctx, http.MethodDelete, f.url(f.host, "/files/"+f.id), nil, http.StatusOK)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// memoryWatch finds the largest increase of a node's memory over its idle state.
type memoryWatch struct {
	cluster *cluster
	outside bool    // the server is not asked for its heap: its answer takes more memory than what is to be measured may
	rss     float64 // bytes
	heap    float64
	idle    float64 // of the node with the most, before
}

// memory is what one node has, in bytes.
type memory struct{ rss, heap float64 }

// during samples memory often while do runs, if it counts. Before that, all nodes free unused memory.
func (w *memoryWatch) during(ctx context.Context, counts bool, do func() error) error {
	if !counts {
		return do()
	}
	before := map[string]memory{}
	for _, n := range w.cluster.Nodes() {
		collect(ctx, n.OpsURL())
		usage, err := n.Usage()
		if err != nil {
			return err
		}
		before[n.Name] = memory{float64(usage.RSS), statsOf(ctx, n.OpsURL())[statHeap]}
		w.idle = max(w.idle, float64(usage.RSS))
	}
	looking, stop := context.WithCancel(ctx)
	var looks sync.WaitGroup
	looks.Go(func() { w.look(looking, before) })
	err := do()
	stop()
	looks.Wait()
	return err
}

func (w *memoryWatch) look(ctx context.Context, before map[string]memory) {
	const pause = 10 * time.Millisecond
	for n := 0; ; n++ {
		for _, node := range w.cluster.Nodes() {
			if usage, err := node.Usage(); err == nil {
				w.rss = max(w.rss, float64(usage.RSS)-before[node.Name].rss)
			}
			const every = 3 // requesting it costs the server something
			if n%every == 0 && !w.outside {
				if heap, ok := statsOf(ctx, node.OpsURL())[statHeap]; ok {
					w.heap = max(w.heap, heap-before[node.Name].heap)
				}
			}
		}
		if !sleepUntil(ctx, time.Now().Add(pause)) {
			return
		}
	}
}

func (w *memoryWatch) report(r *Report, way string) {
	r.Numbers["idle before "+way+", MB"] = w.idle / 1e6
	r.Numbers[way+", most resident memory above idle, MB"] = w.rss / 1e6
	if !w.outside {
		r.Numbers[way+", most heap above idle, MB"] = w.heap / 1e6
	}
}
