package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// needToken gives the started nodes an API token for the scenarios of the Client API.
func (o *Options) needToken() error {
	if o.Token == "" && o.Nodes == 0 {
		return errors.New("calls of the Client API take an API token: -token or PARLEY_TOKEN")
	}
	if o.Token == "" {
		secret := make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
		o.Token = "service_" + hex.EncodeToString(secret)
	}
	o.environ = append(o.environ, "PARLEY_BOOTSTRAP_TOKEN="+o.Token)
	return nil
}

// newClientAPI returns a client of the Client API of the same servers.
func newClientAPI(o *Options) (*client, error) { return newClientAt(o, o.URLs, o.ClientPath) }

// newClientAt returns a client of other servers, or with another base path.
func newClientAt(o *Options, urls []string, basePath string) (*client, error) {
	own := *o
	own.URLs, own.BasePath = urls, basePath
	return newClient(&own)
}

// rival is one of several operations that are compared.
type rival struct {
	name   string
	op     operation
	settle func() // waits for what a slice has left to be done; nil = for nothing
	total  *tally
	took   time.Duration
	rates  []float64 // per second, slice by slice
	p99s   []float64 // milliseconds, slice by slice
	costs  []float64 // processor microseconds of the started nodes for each operation, slice by slice
	cpu    float64   // processor seconds of the started nodes, without other load on the machine
}

// slices of a contest: short, so that fluctuations of the machine affect all rivals, but long compared with the end of
// a slice, when its last callers run alone.
const (
	contestSlice  = 500 * time.Millisecond
	contestRounds = 2 // at least
)

// contest runs the rivals in turns, a slice of time each, for the options' duration in all, in changing order.
func contest(ctx context.Context, o *Options, live *progress, rivals []*rival) error {
	if o.WarmUp > 0 {
		live.warmUp(o)
		for _, r := range rivals {
			r.slice(ctx, o, live, o.WarmUp/time.Duration(len(rivals)))
		}
	}
	live.measuring(o)
	for _, r := range rivals {
		r.total, r.took, r.rates, r.p99s, r.costs, r.cpu = newTally(), 0, nil, nil, nil, 0
	}
	order := slices.Clone(rivals)
	rounds := max(int(o.Duration/contestSlice)/len(rivals), contestRounds)
	for range rounds {
		for _, r := range order {
			before := processorTime(o)
			own, took := r.slice(ctx, o, live, contestSlice)
			if r.settle != nil {
				r.settle()
			}
			r.total.merge(own)
			cost := processorTime(o) - before
			r.cpu += cost.Seconds()
			r.costs = append(r.costs, float64(cost.Microseconds())/float64(max(own.ok, 1)))
			r.took += took
			r.rates = append(r.rates, float64(own.ok)/took.Seconds())
			r.p99s = append(r.p99s, latency(own.latency).P99)
		}
		slices.Reverse(order)
	}
	return ctx.Err()
}

func (r *rival) slice(ctx context.Context, o *Options, live *progress, length time.Duration) (*tally, time.Duration) {
	began := time.Now()
	l := &load{options: o, live: live, op: r.op}
	own := l.phase(ctx, began.Add(length), 0)
	return own, time.Since(began)
}

// processorTime returns the processor time of the started nodes, 0 without any. It does not use the ops listeners,
// whose requests would count.
func processorTime(o *Options) (sum time.Duration) {
	if o.cluster == nil {
		return 0
	}
	for _, n := range o.cluster.Nodes() {
		if usage, err := n.Usage(); err == nil { // a dead node shows in the errors
			sum += usage.CPU
		}
	}
	return sum
}

func (r *rival) rate() float64 { return float64(r.total.ok) / r.took.Seconds() }

// contestReport has the latencies of all rivals.
func contestReport(o *Options, rivals []*rival) *Report {
	total, took := newTally(), time.Duration(0)
	for _, r := range rivals {
		total.merge(r.total)
		took += r.took
	}
	report := newReport(o, total, took)
	report.Latencies = map[string]Latency{}
	for _, r := range rivals {
		report.Latencies[r.name] = latency(r.total.latency)
		report.Numbers[r.name+": per second"] = r.rate()
		if r.cpu > 0 && r.total.ok > 0 {
			report.Numbers[r.name+": server CPU us per request"] = r.cpu * 1e6 / float64(r.total.ok)
		}
	}
	return report
}

// against adds the ratio of two rivals' throughput to the report: overall, its variation from slice to slice, and by
// the servers' processor time, which other load on the machine does not affect.
func (r *rival) against(report *Report, other *rival) {
	ratios := make([]float64, 0, len(r.rates))
	for i := range r.rates {
		if other.rates[i] > 0 {
			ratios = append(ratios, r.rates[i]/other.rates[i])
		}
	}
	name := fmt.Sprintf("%s over %s", r.name, other.name)
	if other.total.ok == 0 || len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	report.Numbers[name] = r.rate() / other.rate()
	report.Numbers[name+", median of slices"] = ratios[len(ratios)/2]
	report.Numbers[name+", tenth of slices below"] = ratios[len(ratios)/10]
	if r.cpu > 0 && other.cpu > 0 {
		report.Numbers[name+", by server CPU"] = other.cpu / float64(other.total.ok) / (r.cpu / float64(r.total.ok))
	}
}

// cost compares what an operation of two rivals takes of the servers' processor time, slice by slice: other load on the machine makes
// all of it dearer, but neighbouring slices alike. It returns the ratio's median and quartiles.
func (r *rival) cost(other *rival) (lower, median, upper float64) {
	ratios := make([]float64, 0, len(r.costs))
	for i := range r.costs {
		if other.costs[i] > 0 {
			ratios = append(ratios, r.costs[i]/other.costs[i])
		}
	}
	if len(ratios) == 0 {
		return 0, 0, 0
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/4], ratios[len(ratios)/2], ratios[len(ratios)*3/4]
}
