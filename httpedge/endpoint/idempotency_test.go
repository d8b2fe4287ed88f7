package endpoint

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// keptRequests is Idempotency in memory.
type keptRequests struct {
	known   map[string]*KeptRequest
	keepErr error
}

func (k *keptRequests) Begin(_ context.Context, request KeyedRequest) (*KeptRequest, error) {
	id := request.Caller.UserID + "/" + request.Route + "/" + request.Key
	found, ok := k.known[id]
	switch {
	case ok && request.Once && found.Answer == nil:
		return nil, failure.Verbatim(failurepb.Code_VALIDATION, "under way")
	case ok && found.Hash != request.Hash:
		return nil, failure.Verbatim(failurepb.Code_VALIDATION, "another request")
	case !ok:
		found = &KeptRequest{ID: id, Seed: "seed of " + id, Hash: request.Hash}
		k.known[id] = found
	}
	return found, nil
}

func (k *keptRequests) Release(_ context.Context, kept *KeptRequest) error {
	delete(k.known, kept.ID)
	return nil
}

func (k *keptRequests) Keep(_ context.Context, kept *KeptRequest, answer KeptAnswer) error {
	if k.keepErr == nil {
		k.known[kept.ID].Answer = &answer
	}
	return k.keepErr
}

func TestIdempotency(t *testing.T) {
	store := &keptRequests{known: map[string]*KeptRequest{}}
	var seeds []string
	type in struct {
		ID   string `path:"id"`
		Mode string `query:"mode"`
		Text string `json:"text"`
	}
	type out struct {
		Text string `json:"text"`
		Try  int    `json:"try"`
	}
	handle := func(ctx context.Context, in *in) (*out, error) {
		seeds = append(seeds, RequestKey(ctx))
		if in.Text == "bad" {
			return nil, errors.New("broken")
		}
		return &out{Text: in.Text, Try: len(seeds)}, nil
	}
	mux := newTestMux(t, On("POST /keyed/{id}", "a:write", handle, Status(201), Idempotent()), On("POST /plain/{id}", "a:write", handle))
	mux.config.Idempotency = store

	first := ask(mux, "POST", "/x/keyed/1", `{"text":"hi"}`, "Idempotency-Key", "k")
	require.Equal(t, 201, first.Response.StatusCode())
	require.JSONEq(t, `{"text":"hi","try":1}`, string(first.Response.Body()))
	require.Empty(t, first.Response.Header.Peek("Idempotency-Replayed"))
	again := ask(mux, "POST", "/x/keyed/1", `{"text":"hi"}`, "Idempotency-Key", "k")
	require.Equal(t, 201, again.Response.StatusCode())
	require.Equal(t, string(first.Response.Body()), string(again.Response.Body()))
	require.Equal(t, "true", string(again.Response.Header.Peek("Idempotency-Replayed")))
	require.Equal(t, "application/json", string(again.Response.Header.ContentType()))
	require.Len(t, seeds, 1, "the handler ran once")
	require.NotEmpty(t, seeds[0])

	for name, other := range map[string][2]string{
		"body": {"/x/keyed/1", `{"text":"ho"}`}, "path": {"/x/keyed/2", `{"text":"hi"}`}, "query": {"/x/keyed/1?mode=a", `{"text":"hi"}`},
	} {
		rc := ask(mux, "POST", other[0], other[1], "Idempotency-Key", "k")
		require.Equal(t, 400, rc.Response.StatusCode(), name)
		require.Equal(t, "another request", string(rc.Response.Body()), name)
	}
	for _, key := range []string{"", strings.Repeat("k", 256), "k\tk", "ké"} {
		require.Equal(t, 400, ask(mux, "POST", "/x/keyed/1", `{}`, "Idempotency-Key", key).Response.StatusCode(), key)
	}

	var twice fasthttp.Request
	twice.Header.SetMethod("POST")
	twice.SetRequestURI("/x/keyed/1")
	twice.Header.Add("Idempotency-Key", "a")
	twice.Header.Add("Idempotency-Key", "b")
	rc := &fasthttp.RequestCtx{}
	rc.Init(&twice, nil, nil)
	mux.Serve(rc)
	require.Equal(t, 400, rc.Response.StatusCode())

	seeds = nil
	ask(mux, "POST", "/x/keyed/1", `{"text":"hi"}`)
	ask(mux, "POST", "/x/plain/1", `{"text":"hi"}`, "Idempotency-Key", "k")
	require.Equal(t, []string{"", ""}, seeds, "without a key, and where none is taken")

	seeds = nil
	for range 2 { // a failure is not kept: the same seed goes on
		require.Equal(t, 500, ask(mux, "POST", "/x/keyed/1", `{"text":"bad"}`, "Idempotency-Key", "f").Response.StatusCode())
	}
	require.Len(t, seeds, 2)
	require.Equal(t, seeds[0], seeds[1])

	seeds = nil
	store.keepErr = errors.New("disk")
	for try := range 2 { // nor does it matter to the caller that an answer cannot be kept
		rc := ask(mux, "POST", "/x/keyed/1", `{"text":"late"}`, "Idempotency-Key", "l")
		require.Equal(t, 201, rc.Response.StatusCode())
		require.Len(t, seeds, try+1)
	}
	require.Equal(t, seeds[0], seeds[1])
}

