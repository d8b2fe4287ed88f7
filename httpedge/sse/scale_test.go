package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/follow"
	"parley/proto/conversationpb"
)

// The tests here hold the numbers that the package was built for against generous bounds, with the clients in a
// process of their own on the same machine. Small by default; -scale=18000 -streams=3000 are the real sizes.
var (
	scaleFlag   = flag.Int("scale", 2000, "idle followers of the scale test")
	streamsFlag = flag.Int("streams", 300, "token streams of the scale test")
	secondsFlag = flag.Int("seconds", 2, "length of the token streams")
)

const fleetEnv = "PARLEY_SSE_FLEET" // "<address> <connections> <conversations>": be the clients

// fleetReport is what the client process says at the end, and, as connected, when all its streams are open.
type fleetReport struct {
	Connected int
	Frames    int
	// Milliseconds from the call that published to the client's read, and between frames of one stream.
	P50, P99, Max          float64
	GapP50, GapP99, GapMax float64
	CPU                    time.Duration // of the client process
}

func TestMain(m *testing.M) {
	if arguments := os.Getenv(fleetEnv); arguments != "" {
		var address string
		var connections, conversations int
		if _, err := fmt.Sscan(arguments, &address, &connections, &conversations); err != nil {
			os.Exit(2)
		}
		runFleet(address, connections, conversations)
		return
	}
	os.Exit(m.Run())
}

// runFleet opens streams, says so, reads frames whose data begins with the time of sending, and reports once all
// streams have ended or standard input has.
func runFleet(address string, connections, conversations int) {
	var group, ready sync.WaitGroup
	var mu sync.Mutex
	var latencies, gaps []float64
	var open atomic.Int64
	limit := make(chan struct{}, 64)
	ready.Add(connections)
	conns := make([]net.Conn, connections)
	for i := range connections {
		limit <- struct{}{}
		group.Go(func() {
			conn, err := net.Dial("tcp", address) //nolint:noctx // a test's client
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				<-limit
				ready.Done()
				return
			}
			conns[i] = conn
			fmt.Fprintf(conn, "c%d 0\n", i%conversations)
			lines := bufio.NewReaderSize(conn, 512)
			first := true
			var last time.Time
			var mine, myGaps []float64
			for {
				line, err := lines.ReadSlice('\n')
				if err != nil {
					break
				}
				if first && bytes.HasPrefix(line, []byte(": open")) {
					first = false
					open.Add(1)
					<-limit
					ready.Done()
				}
				data, ok := bytes.CutPrefix(line, []byte("data: "))
				if !ok {
					continue
				}
				sent := int64(0)
				for _, digit := range data {
					if digit < '0' || digit > '9' {
						break
					}
					sent = sent*10 + int64(digit-'0')
				}
				now := time.Now()
				mine = append(mine, float64(now.UnixNano()-sent)/1e6)
				if !last.IsZero() {
					myGaps = append(myGaps, float64(now.Sub(last))/1e6)
				}
				last = now
			}
			mu.Lock()
			latencies = append(latencies, mine...)
			gaps = append(gaps, myGaps...)
			mu.Unlock()
		})
	}
	ready.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(fleetReport{Connected: int(open.Load())})
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
	group.Wait()
	slices.Sort(latencies)
	slices.Sort(gaps)
	_ = json.NewEncoder(os.Stdout).Encode(fleetReport{
		Frames: len(latencies),
		P50:    percentile(latencies, 50), P99: percentile(latencies, 99), Max: percentile(latencies, 100),
		CPU:    cpuTime(),
		GapP50: percentile(gaps, 50), GapP99: percentile(gaps, 99), GapMax: percentile(gaps, 100),
	})
}

func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

type fleet struct {
	in     io.Closer
	report *json.Decoder
	wait   func() error
}

func (e *edge) fleet(t *testing.T, connections, conversations int) *fleet {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this very test
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", fleetEnv, e.listener.Addr(), connections, conversations))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	f := &fleet{in: in, report: json.NewDecoder(out), wait: command.Wait}
	require.Equal(t, connections, f.next(t).Connected)
	return f
}

func (f *fleet) next(t *testing.T) fleetReport {
	t.Helper()
	var report fleetReport
	require.NoError(t, f.report.Decode(&report))
	return report
}

func (f *fleet) end(t *testing.T) fleetReport {
	t.Helper()
	require.NoError(t, f.in.Close())
	report := f.next(t)
	require.NoError(t, f.wait())
	return report
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// memory is what the process has taken for heap and stacks, and its resident set, in bytes.
func memory(t *testing.T) (inUse, resident float64) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	status, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var size, rss float64
	_, err = fmt.Sscan(string(status), &size, &rss)
	require.NoError(t, err)
	return float64(stats.HeapInuse + stats.StackInuse), rss * float64(os.Getpagesize())
}

func stamped(text string) *conversationpb.Event {
	return updated(strconv.FormatInt(time.Now().UnixNano(), 10) + " " + text)
}

