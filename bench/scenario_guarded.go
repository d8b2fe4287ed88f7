package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// guardedTwin is what the id of an agent with a shield ends in; the one without it has the same id up to there.
const guardedTwin = "-guarded"

// Targets of answers through a shield.
const (
	mostAddedFirst = 5.0 // milliseconds, p99
	leastOfRate    = 0.9
)

// withTwin adds an agent with the default shield that is the same as another one otherwise.
func withTwin(settings []byte, agent string) []byte {
	_, rest, _ := bytes.Cut(settings, []byte("  - id: "+agent+"\n"))
	same, _, _ := bytes.Cut(rest, []byte("\n\n"))
	return fmt.Appendf(bytes.Clone(settings), "\n\n  - id: %s%s\n    shield: default\n%s\n", agent, guardedTwin, bytes.TrimSuffix(same, []byte("\n")))
}

// guardedSide is one of the two agents that are compared.
type guardedSide struct {
	name  string
	agent string
	ids   []string // conversations, one for each stream

	total         *tally
	first, second *hdrhistogram.Histogram
	words         int64
	took, cpu     time.Duration
	firsts        []float64 // p99 of the first token by round, milliseconds
	rates         []float64 // words per second by round
}

// runGuarded streams answers of an agent without a shield, and of its twin with one. The rounds of the two alternate, so that
// fluctuations of the machine affect both.
func runGuarded(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	plain, guarded := &guardedSide{name: "plain", agent: o.Agent}, &guardedSide{name: "guarded", agent: o.Agent + guardedTwin}
	if err = shieldWorks(nodeClient{c}, guarded.agent); err != nil {
		return nil, err
	}
	streams, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	defer streams.close()
	own := *o
	own.Rounds = max(o.Count, 1)
	sides := []*guardedSide{plain, guarded}
	for _, side := range sides {
		own.Agent = side.agent
		if side.ids, err = conversations(ctx, &client{options: &own, hosts: c.hosts, dark: c.dark}, live, o.Concurrency); err != nil {
			return nil, err
		}
		newStreamRun(&own, live, streams, side.ids).run(ctx) // warms up
		side.total, side.first, side.second = newTally(), newHistogram(), newHistogram()
	}
	began := time.Now()
	var faults []string
	for round := range max(o.Rounds, 1) {
		for _, side := range sides {
			live.phase(fmt.Sprintf("round %d, %s", round+1, side.name))
			faults = append(faults, side.round(ctx, newStreamRun(&own, live, streams, side.ids))...)
		}
		slices.Reverse(sides)
	}
	report := newReport(o, newTally(), time.Since(began))
	report.Faults, report.Latencies = faults, map[string]Latency{}
	for _, side := range []*guardedSide{plain, guarded} {
		side.report(report)
	}
	report.PerSecond = float64(report.OK) / report.Seconds
	guarded.against(report, plain)
	return report, ctx.Err()
}

// shieldWorks checks that the agent's shield is asked: without one the comparison would show nothing.
func shieldWorks(c nodeClient, agent string) error {
	id, err := c.createWith(agent, nil)
	if err != nil {
		return err
	}
	if err = c.call("POST", "/conversations/"+id+"/messages", message("I am zoe.quill@example.org"), 200, nil); err != nil {
		return fmt.Errorf("send to %s: %w", agent, err)
	}
	return c.call("GET", "/conversations/"+id, nil, 200, func(answer []byte) error {
		if !bytes.Contains(answer, []byte("[REDACTED:email]")) {
			return errors.New("the agent's shield takes nothing out")
		}
		return nil
	})
}

// round has every stream answer some times, and returns what was wrong.
func (s *guardedSide) round(ctx context.Context, r *streamRun) []string {
	before := processorTime(r.options)
	took := r.run(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.total.merge(r.mu.tally)
	s.first.Merge(r.mu.first)
	s.second.Merge(r.mu.second)
	s.words, s.took, s.cpu = s.words+r.mu.words, s.took+took, s.cpu+processorTime(r.options)-before
	s.firsts = append(s.firsts, latency(r.mu.first).P99)
	s.rates = append(s.rates, float64(r.mu.words)/took.Seconds())
	return r.mu.faults
}

func (s *guardedSide) report(r *Report) {
	r.OK += s.total.ok
	for code, n := range s.total.errors {
		r.Errors[code] += n
	}
	r.Latencies[s.name+", whole answer"] = latency(s.total.latency)
	r.Latencies[s.name+", first token"] = latency(s.first)
	r.Latencies[s.name+", second token"] = latency(s.second)
	r.Numbers[s.name+": tokens per second"] = float64(s.words) / s.took.Seconds()
	r.Numbers[s.name+": server CPU us per token"] = float64(s.cpu.Microseconds()) / float64(max(s.words, 1))
}

// against reports what the shield adds. A shield holds a word back as long as the next one may make it part of something, such as a
// mail address that is spelled out: it cannot give the first token away before it has the second.
func (s *guardedSide) against(r *Report, plain *guardedSide) {
	first, before, second := latency(s.first), latency(plain.first), latency(plain.second)
	r.Numbers["added to the first token, p50 ms"] = first.P50 - before.P50
	r.Numbers[fmt.Sprintf("added to the first token, p99 ms (target %g)", mostAddedFirst)] = first.P99 - before.P99
	r.Numbers["later than the second token without a shield, p50 ms"] = first.P50 - second.P50
	r.Numbers["later than the second token without a shield, p99 ms"] = first.P99 - second.P99
	added, rates := make([]float64, len(s.firsts)), make([]float64, len(s.rates))
	for i := range s.firsts {
		added[i] = s.firsts[i] - plain.firsts[i]
		rates[i] = s.rates[i] / cmp.Or(plain.rates[i], 1)
	}
	slices.Sort(added)
	slices.Sort(rates)
	r.Numbers["added to the first token, p99 ms, median of rounds"] = added[len(added)/2]
	r.Numbers["tokens per second, guarded over plain, median of rounds"] = rates[len(rates)/2]
	r.Numbers[fmt.Sprintf("tokens per second, guarded over plain (target %g)", leastOfRate)] =
		r.Numbers[s.name+": tokens per second"] / max(r.Numbers[plain.name+": tokens per second"], 1e-9)
}
