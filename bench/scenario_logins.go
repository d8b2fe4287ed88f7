package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	loginPassword = "Bench-passw0rd"
	loginRounds   = 3
	// loginPhase bounds a phase with logins: what has not been answered by then fails the run.
	loginPhase = 2 * time.Minute
)

// loginFlags let one address sign in as often as the scenario does.
const loginFlags = " --accounts-login-attempts 1000000 --accounts-account-attempts 1000000 --accounts-register-attempts 1000000"

// loginRun compares the turns of some users while nobody signs in with their turns while -count others do at once.
type loginRun struct {
	options       *Options
	live          *progress
	accounts      *client
	turns         operation
	quiet, during *tally
	logins        *tally
	ratios        []float64 // of the 99th percentiles, round by round
	took          time.Duration
}

// runLogins alternates quiet phases and phases of -count logins at once, in which the same turns go on at -rate.
func runLogins(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.Rate == 0 || o.Count == 0 {
		return nil, errors.New("-rate and -count must be above 0")
	}
	server, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	own := *o
	own.Concurrency = max(o.Concurrency, o.Count) // connections
	accounts, err := newClientAt(&own, o.URLs, "/api")
	if err != nil {
		return nil, err
	}
	defer accounts.close()
	ids, err := conversations(ctx, server, live, max(cmp.Or(o.Records, o.Concurrency), o.Concurrency))
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]string{"companyName": "Bench", "name": "Bench", "email": "bench@example.test", "password": loginPassword})
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	if err = accounts.call("POST", "/auth/register", body, 201, nil); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	send := []byte(`{"message":"ping","stream":false}`)
	r := &loginRun{
		options: o, live: live, accounts: accounts, quiet: newTally(), during: newTally(), logins: newTally(),
		turns: func(caller, n int) error {
			each := (len(ids) - caller + o.Concurrency - 1) / o.Concurrency
			return server.call("POST", "/conversations/"+ids[caller+(n%each)*o.Concurrency]+"/messages", send, 200, completed)
		},
	}
	if o.WarmUp > 0 {
		live.phase("warm-up")
		r.phase(ctx, o.WarmUp)
	}
	began := time.Now()
	for round := range cmp.Or(o.Rounds, loginRounds) {
		if err = r.round(ctx, round); err != nil {
			return nil, err
		}
	}
	return r.report(time.Since(began)), ctx.Err()
}

// phase sends turns for a time.
func (r *loginRun) phase(ctx context.Context, length time.Duration) *tally {
	l := &load{options: r.options, live: r.live, op: r.turns}
	return l.phase(ctx, time.Now().Add(length), 0)
}

// round is a quiet phase, and one in which turns go on until all logins are answered.
func (r *loginRun) round(ctx context.Context, number int) error {
	r.live.phase(fmt.Sprintf("round %d: quiet", number+1))
	quiet := r.phase(ctx, r.options.Duration)
	r.live.phase(fmt.Sprintf("round %d: %d logins at once", number+1, r.options.Count))
	busy, stop := context.WithTimeout(ctx, loginPhase)
	defer stop()
	began := time.Now()
	var logins sync.WaitGroup
	logins.Go(func() {
		defer stop()
		r.login()
	})
	during := r.phase(busy, loginPhase)
	logins.Wait()
	if errors.Is(busy.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%d logins are not answered within %v", r.options.Count, loginPhase)
	}
	r.took += time.Since(began)
	r.quiet.merge(quiet)
	r.during.merge(during)
	if quiet.ok > 0 && during.ok > 0 {
		r.ratios = append(r.ratios, percentile(during.latency)/percentile(quiet.latency))
	}
	return ctx.Err()
}

func percentile(h *hdrhistogram.Histogram) float64 { return latency(h).P99 }

// login has all sign in at once, and waits for the answers.
func (r *loginRun) login() {
	body := []byte(`{"email":"bench@example.test","password":"` + loginPassword + `"}`)
	var all sync.WaitGroup
	var mu sync.Mutex
	var misread atomic.Int64
	for range r.options.Count {
		all.Go(func() {
			began := time.Now()
			err := r.accounts.call("POST", "/auth/login", body, 200, func(answer []byte) error {
				if !bytes.Contains(answer, []byte("Login successful")) {
					misread.Add(1)
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			r.logins.add(err, time.Since(began))
		})
	}
	all.Wait()
	if misread.Load() > 0 {
		r.logins.errors["200 bad answer"] += misread.Load()
	}
}

func (r *loginRun) report(took time.Duration) *Report {
	turns := newTally()
	turns.merge(r.quiet)
	turns.merge(r.during)
	report := newReport(r.options, turns, took)
	for code, count := range r.logins.errors {
		report.Errors["login: "+code] += count
	}
	report.Latencies = map[string]Latency{
		"turn, nobody signs in": latency(r.quiet.latency), fmt.Sprintf("turn, %d sign in", r.options.Count): latency(r.during.latency),
		"login": latency(r.logins.latency),
	}
	report.Numbers["logins per second"] = float64(r.logins.ok) / r.took.Seconds()
	if len(r.ratios) == 0 {
		report.Faults = append(report.Faults, "no turn was answered")
		return report
	}
	slices.Sort(r.ratios)
	report.Numbers["p99 of turns during logins over before, all rounds"] = percentile(r.during.latency) / percentile(r.quiet.latency)
	report.Numbers["p99 of turns during logins over before, median of rounds"] = r.ratios[len(r.ratios)/2]
	report.Numbers["p99 of turns during logins over before, worst round"] = r.ratios[len(r.ratios)-1]
	return report
}
