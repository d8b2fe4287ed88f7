package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

const openFor = 30 * time.Second

func executor(circuits *Circuits) *Executor {
	return registered(circuits, nil)
}

func registered(circuits *Circuits, registry prometheus.Registerer) *Executor {
	return New(Config{
		RetryBase: time.Second, RetryMax: 4 * time.Second, MaxRetryAfter: 20 * time.Second, Circuits: circuits,
		Metrics: "test", Label: "provider", Jitter: func() float64 { return 0 }, Registerer: registry,
	})
}

func always(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

var errRefusedHere = errors.New("the adapter refuses this by itself")

// TestRun: how many attempts are made, and how long it takes.
func TestRun(t *testing.T) {
	busy := func(after time.Duration) *Failure { return &Failure{Class: Overloaded, Status: 503, After: after} }
	for name, c := range map[string]struct {
		errs     []error // of the attempts; the last one repeats
		retries  int
		within   time.Duration
		attempts int
		took     time.Duration
		ok       bool
	}{
		"at once":                                {errs: []error{nil}, retries: 2, attempts: 1, ok: true},
		"pauses double":                          {errs: []error{busy(0), busy(0), nil}, retries: 2, attempts: 3, took: 3 * time.Second, ok: true},
		"up to the longest":                      {errs: []error{busy(0)}, retries: 4, attempts: 5, took: 11 * time.Second},
		"as long as the provider asks for":       {errs: []error{busy(15 * time.Second), nil}, retries: 2, attempts: 2, took: 15 * time.Second, ok: true},
		"a longer pause is not made":             {errs: []error{busy(time.Minute)}, retries: 2, attempts: 1},
		"a pause beyond the deadline neither":    {errs: []error{busy(0)}, retries: 9, within: 4 * time.Second, attempts: 3, took: 3 * time.Second},
		"a refusal":                              {errs: []error{&Failure{Class: Invalid, Status: 400}}, retries: 2, attempts: 1},
		"a refusal of the adapter":               {errs: []error{errRefusedHere}, retries: 2, attempts: 1},
		"the provider says that it is of no use": {errs: []error{&Failure{Class: Overloaded, Status: 503, Retry: "false"}}, retries: 2, attempts: 1},
		"the surface wants no more":              {errs: []error{&Failure{Class: Conflict, Status: 409, Final: true}}, retries: 2, attempts: 1},
		"too long by our clock":                  {errs: []error{Judge(ErrFirstToken, Redactor{})}, retries: 2, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.within > 0 {
					bounded, cancel := context.WithTimeout(ctx, c.within)
					defer cancel()
					ctx = bounded
				}
				attempts, start := 0, time.Now()
				err := executor(nil).Start(Call{Retries: c.retries}).Run(ctx, func(_ context.Context, number int) error {
					require.Equal(t, attempts, number)
					attempts++
					return c.errs[min(number, len(c.errs)-1)]
				})
				require.Equal(t, c.ok, err == nil, err)
				require.Equal(t, c.attempts, attempts)
				require.Equal(t, c.took, time.Since(start))
			})
		})
	}
}

// TestBegun: nothing is repeated once a piece was passed on, and the service counts as healthy from then on.
func TestBegun(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	e := registered(NewCircuits(1, openFor), registry)
	call := e.Start(Call{Name: "n", Circuit: "x", Retries: 5})
	attempts := 0
	err := call.Run(t.Context(), func(context.Context, int) error {
		attempts++
		call.Begun()
		call.Begun()
		return &Failure{Class: Cut}
	})
	require.Error(t, err)
	require.Equal(t, 1, attempts)
	require.True(t, allows(e.config.Circuits, "x"))
	call.End("cut")
	families, err := registry.Gather()
	require.NoError(t, err)
	counted := map[string]string{}
	for _, family := range families {
		counted[family.GetName()] = family.GetMetric()[0].String()
	}
	require.Len(t, counted, 4)
	require.Contains(t, counted["test_calls_total"], `value:"cut"`)
	require.Contains(t, counted["test_running_calls"], "gauge:{value:0}")
	require.Contains(t, counted["test_first_token_seconds"], "sample_count:1")
	require.Contains(t, counted["test_call_duration_seconds"], "sample_count:1")
}

// open makes the circuit x open.
func open(t *testing.T, e *Executor) {
	t.Helper()
	require.Error(t, e.Start(Call{Circuit: "x"}).Run(t.Context(), always(&Failure{Class: ServerError, Status: 500})))
}

