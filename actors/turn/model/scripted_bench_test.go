package model

import (
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

// counter is a Stream that costs nothing and notes the latest word.
type counter struct {
	start  time.Time
	due    time.Duration
	step   time.Duration
	words  int64
	latest time.Duration
}

func (c *counter) Text(string) {
	c.latest = max(c.latest, time.Since(c.start)-c.due)
	c.due += c.step
	c.words++
}

func (c *counter) ToolCall(ToolCall) {}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkScriptedPaced runs 3,000 streams of 50 words, one per 20 ms, and reports processor time per word and the latest word.
func BenchmarkScriptedPaced(b *testing.B) {
	const streams = 3000
	p := New(Config{})[agentpb.Provider_SCRIPTED]
	request := scriptedRequest(&agentpb.Script{Tokens: 50, TokenIntervalMs: 20})
	for b.Loop() {
		runtime.GC()
		var words, latest atomic.Int64
		var all sync.WaitGroup
		before := cpuTime(b)
		for i := range streams {
			all.Go(func() {
				<-time.After(time.Duration(i) * 20 * time.Millisecond / streams) // spreads the streams over the interval
				listener := &counter{start: time.Now(), step: 20 * time.Millisecond}
				_, err := p.Generate(b.Context(), request, listener)
				if err != nil {
					b.Error(err)
				}
				words.Add(listener.words)
				for old := latest.Load(); int64(listener.latest) > old && !latest.CompareAndSwap(old, int64(listener.latest)); {
					old = latest.Load()
				}
			})
		}
		all.Wait()
		used := cpuTime(b) - before
		b.ReportMetric(float64(used.Nanoseconds())/float64(words.Load()), "cpu-ns/word")
		b.ReportMetric(float64(latest.Load())/1e6, "latest-ms")
	}
}

// BenchmarkScriptedCall is a whole call of one word, as bench-echo makes it.
func BenchmarkScriptedCall(b *testing.B) {
	p := New(Config{})[agentpb.Provider_SCRIPTED]
	request := scriptedRequest(&agentpb.Script{Tokens: 1})
	listener := &counter{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Generate(b.Context(), request, listener); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScriptedWord is a word without a pause.
func BenchmarkScriptedWord(b *testing.B) {
	p := New(Config{})[agentpb.Provider_SCRIPTED]
	const words = 10_000
	request := scriptedRequest(&agentpb.Script{Tokens: words})
	listener := &counter{}
	for b.Loop() {
		if _, err := p.Generate(b.Context(), request, listener); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(listener.words), "ns/word")
}
