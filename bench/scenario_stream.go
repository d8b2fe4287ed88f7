package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// streamRun is a fleet of callers, each with a conversation, that send the next message when an answer has ended.
type streamRun struct {
	options  *Options
	fleet    *fleet
	live     *progress
	requests [][]byte
	starts   chan int // callers whose next turn is due; as long as there are callers
	measure  time.Time
	until    time.Time
	giveUp   time.Time // from when on nothing is sent again
	mu       struct {
		sync.Mutex
		tally  *tally
		first  *hdrhistogram.Histogram // time to the first token
		second *hdrhistogram.Histogram // and to the second
		gap    *hdrhistogram.Histogram // between two tokens of a stream
		faults []string
		tokens int64 // pieces of text
		words  int64 // in them, of agents that number theirs
		open   int
		peak   int
		rounds []int
		broken []int // by caller: answers that a node did not complete
		active sync.WaitGroup
	}
}

// runStream measures streamed answers: time to the first token, gaps between tokens, streams without a fault.
func runStream(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ids, err := conversations(ctx, c, live, o.Concurrency)
	if err != nil {
		return nil, err
	}
	fleet, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	defer fleet.close()
	r := newStreamRun(o, live, fleet, ids)
	before := serverStats(ctx, o)
	took := r.run(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	report := newReport(o, r.mu.tally, took)
	report.Latencies = map[string]Latency{
		"whole answer": latency(r.mu.tally.latency), "first token": latency(r.mu.first), "token gap": latency(r.mu.gap),
	}
	report.Numbers["tokens per second"] = float64(r.mu.tokens) / took.Seconds()
	report.Numbers["streams open at peak"] = float64(r.mu.peak)
	if o.RetryFor > 0 {
		broken := 0
		for _, n := range r.mu.broken {
			broken += n
		}
		report.Numbers["streams broken and sent again"] = float64(broken)
	}
	report.Faults = r.mu.faults
	before.difference(report, serverStats(ctx, o))
	return report, ctx.Err()
}

// newStreamRun prepares a run with a caller for each conversation.
func newStreamRun(o *Options, live *progress, fleet *fleet, ids []string) *streamRun {
	r := &streamRun{options: o, fleet: fleet, live: live, starts: make(chan int, len(ids))}
	r.mu.tally, r.mu.first, r.mu.second, r.mu.gap = newTally(), newHistogram(), newHistogram(), newHistogram()
	r.mu.rounds, r.mu.broken = make([]int, len(ids)), make([]int, len(ids))
	for i, id := range ids {
		r.requests = append(r.requests, streamRequest(o, fleet.hosts[i%len(fleet.hosts)], id))
	}
	return r
}

func streamRequest(o *Options, host, id string) []byte {
	const body = `{"message":"ping","stream":true}`
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s/conversations/%s/messages HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n", o.BasePath, id, host)
	if o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", o.Token)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return []byte(b.String())
}

// run opens the streams over the ramp, keeps them going until the end, and waits for the last.
func (r *streamRun) run(ctx context.Context) time.Duration {
	start := time.Now()
	r.live.phase("streaming")
	r.measure = start.Add(r.options.Ramp + r.options.WarmUp)
	r.until = r.measure.Add(r.options.Duration)
	r.giveUp = r.until
	if r.options.Rounds > 0 {
		r.measure, r.until = start, time.Time{}
		r.giveUp = start.Add(r.options.Ramp + time.Duration(r.options.Rounds)*r.options.Timeout)
	}
	var openers sync.WaitGroup
	for range 8 {
		openers.Go(func() {
			for caller := range r.starts {
				r.turn(caller)
			}
		})
	}
	r.mu.active.Add(len(r.requests))
	for caller := range r.requests {
		at := start.Add(r.options.Ramp * time.Duration(caller) / time.Duration(len(r.requests)))
		if !sleepUntil(ctx, at) {
			r.mu.active.Add(caller - len(r.requests))
			break
		}
		r.starts <- caller
	}
	r.mu.active.Wait()
	close(r.starts)
	openers.Wait()
	end := time.Now()
	if !r.until.IsZero() && end.After(r.until) {
		end = r.until
	}
	return end.Sub(r.measure)
}

func (r *streamRun) turn(caller int) {
	s := &messageStream{run: r, caller: caller, begin: time.Now()}
	r.mu.Lock()
	r.mu.open++
	r.mu.peak = max(r.mu.peak, r.mu.open)
	host := (caller + r.mu.broken[caller]) % len(r.fleet.hosts)
	r.mu.Unlock()
	if err := r.fleet.openAt(host, caller, r.requests[caller], s); err != nil {
		s.end(time.Now(), 0, nil, err)
	}
}

// messageStream is one streamed answer.
type messageStream struct {
	run       *streamRun
	caller    int
	begin     time.Time
	lastToken time.Time
	checker   messageChecker
	gaps      []time.Duration
	first     time.Duration
}

func (s *messageStream) frame(now time.Time, f frame) {
	if !s.checker.frame(f) {
		return
	}
	if s.lastToken.IsZero() {
		s.first = now.Sub(s.begin)
	} else {
		s.gaps = append(s.gaps, now.Sub(s.lastToken))
	}
	s.lastToken = now
}

func (s *messageStream) comment(time.Time, []byte) {}

func (s *messageStream) end(now time.Time, status int, body []byte, err error) {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.open--
	if s.brokenOff(status, body, err) && now.Before(r.giveUp) {
		r.mu.broken[s.caller]++
		time.AfterFunc(longestRetryPause, func() { r.starts <- s.caller }) // has room for every caller
		return
	}
	r.mu.rounds[s.caller]++
	over := !r.until.IsZero() && now.After(r.until)
	if now.After(r.measure) && !over {
		s.recordLocked(now, status, body, err)
	}
	if s.checker.fault != "" && len(r.mu.faults) < 20 {
		r.mu.faults = append(r.mu.faults, fmt.Sprintf("stream %d: %s", s.caller, s.checker.fault))
	}
	r.live.count(err)
	if over || (r.options.Rounds > 0 && r.mu.rounds[s.caller] >= r.options.Rounds) {
		r.mu.active.Done()
		return
	}
	if wait := limitOf(status, body).wait; wait > 0 {
		time.AfterFunc(wait, func() { r.starts <- s.caller }) // has room for every caller
		return
	}
	r.starts <- s.caller // has room for every caller
}

// brokenOff sends the message again at the next node after a node has died or could not serve. The first turn may still
// run; then the conversation is busy for a while.
func (s *messageStream) brokenOff(status int, body []byte, err error) bool {
	r := s.run
	if r.options.RetryFor <= 0 || s.checker.fault != "" {
		return false
	}
	switch {
	case err != nil, status == 503, status == 409 && r.mu.broken[s.caller] > 0 && errorCode(status, body) == codeBusy:
		return true
	default:
		return status == 200 && (!s.checker.done || s.checker.code == "stream.error unavailable")
	}
}

func (s *messageStream) recordLocked(now time.Time, status int, body []byte, err error) {
	r := s.run
	switch {
	case err != nil:
		err = &callError{Code: "stream: " + err.Error()}
	case status != 200:
		err = refusal(status, body)
	case s.checker.code != "":
		err = &callError{Code: s.checker.code}
	case !s.checker.done:
		err = errors.New("stream ended without stream.done")
	}
	r.mu.tally.add(err, now.Sub(s.begin))
	if s.first > 0 {
		record(r.mu.first, s.first)
	}
	for _, gap := range s.gaps {
		record(r.mu.gap, gap)
	}
	if s.first > 0 {
		r.mu.tokens += int64(len(s.gaps)) + 1
		r.mu.words += int64(s.checker.words)
	}
	if len(s.gaps) > 0 {
		record(r.mu.second, s.first+s.gaps[0])
	}
}
