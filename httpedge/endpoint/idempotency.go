package endpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Idempotency keeps the first answers to requests that carry an Idempotency-Key. Errors are a *machine.Failure or a fault.
type Idempotency interface {
	// Begin finds what is known of a request, and takes it for its key's when that is nothing. IDEMPOTENCY_CONFLICT: the key
	// was used for another request.
	Begin(ctx context.Context, request KeyedRequest) (*KeptRequest, error)
	// Keep stores the first answer. An answer that is too large to be kept is no error.
	Keep(ctx context.Context, kept *KeptRequest, answer KeptAnswer) error
	// Release forgets a request that was refused before it did anything: the key may be used again.
	Release(ctx context.Context, kept *KeptRequest) error
}

// KeyedRequest is a request with a key. The key is the caller's own, on one route.
type KeyedRequest struct {
	Caller Caller
	Route  string // method and pattern
	Key    string
	Hash   [sha256.Size]byte // of path, query and body
	// Once says that a repetition must not be carried out while there is no answer: IDEMPOTENCY_CONFLICT.
	Once bool
}

// KeptRequest is what is known of it. Seed is what RequestKey returns; Answer is nil until one was kept.
type KeptRequest struct {
	ID     string
	Seed   string
	Hash   [sha256.Size]byte
	Answer *KeptAnswer
}

// KeptAnswer is an answer that was given.
type KeptAnswer struct {
	Status      int
	ContentType string
	Body        []byte
}

const (
	// maxIdempotencyKey bounds a key, in bytes.
	maxIdempotencyKey = 255
	headerReplayed    = "Idempotency-Replayed"
	// keepTimeout bounds how long an answer waits to be kept.
	keepTimeout = 5 * time.Second
)

// beginKeyed looks at the request's key, if the route takes one and it has one. It returns nil when there is nothing to keep.
func (x *exchange) beginKeyed(ctx context.Context) (*KeptRequest, error) {
	store := x.mux.config.Idempotency
	if !x.route.Idempotent || store == nil {
		return nil, nil //nolint:nilnil // nothing to keep, nothing wrong
	}
	keys := x.rc.Request.Header.PeekAll(headerIdempotency)
	switch {
	case len(keys) == 0:
		return nil, nil //nolint:nilnil // as above
	case len(keys) > 1:
		return nil, failure.New(failurepb.Code_VALIDATION, failure.RepeatedHeader).Param("header", headerIdempotency)
	case len(keys[0]) == 0, len(keys[0]) > maxIdempotencyKey:
		return nil, badKey() // who means to be safe is not, without a key
	}
	key := keys[0]
	for _, c := range key {
		if c < ' ' || c > '~' {
			return nil, badKey()
		}
	}
	body, err := x.wholeBody()
	if err != nil {
		return nil, err
	}
	x.held = body
	request := KeyedRequest{Caller: x.call.Caller, Route: x.route.Method + " " + x.surface.prefix + x.route.Path, Key: string(key), Once: x.route.once}
	sum := sha256.New()
	for _, part := range [][]byte{x.rc.URI().PathOriginal(), x.rc.URI().QueryString(), body} {
		writePart(sum, part)
	}
	sum.Sum(request.Hash[:0])
	kept, err := store.Begin(ctx, request)
	if err != nil {
		return nil, err
	}
	if !x.route.once {
		x.call.requestKey = kept.Seed
	}
	return kept, nil
}

// writePart writes a part with its length, so that no two requests are the same text.
func writePart(sum hash.Hash, part []byte) {
	_, _ = fmt.Fprintf(sum, "%d:", len(part)) // a hash never fails
	_, _ = io.Writer(sum).Write(part)
}

func badKey() *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.BadIdempotencyKey).Param("most", maxIdempotencyKey)
}

// replay gives the first answer again.
func (x *exchange) replay(answer *KeptAnswer) {
	response := &x.rc.Response
	response.SetStatusCode(answer.Status)
	response.Header.SetContentType(answer.ContentType)
	response.Header.Set("Cache-Control", "no-store")
	response.Header.Set(headerReplayed, "true")
	response.SetBody(answer.Body)
}

// keep stores the answer that is about to be sent, if it is a success, or the refusal of what was carried out. One that cannot be
// stored is sent all the same: a repetition makes it again, from the same things.
func (x *exchange) keep(ctx context.Context, kept *KeptRequest) {
	response := &x.rc.Response
	if kept == nil || x.serve != nil || x.down != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if status := response.StatusCode(); status >= fasthttp.StatusMultipleChoices && !x.verdict.ran {
		if x.route.once && status < fasthttp.StatusInternalServerError && !x.verdict.cut { // else nobody knows what was done
			if err := x.mux.config.Idempotency.Release(ctx, kept); err != nil {
				x.cause = fmt.Errorf("release the key of a refused request: %w", err)
			}
		}
		return
	}
	if err := x.mux.config.Idempotency.Keep(ctx, kept, KeptAnswer{
		Status: response.StatusCode(), ContentType: string(response.Header.ContentType()), Body: bytes.Clone(response.Body()), // the response is used again
	}); err != nil {
		x.cause = fmt.Errorf("keep the answer of an idempotent request: %w", err)
	}
}
