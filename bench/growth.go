package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of what is watched besides the servers' own gauges.
const (
	statGoroutines  = "go_goroutines"
	statDescriptors = "process_open_fds"
	statTables      = "parley_persistence_open_tables"

	whatHeap        = "live heap, bytes"
	whatGoroutines  = "goroutines"
	whatDescriptors = "descriptors but those of tables"
)

// growth samples servers and finally reports what has grown. A gauge may be large under load and fluctuate, but under
// the same load it must not be larger in the last quarter of the samples than in the second. If more was done in the last
// quarter, it may be larger in proportion.
type growth struct {
	done    func() int64 // how much has been done so far
	samples []sample
}

// sample is the values at one time, summed over the servers.
type sample struct {
	at     time.Time
	done   int64
	values map[string]float64
}

// watch takes samples until ctx ends. A sample that cannot be taken is an error, since growth could go unnoticed.
func (g *growth) watch(ctx context.Context, servers []string, every time.Duration) error {
	for next := time.Now().Add(every); sleepUntil(ctx, next); next = next.Add(every) {
		values := map[string]float64{}
		for _, ops := range servers {
			collect(ctx, ops)
			one := gaugesOf(ctx, ops)
			if one[statHeap] == 0 || one[statGoroutines] == 0 {
				return errors.Join(fmt.Errorf("%s does not tell its heap and goroutines", ops), ctx.Err())
			}
			for name, value := range watched(one) {
				values[name] += value
			}
		}
		g.samples = append(g.samples, sample{time.Now(), g.done(), values})
	}
	return nil
}

// watched selects the gauges that must not grow. Data on disk grows, and its caches are bounded by settings.
func watched(all map[string]float64) map[string]float64 {
	values := map[string]float64{
		whatHeap: all[statHeap], whatGoroutines: all[statGoroutines], whatDescriptors: all[statDescriptors] - all[statTables],
	}
	for name, value := range all {
		if strings.HasPrefix(name, "parley_") && !strings.HasPrefix(name, "parley_persistence_") {
			values[name] = value
		}
	}
	return values
}

// judge compares the second quarter of the samples with the last one, reports both and returns what has grown. It counts
// samples, since they come late in bunches where the machine is slow.
func (g *growth) judge(r *Report) (faults []string) {
	n := len(g.samples)
	second, last := g.samples[n/4:n/2], g.samples[n-n/4:]
	if len(second) == 0 || len(last) == 0 {
		return []string{fmt.Sprintf("too few samples: %d", n)}
	}
	busier := max(1, speed(last)/max(speed(second), 1e-9))
	r.Numbers["load of the last quarter over that of the second"] = speed(last) / max(speed(second), 1e-9)
	for _, name := range slices.Sorted(maps.Keys(last[len(last)-1].values)) {
		before, after := median(second, name), median(last, name)
		grown := after > allowed(name, busier*before)
		if grown {
			faults = append(faults, fmt.Sprintf("%s grew from %.6g to %.6g", name, before, after))
		}
		if grown || !strings.HasPrefix(name, "parley_") {
			r.Numbers[name+": second quarter"], r.Numbers[name+": last quarter"] = before, after
		}
	}
	return faults
}

// allowed returns how large a number may be in the last quarter, given that of the second: smaller changes are noise.
func allowed(name string, before float64) float64 {
	switch {
	case name == whatHeap:
		return 1.15*before + 8e6
	case strings.HasSuffix(name, "_bytes"):
		return 1.25*before + 8e6
	case name == whatGoroutines, name == whatDescriptors:
		return 1.25*before + 64
	default:
		return 1.25*before + 256
	}
}

// speed returns how much was done per second.
func speed(samples []sample) float64 {
	first, last := samples[0], samples[len(samples)-1]
	return float64(last.done-first.done) / max(last.at.Sub(first.at).Seconds(), 1e-9)
}

func median(samples []sample, name string) float64 {
	values := make([]float64, 0, len(samples))
	for _, s := range samples {
		values = append(values, s.values[name])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// gaugesOf returns a server's gauges, each summed over its labels; nil if it does not answer.
func gaugesOf(ctx context.Context, ops string) map[string]float64 {
	return scrape(ctx, ops, 10*time.Second, parseGauges)
}

func parseGauges(text io.Reader) map[string]float64 {
	found, gauge := map[string]float64{}, ""
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if declared, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
			if name, ok := strings.CutSuffix(declared, " gauge"); ok {
				gauge = name
			}
			continue
		}
		end := strings.LastIndexByte(lines.Text(), ' ')
		name, _, _ := strings.Cut(lines.Text()[:max(end, 0)], "{")
		if name == "" || name != gauge {
			continue
		}
		if value, err := strconv.ParseFloat(lines.Text()[end+1:], 64); err == nil {
			found[name] += value
		}
	}
	return found
}
