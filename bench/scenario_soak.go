package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// soakSamples are taken over the time of a soak.
	soakSamples = 40
	// soakDeleted: one of so many conversations is deleted; the others are abandoned, as in real use.
	soakDeleted = 4
)

// runSoak creates, follows, uses and abandons new conversations, and fails if something in the servers grows, or if
// their memory is not freed afterwards.
func runSoak(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if len(o.Ops) == 0 {
		return nil, errors.New("this looks at the servers' ops listeners: -ops-url or -nodes")
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	s := &soak{options: o, client: c, body: c.createBody()}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	g := growth{done: s.done.Load}
	var failed error
	var sampler sync.WaitGroup
	l := &load{options: o, live: live, op: func(caller, n int) error { return s.visit(ctx, caller, n) }, begin: func() {
		sampler.Go(func() { failed = g.watch(watching, o.Ops, o.Duration/soakSamples) })
	}}
	total, took := l.run(ctx)
	end := time.Now()
	stop()
	sampler.Wait()
	if errors.Is(failed, context.Canceled) { // interrupted by the end of the load
		failed = nil
	}
	if err = errors.Join(failed, ctx.Err()); err != nil {
		return nil, err
	}
	report := newReport(o, total, took)
	report.Faults = g.judge(report)
	report.Faults = append(report.Faults, s.faults...)
	live.phase("waiting for the memory")
	most, err := s.afterwards(ctx, end.Add(o.Settle), report)
	if err != nil {
		return nil, err
	}
	if o.MaxMemory > 0 && most > float64(o.MaxMemory) {
		report.Faults = append(report.Faults, fmt.Sprintf("%.0f MB are resident %v after the load", most/1e6, o.Settle))
	}
	return report, nil
}

// soak is a load of conversations that are each used once.
type soak struct {
	options *Options
	client  *client
	body    []byte
	done    atomic.Int64
	mu      sync.Mutex
	faults  []string
}

// visit is the whole life of a conversation. Every other caller only creates one, so that more are created than with
// streams and turns alone.
func (s *soak) visit(ctx context.Context, caller, n int) error {
	defer s.done.Add(1)
	id, err := s.client.create(s.body)
	if err != nil || caller%2 == 1 {
		return err
	}
	f, err := s.follow(ctx, caller, id)
	if err != nil {
		return err
	}
	defer f.close()
	if err = s.client.call("POST", "/conversations/"+id+"/messages", []byte(`{"message":"ping","stream":false}`), 200, completed); err != nil {
		return err
	}
	if err = f.read(func() bool { return f.idle }); err != nil {
		return err
	}
	if n%soakDeleted == 0 {
		return s.client.call("DELETE", "/conversations/"+id, nil, 204, nil)
	}
	return nil
}

// afterwards reports the memory of the servers at a time, and returns that of the largest.
func (s *soak) afterwards(ctx context.Context, at time.Time, r *Report) (most float64, err error) {
	atOnce := serverStats(ctx, s.options)
	r.Numbers["MB resident at the end of the load"] = atOnce[statMemory] / 1e6
	if !sleepUntil(ctx, at) {
		return 0, ctx.Err()
	}
	for _, ops := range s.options.Ops {
		one := statsOf(ctx, ops)
		if one[statMemory] == 0 {
			return 0, fmt.Errorf("%s does not tell its memory", ops)
		}
		most = max(most, one[statMemory])
	}
	r.Numbers[fmt.Sprintf("MB resident of the largest, %v later", s.options.Settle)] = most / 1e6
	return most, nil
}

// soakStream is a follower on a connection of its own, read by its caller.
type soakStream struct {
	soak    *soak
	conn    net.Conn
	parser  parser
	checker eventChecker
	buffer  []byte
	open    bool
	idle    bool // the turn has ended
}

// follow opens the event stream of a conversation and waits until it is open.
func (s *soak) follow(ctx context.Context, caller int, id string) (*soakStream, error) {
	u, err := url.Parse(s.options.URLs[caller%len(s.options.URLs)])
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: s.options.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, &callError{Code: "stream: not connected"}
	}
	f := &soakStream{soak: s, conn: conn, buffer: make([]byte, 4<<10)}
	if err = conn.SetDeadline(time.Now().Add(s.options.Timeout)); err == nil {
		_, err = conn.Write(followRequest(s.options, u.Host, id, 0))
	}
	if err == nil {
		err = f.read(func() bool { return f.open })
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *soakStream) close() { _ = f.conn.Close() } // it has served

// read parses the stream until enough returns true.
func (f *soakStream) read(enough func() bool) error {
	for !enough() {
		n, err := f.conn.Read(f.buffer)
		if err == nil {
			err = f.parser.feed(f.buffer[:n], f.frame, f.comment)
		}
		switch {
		case f.checker.fault != "":
			f.soak.fault(f.checker.fault)
			return &callError{Code: "stream: wrong"}
		case enough():
			return nil
		case f.parser.ended && f.parser.status != 200:
			return &callError{Status: f.parser.status, Code: "stream: " + errorCode(f.parser.status, f.parser.body)}
		case err != nil || f.parser.ended:
			return &callError{Code: "stream: ended"}
		}
	}
	return nil
}

func (f *soakStream) frame(fr frame) {
	if f.checker.frame(fr) > 0 && string(fr.event) == "session.status_idle" {
		f.idle = true
	}
}

func (f *soakStream) comment(text []byte) {
	f.open = f.open || strings.TrimSpace(string(text)) == "open"
}

func (s *soak) fault(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < 20 {
		s.faults = append(s.faults, what)
	}
}