// TestOnce: a handler that makes new ids each time is run once for a key, unless it refused before it did anything.
func TestOnce(t *testing.T) {
	store := &keptRequests{known: map[string]*KeptRequest{}}
	runs := 0
	type in struct {
		Text string `json:"text"`
	}
	var inside func()
	handle := func(ctx context.Context, in *in) (*in, error) {
		runs++
		require.Empty(t, RequestKey(ctx), "it is as if there were no key")
		if inside != nil {
			again := inside
			inside = nil
			again()
		}
		switch in.Text {
		case "refused":
			return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "no")
		case "ran":
			return nil, &Problem{Status: 400, Code: "blocked", Message: "what came of it is not told", Ran: true}
		case "broken":
			return nil, errors.New("who knows what was done")
		}
		return in, nil
	}
	mux := newTestMux(t, On("POST /once", "a:write", handle, Status(201), Once()), On("POST /keyed", "a:write", func(_ context.Context, in *in) (*in, error) {
		runs++
		return nil, &Problem{Status: 400, Code: "blocked", Message: "what came of it is not told", Ran: true}
	}, Idempotent()))
	mux.config.Idempotency = store
	post := func(text, key string) int {
		return ask(mux, "POST", "/x/once", `{"text":"`+text+`"}`, "Idempotency-Key", key).Response.StatusCode()
	}
	inside = func() { require.Equal(t, 400, post("hi", "k"), "it is under way") }
	require.Equal(t, []int{201, 201}, []int{post("hi", "k"), post("hi", "k")})
	require.Equal(t, 1, runs)
	require.Equal(t, []int{404, 404, 201}, []int{post("refused", "r"), post("refused", "r"), post("hi", "r")})
	require.Equal(t, 4, runs, "what was refused did nothing")
	require.Equal(t, []int{500, 400}, []int{post("broken", "b"), post("broken", "b")}, "it may have done something")
	require.Equal(t, 5, runs)
	for _, path := range []string{"/x/once", "/x/keyed"} {
		first := ask(mux, "POST", path, `{"text":"ran"}`, "Idempotency-Key", "p")
		again := ask(mux, "POST", path, `{"text":"ran"}`, "Idempotency-Key", "p")
		require.Equal(t, []any{400, "true"}, []any{first.Response.StatusCode(), string(again.Response.Header.Peek("Idempotency-Replayed"))}, path)
		require.Equal(t, []any{400, string(first.Response.Body()), string(first.Response.Header.ContentType())},
			[]any{again.Response.StatusCode(), string(again.Response.Body()), string(again.Response.Header.ContentType())}, path)
		require.Equal(t, 400, ask(mux, "POST", path, `{"text":"hi"}`, "Idempotency-Key", "p").Response.StatusCode(), "another request")
	}
	require.Equal(t, 7, runs, "what ran is not run again, however it was refused")
}

// second is an Authenticator that has second thoughts.
type second struct{ everyone }

func (second) Watch(Caller, *Route) func() *machine.Failure {
	return func() *machine.Failure { return failure.Verbatim(failurepb.Code_NOT_FOUND, "no more") }
}

// TestOnceIsCut: what a request had done is not known when its caller lost the access, or left, before its handler was through.
func TestOnceIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		mux := newTestMux(t, On("POST /once", "a:write", func(ctx context.Context, _ *struct{}) (*Empty, error) {
			runs++
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, Status(204), Once(), Timeout(time.Hour)))
		mux.config.Idempotency = &keptRequests{known: map[string]*KeptRequest{}}
		mux.config.Authenticator, mux.config.RequestTimeout = second{}, time.Second
		for _, want := range []int{404, 400} {
			require.Equal(t, want, ask(mux, "POST", "/x/once", `{}`, "Idempotency-Key", "k").Response.StatusCode())
		}
		require.Equal(t, 1, runs)
	})
}