func TestScaleIdleFollowersAndOneEventToAll(t *testing.T) {
	e := newEdge(t, DefaultConfig())
	e.upstream.create("c0")
	heap, resident := memory(t)
	goroutines := runtime.NumGoroutine()
	f := e.fleet(t, *scaleFlag, 1)
	e.serving.Wait()
	heapAfter, residentAfter := memory(t)
	each := (heapAfter - heap) / float64(*scaleFlag)
	t.Logf("%d idle followers: %.0f B each in use, %.0f B resident, %+d goroutines", *scaleFlag, each,
		(residentAfter-resident)/float64(*scaleFlag), runtime.NumGoroutine()-goroutines)
	require.Less(t, each, 2048.0)

	const rounds = 5
	payload := strings.Repeat("x", 100)
	for range rounds {
		before := cpuTime()
		writes := reading(e.hub.metrics.writes)
		began := time.Now()
		e.upstream.publish("c0", stamped(payload))
		published := time.Since(began)
		require.Eventually(t, func() bool {
			return reading(e.hub.metrics.writes)-writes >= float64(*scaleFlag)
		}, 30*time.Second, time.Millisecond)
		t.Logf("one event to all: callback %s, written in %s, %.1f us CPU per follower", published.Round(10*time.Microsecond),
			time.Since(began).Round(time.Millisecond), float64(cpuTime()-before)/1e3/float64(*scaleFlag))
		<-time.After(300 * time.Millisecond)
	}
	report := f.end(t)
	t.Logf("delivered %d of %d, ms: p50 %.1f p99 %.1f max %.1f", report.Frames, rounds**scaleFlag, report.P50, report.P99, report.Max)
	require.Equal(t, rounds**scaleFlag, report.Frames)
	require.Eventually(t, func() bool { return reading(e.hub.metrics.streams) == 0 }, 30*time.Second, time.Millisecond)
}

// soloView is a stateful view, as a streamed message has.
type soloView struct {
	plainView
	seq uint64
}

func (v *soloView) Delta(run Run, offset int) Frame {
	v.seq++
	b := AppendEvent(Begin(160), "stream.text")
	b = append(b, "data: "...)
	b = append(b, run.Text[offset:]...)
	b = append(b, ` {"type":"stream.text","text":"","isFinal":false,"timestamp":`...)
	b = strconv.AppendInt(b, time.Now().UnixMilli(), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, v.seq, 10)
	return Seal(append(b, "}\n\n"...))
}

func TestScaleTokenStreams(t *testing.T) {
	e := newEdge(t, DefaultConfig())
	e.options = func(after uint64) Options {
		return Options{After: after, Opening: Comment("open"), View: &soloView{}}
	}
	streams := *streamsFlag
	for i := range streams {
		e.upstream.create(fmt.Sprint("c", i))
	}
	sinks := make([]follow.Sink, streams)
	f := e.fleet(t, streams, streams)
	e.serving.Wait()
	e.upstream.mu.Lock()
	for i := range streams {
		for sink := range e.upstream.logs[fmt.Sprint("c", i)].sinks {
			sinks[i] = sink
		}
	}
	e.upstream.mu.Unlock()
	writes := reading(e.hub.metrics.writes)
	before, began := cpuTime(), time.Now()
	var publishers sync.WaitGroup
	const interval = 20 * time.Millisecond
	tokens := *secondsFlag * int(time.Second/interval)
	for i := range streams {
		publishers.Go(func() { // a turn: one goroutine, one timer
			<-time.After(interval * time.Duration(i) / time.Duration(streams))
			sinks[i].Change(&conversationpb.Change{Epoch: 1, RunStarted: &conversationpb.RunStarted{RunId: "r"}})
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			offset := uint64(0)
			for range tokens {
				<-ticker.C
				text := strconv.FormatInt(time.Now().UnixNano(), 10)
				sinks[i].Change(&conversationpb.Change{Epoch: 1, Delta: &conversationpb.Delta{RunId: "r", Offset: offset, Text: text}})
				offset += uint64(len(text))
			}
		})
	}
	publishers.Wait()
	elapsed, used := time.Since(began), cpuTime()-before
	<-time.After(100 * time.Millisecond)
	frames := streams * tokens
	t.Logf("%d streams, %.0f frames/s: server %.2f us CPU per frame (%.2f cores), %.2f frames per write", streams,
		float64(frames)/elapsed.Seconds(), float64(used)/1e3/float64(frames), used.Seconds()/elapsed.Seconds(),
		float64(frames)/(reading(e.hub.metrics.writes)-writes))
	report := f.end(t)
	t.Logf("%d frames, ms: latency p50 %.2f p99 %.2f max %.1f; gap p50 %.2f p99 %.2f max %.1f; client %.2f us CPU per frame", report.Frames,
		report.P50, report.P99, report.Max, report.GapP50, report.GapP99, report.GapMax, float64(report.CPU)/1e3/float64(frames))
	require.Equal(t, frames, report.Frames)
	require.Eventually(t, func() bool { return reading(e.hub.metrics.streams) == 0 }, 30*time.Second, time.Millisecond)
}

func BenchmarkFanOutEnqueue(b *testing.B) {
	e := newEdge(b, DefaultConfig())
	e.upstream.create("c")
	for range 100 {
		c, err := e.dial("c", 0)
		require.NoError(b, err)
		defer c.close()
		go func() { _, _ = io.Copy(io.Discard, c.conn) }()
	}
	b.ReportAllocs()
	for b.Loop() {
		e.upstream.publish("c", updated("x"))
	}
}
