package bench

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// stats are process metrics from the servers' ops listeners.
type stats map[string]float64

// Names of the Prometheus metrics that every Go process exports.
const (
	statMemory = "process_resident_memory_bytes"
	statCPU    = "process_cpu_seconds_total"
	statHeap   = "go_memstats_heap_alloc_bytes"
)

// serverStats sums the metrics of all servers; nil if none is known, or one of them does not answer.
func serverStats(ctx context.Context, o *Options) stats {
	if len(o.Ops) == 0 {
		return nil
	}
	sum := stats{}
	for _, ops := range o.Ops {
		one := statsOf(ctx, ops)
		if len(one) == 0 {
			return nil
		}
		for name, value := range one {
			sum[name] += value
		}
	}
	return sum
}

func statsOf(ctx context.Context, ops string) stats {
	return scrape(ctx, ops, 5*time.Second, parseStats)
}

// scrape reads the metrics of a server's ops listener; the zero value if it does not answer in time.
func scrape[T any](ctx context.Context, ops string, timeout time.Duration, parse func(io.Reader) T) (found T) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+"/metrics", nil)
	if err != nil {
		return found
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return found
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	return parse(io.LimitReader(response.Body, 16<<20))
}

func parseStats(text io.Reader) stats {
	found := stats{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || (name != statMemory && name != statCPU && name != statHeap) {
			continue
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = number
		}
	}
	return found
}

func (s stats) difference(r *Report, after stats) {
	if len(s) == 0 || len(after) == 0 {
		return
	}
	cpu := after[statCPU] - s[statCPU]
	r.Numbers["server CPU seconds"] = cpu
	r.Numbers["server memory MB"] = after[statMemory] / 1e6
	if r.OK > 0 {
		r.Numbers["server CPU us per request"] = cpu * 1e6 / float64(r.OK)
	}
}

// collect makes a server run its garbage collector.
func collect(ctx context.Context, ops string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<20)) // the profile is not wanted
	_ = response.Body.Close()
}

// heap is the live heap of all servers, in bytes; 0 if unknown.
func heap(ctx context.Context, o *Options) float64 {
	for _, ops := range o.Ops {
		collect(ctx, ops)
	}
	return serverStats(ctx, o)[statHeap]
}