// TestOpenCircuit: who has no patience is refused at once; who has waits until the service is tried, and goes on if it works.
func TestOpenCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(NewCircuits(1, openFor))
		open(t, e)
		var failed *Failure
		require.ErrorAs(t, e.Start(Call{Circuit: "x"}).Run(t.Context(), always(nil)), &failed)
		require.Equal(t, CircuitOpen, failed.Class)
		require.Equal(t, openFor, failed.After)
		require.False(t, failed.Again() || failed.Outage() || failed.Unanswered())
		const left = openFor - openFor/3
		time.Sleep(openFor - left)
		require.ErrorAs(t, e.Start(Call{Circuit: "x"}).Run(t.Context(), always(nil)), &failed)
		require.Equal(t, left, failed.After)
		require.NoError(t, e.Start(Call{Circuit: "y"}).Run(t.Context(), always(nil)), "others go on")

		short, cancel := context.WithTimeout(t.Context(), left/2)
		defer cancel()
		start := time.Now()
		require.ErrorAs(t, e.Start(Call{Circuit: "x", Patient: true}).Run(short, always(nil)), &failed, "it would wait beyond its deadline")
		require.Zero(t, time.Since(start))

		// Three patient calls: one tries, the others wait for what it finds.
		attempts := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				call := e.Start(Call{Circuit: "x", Patient: true})
				_ = call.Run(t.Context(), func(ctx context.Context, _ int) error {
					attempts <- time.Since(start)
					if err := sleep(ctx, time.Second); err != nil {
						return err
					}
					call.Begun()
					return sleep(ctx, time.Minute) // the rest of the answer is not waited for
				})
			}()
		}
		synctest.Wait()
		require.Equal(t, left, <-attempts)
		for range 2 {
			require.Equal(t, left+time.Second, <-attempts)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestStillDown: a patient call waits for one trial, not for ever, and it ends with its context.
func TestStillDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executor(NewCircuits(1, openFor))
		open(t, e)
		results := make(chan error, 2)
		for range 2 {
			go func() {
				results <- e.Start(Call{Circuit: "x", Patient: true}).Run(t.Context(), func(ctx context.Context, _ int) error {
					_ = sleep(ctx, time.Second)
					return &Failure{Class: Unreachable}
				})
			}()
		}
		classes := map[Class]int{}
		start := time.Now()
		for range 2 {
			var failed *Failure
			require.ErrorAs(t, <-results, &failed)
			classes[failed.Class]++
		}
		require.Equal(t, map[Class]int{Unreachable: 1, CircuitOpen: 1}, classes)
		require.Equal(t, openFor+time.Second, time.Since(start))

		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		require.ErrorIs(t, e.Start(Call{Circuit: "x", Patient: true}).Run(ctx, always(nil)), gone)
	})
}

func TestCircuitID(t *testing.T) {
	model := &agentpb.Model{Provider: agentpb.Provider_OPENAI, BaseUrl: "http://a", ApiKey: testKey}
	other := &agentpb.Model{Provider: agentpb.Provider_OPENAI, BaseUrl: "http://b"}
	require.NotEqual(t, CircuitID(Whole, "p", model), CircuitID(Streamed, "p", model))
	require.NotEqual(t, CircuitID(Whole, "p", model), CircuitID(Whole, "q", model))
	require.NotEqual(t, CircuitID(Whole, "p", model), CircuitID(Whole, "p", other))
	account := &agentpb.Model{Provider: agentpb.Provider_OPENAI, BaseUrl: "http://a", ApiKey: "another"}
	require.NotEqual(t, CircuitID(Whole, "p", model), CircuitID(Whole, "p", account))
	require.Equal(t, CircuitID(Whole, "p", model), CircuitID(Whole, "p", &agentpb.Model{Provider: agentpb.Provider_OPENAI, BaseUrl: "http://a", ApiKey: testKey}))
	require.NotContains(t, CircuitID(Whole, "p", model), testKey)
}

func TestRetries(t *testing.T) {
	for own, want := range map[int32]int{0: 3, 5: 5, -1: 0, 1000: maxRetries} {
		require.Equal(t, want, Retries(&agentpb.Model{MaxRetries: own}, 3))
	}
	require.Zero(t, Retries(nil, -1))
}
