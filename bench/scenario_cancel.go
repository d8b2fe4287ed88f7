package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// runCancel starts long turns, cancels each at a node that does not own it, and measures the time of that call. A
// cancel that is not settled (202) is an error here, since these nodes can always confirm.
func runCancel(ctx context.Context, o *Options, live *progress) (*Report, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	names, err := c.names()
	if err != nil {
		return nil, err
	}
	ids, err := conversations(ctx, c, live, max(cmp.Or(o.Records, o.Concurrency), o.Concurrency))
	if err != nil {
		return nil, err
	}
	streams, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	defer streams.close()
	r := &cancelRun{client: c, streams: streams, names: names, ids: ids, took: newTally()}
	r.lock = make(chan struct{}, 1)
	l := &load{options: o, live: live, op: func(caller, n int) error { return r.one(ctx, caller, n) }}
	report, err := measure(ctx, c, l)
	if err != nil {
		return nil, err
	}
	report.Latencies = map[string]Latency{"cancel": latency(r.took.latency)}
	report.Errors = map[string]int64{}
	for code, n := range r.took.errors {
		report.Errors[code] += n
	}
	return report, nil
}

type cancelRun struct {
	client  *client
	streams *fleet
	names   []string
	ids     []string
	lock    chan struct{}
	took    *tally
}

func (r *cancelRun) one(ctx context.Context, caller, n int) error {
	own := (len(r.ids) - caller + r.client.options.Concurrency - 1) / r.client.options.Concurrency
	at := caller + (n%own)*r.client.options.Concurrency
	if r.ids[at] == "" { // the last turn may still be running
		id, err := r.client.create(r.client.createBody())
		if err != nil {
			return r.add(err, 0)
		}
		r.ids[at] = id
	}
	err := r.cancel(ctx, caller, n, r.ids[at])
	if err != nil {
		r.ids[at] = ""
	}
	return err
}

func (r *cancelRun) cancel(ctx context.Context, caller, n int, id string) error {
	owner, err := r.client.ownerOf(id, r.names)
	if err != nil {
		return r.add(err, 0)
	}
	answer := &cancelled{text: make(chan struct{}), ended: make(chan error, 1)}
	if err = r.streams.openAt(owner, caller, streamRequest(r.client.options, r.streams.hosts[owner], id), answer); err != nil {
		return r.add(err, 0)
	}
	select {
	case <-answer.text:
	case err = <-answer.ended:
		return r.add(fmt.Errorf("send: %w", err), 0)
	case <-ctx.Done():
		return nil
	}
	from := owner
	if others := len(r.names) - 1; others > 0 {
		from = (owner + 1 + n%others) % len(r.names)
	}
	var outcome struct{ Cancelled, Settled bool }
	began := time.Now()
	_, err = r.client.attempt(from, &request{
		method: "POST", path: "/conversations/" + id + "/cancel", want: 200,
		read: func(text []byte) error { return json.Unmarshal(text, &outcome) },
	})
	took := time.Since(began)
	switch {
	case err != nil:
		err = fmt.Errorf("cancel: %w", err)
	case !outcome.Cancelled || !outcome.Settled:
		err = errors.New("cancel did not settle")
	default:
		select {
		case err = <-answer.ended:
		case <-time.After(r.client.options.AttemptTimeout):
			err = errors.New("the stream goes on after the cancel")
		}
	}
	return r.add(err, took)
}

func (r *cancelRun) add(err error, took time.Duration) error {
	r.lock <- struct{}{}
	defer func() { <-r.lock }()
	r.took.add(err, took)
	return err
}

// cancelled is the stream of a turn that will be cancelled.
type cancelled struct {
	checker messageChecker
	text    chan struct{} // closed at the first piece of text
	heard   bool
	ended   chan error
}

func (s *cancelled) frame(_ time.Time, f frame) {
	if s.checker.frame(f) && !s.heard {
		s.heard = true
		close(s.text)
	}
}

func (s *cancelled) comment(time.Time, []byte) {}

func (s *cancelled) end(_ time.Time, status int, body []byte, err error) {
	switch {
	case err != nil:
	case status != 200:
		err = &callError{Status: status, Code: errorCode(status, body)}
	case s.checker.fault != "":
		err = errors.New(s.checker.fault)
	case !strings.HasSuffix(s.checker.code, "cancelled"):
		err = errors.New("the turn was not cancelled: " + s.checker.code)
	}
	s.ended <- err
}
