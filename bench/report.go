package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the outcome of a run. Latencies are milliseconds.
type Report struct {
	Scenario    string             `json:"scenario"`
	Concurrency int                `json:"concurrency"`
	Seconds     float64            `json:"seconds"`
	OK          int64              `json:"ok"`
	PerSecond   float64            `json:"perSecond"`
	Latencies   map[string]Latency `json:"latencies"` // by what was measured
	Numbers     map[string]float64 `json:"numbers,omitempty"`
	Errors      map[string]int64   `json:"errors,omitempty"`
	Faults      []string           `json:"streamFaults,omitempty"` // what the checkers found
	Seed        uint64             `json:"seed,omitempty"`
	Story       []string           `json:"story,omitempty"` // what was done to the nodes, and when
	Spreads     []Spread           `json:"spreads,omitempty"`
	Open        bool               `json:"openLoop"`
}

// Spread is a histogram of durations.
type Spread struct {
	Name   string  `json:"name"`
	UpToMS []int64 `json:"upToMs"` // upper ends; the last count has none
	Counts []int64 `json:"counts"`
}

// newSpread summarises a distribution in a few classes.
func newSpread(name string, h *hdrhistogram.Histogram) Spread {
	s := Spread{Name: name, UpToMS: []int64{50, 100, 250, 500, 750, 1000, 1250, 1500, 2000, 5000}}
	s.Counts = make([]int64, len(s.UpToMS)+1)
	for _, bar := range h.Distribution() {
		at, _ := slices.BinarySearch(s.UpToMS, (bar.To+999)/1000)
		s.Counts[at] += bar.Count
	}
	return s
}

func (s Spread) print(w io.Writer) {
	fmt.Fprintf(w, "%s, by milliseconds:", s.Name)
	for i, n := range s.Counts {
		switch {
		case n == 0:
		case i == len(s.UpToMS):
			fmt.Fprintf(w, "  more %d", n)
		default:
			fmt.Fprintf(w, "  to %d: %d", s.UpToMS[i], n)
		}
	}
	fmt.Fprintln(w)
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

func latency(h *hdrhistogram.Histogram) Latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Latency{
		Count: h.TotalCount(), Mean: h.Mean() / 1000, P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)),
		P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max()),
	}
}

func newReport(o *Options, t *tally, took time.Duration) *Report {
	return &Report{
		Concurrency: o.Concurrency, Seconds: took.Seconds(), OK: t.ok, PerSecond: float64(t.ok) / took.Seconds(),
		Latencies: map[string]Latency{"request": latency(t.latency)}, Numbers: map[string]float64{}, Errors: t.errors, Open: o.Rate > 0,
	}
}

// failed reports whether a stream was wrong, nothing succeeded, or anything was refused.
func (r *Report) failed() bool {
	return len(r.Faults) > 0 || r.OK == 0 || len(r.Errors) > 0
}

func (r *Report) print(w io.Writer, asJSON bool) {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(r) // plain numbers and strings always encode; a closed stdout has nobody to tell
		return
	}
	loop := "closed loop"
	if r.Open {
		loop = "open loop"
	}
	fmt.Fprintf(w, "%s: %d ok in %.1f s = %.0f/s, concurrency %d, %s\n", r.Scenario, r.OK, r.Seconds, r.PerSecond, r.Concurrency, loop)
	table := tabwriter.NewWriter(w, 2, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Latencies) > 0 {
		fmt.Fprintln(table, "ms\tcount\tmean\tp50\tp90\tp99\tp99.9\tmax\t")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Latencies)) {
		l := r.Latencies[name]
		fmt.Fprintf(table, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", name, l.Count, l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max)
	}
	_ = table.Flush() // the same
	for _, name := range slices.Sorted(maps.Keys(r.Numbers)) {
		fmt.Fprintf(w, "%s: %.6g\n", name, r.Numbers[name])
	}
	for _, spread := range r.Spreads {
		spread.print(w)
	}
	if r.Seed != 0 {
		fmt.Fprintf(w, "seed: %d\n", r.Seed)
	}
	for _, line := range r.Story {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "error %s: %d\n", code, r.Errors[code])
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(w, "FAULT %s\n", fault)
	}
}
